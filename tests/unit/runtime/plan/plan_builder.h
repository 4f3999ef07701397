// Plans for tests, built without the compiler: stencils from bytes, an ELF object around them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/verify.h"

namespace mdl::plan::test {

// A stencil from bytes in hexadecimal, with its holes in brackets: [cell0] [const1] [const1:8]
// [guard] [anomalies] [next] [thread] [symbol0:8] [left0:1] [right0:1], and a routine's name. A hole has
// 4 bytes unless it says otherwise.
// It declares one counter `value` that it reads and writes, no clobbers, flags written.
Stencil stencil(const std::string& name, const std::string& code);

// The four instructions that read a variable: movabs rax, symbol; mov rax, [rax]; shl rax, left; sar rax,
// right.
inline constexpr const char* kVariable = "48 b8 [symbol0:8] 48 8b 00 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]";

// The stencil's code with its holes filled by `values`, in order.
std::vector<std::byte> filled(const Stencil& stencil, const std::vector<int64_t>& values);

// What verifies stencils of this machine.
const TargetRules& rules();

struct Relocation {
  uint64_t offset = 0;  // in .text
  uint32_t type = 0;
  std::string symbol;
  int64_t addend = 0;
};

// What goes into the file. Tests change fields to get what a reader must refuse.
struct Object {
  uint16_t machine = 62;  // EM_X86_64
  uint16_t type = 1;      // ET_REL
  std::string manifest;   // JSON
  std::vector<std::byte> text;
  struct Symbol {
    std::string name;
    uint64_t offset = 0, size = 0;
    uint8_t type = 2;      // STT_FUNC
    uint16_t section = 1;  // .text; 0 is undefined
  };
  std::vector<Symbol> symbols;
  std::vector<Relocation> relocations;
};

// The object of a plan whose stencils are `stencils` and `guard`; its manifest's stencils
// are taken from them.
Object object_of(format::Manifest manifest, const std::vector<Stencil>& stencils);
std::vector<std::byte> write(const Object& object);

// Puts the right checksum into bytes that write() made and a test has changed since; nothing when
// there is no place for it any more.
void seal(std::vector<std::byte>& bytes);

// A plan with one metric `calls` that counts the entries of every procedure, and one
// constraint; what most tests start from.
format::Manifest small_manifest();
std::vector<Stencil> small_stencils();
Stencil guard_stencil();

}  // namespace mdl::plan::test
