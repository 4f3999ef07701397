// Runs stencils on this machine's processor, in this process: holes filled, registers and
// the thread block set up as an injector does, everything compared afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/interpret.h"
#include "runtime/plan/plan.h"

namespace mdl::exec {

// In the machine's encoding order, as in the target's description.
inline constexpr int kRegisters = 16;

// A plan of the snippets, through the real writer and the real reader. Snippets that the
// backend refuses are left out and named in `refused`.
struct Compiled {
  plan::Plan plan;
  std::vector<size_t> snippets;  // of each stencil: index into what was given
  std::vector<std::string> refused;
};
Result<Compiled> compile(const std::vector<ir::Snippet>& snippets);

// Pages of memory that can be written and executed.
class Page {
 public:
  Page();
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  // Copies code in and answers where it is.
  const void* put(const std::vector<std::byte>& code);

 private:
  std::byte* memory_;
};

// Runs a stencil on a machine's values. Answers what went wrong besides the values: a
// register or flag changed that was not declared, a byte of the block that is no cell's.
std::string run(const plan::Stencil& stencil, ir::Machine& machine, Page& page);

// Runs the guard stencil with the flag at `value`; answers whether it fell through.
bool passes_guard(const plan::Stencil& guard, int64_t value, Page& page);

}  // namespace mdl::exec
