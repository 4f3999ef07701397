// Functions that must not be instrumented: those that a plan excludes, and those that do not follow the
// calling convention.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/manifest.h"
#include "runtime/image/image.h"

namespace mdl::focus {

enum class OwnAbi : uint8_t {
  no,
  unusual,  // follows the calling convention, but returns twice, never, or is no call:
            // not in $procedures, yet may be named
  never,    // keeps registers that the convention lets a callee change, or takes operands in
            // ways of its own: a probe in it would change the program
};
// Code that GHC made, or the assembly of its run-time system.
bool is_haskell(const image::Object& object, const image::Function& function);
// Code that OCaml's compiler made, by its names: `camlModule__function_12` (from 5.2 on with a dot). It passes
// arguments in registers of its own choice, and its exceptions leave frames without a call of anything.
bool is_ocaml(const image::Function& function);
OwnAbi own_abi(const image::Object& object, const image::Function& function);

// The exclude definitions of a plan, ready to be asked.
class Exclusions {
 public:
  static Result<Exclusions> make(const std::vector<format::Exclude>& excludes);
  Exclusions(Exclusions&&) noexcept;
  ~Exclusions();

  bool excludes(const image::Object& object, const image::Function& function) const;
  bool excludes(const image::Object& object) const;

 private:
  struct Patterns;
  explicit Exclusions(std::unique_ptr<Patterns> patterns);
  bool matches(const std::string& path) const;
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace mdl::focus
