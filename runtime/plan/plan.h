// A plan as the injector holds it: read, bounds-checked and verified.
//
// read_plan() takes untrusted bytes. It checks the checksum, the ELF object, the manifest
// and that every hole lies inside its stencil; verify.h then decodes each stencil and
// admits only what the rules allow. Nothing downstream checks a stencil again except
// after its holes are filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/manifest.h"
#include "format/signature.h"

namespace mdl::plan {

enum class HoleKind : uint8_t {
  cell,          // index: into StencilInfo::cells; value: byte offset in the thread block
  constant,      // index: into StencilInfo::constants; value: the integer
  guard,         // value: byte offset of the flag tested
  anomalies,     // value: byte offset of the block's anomaly counter
  next,          // pc-relative: the continuation
  symbol,        // index: into StencilInfo::symbols; value: a function's address, or that of the 8 aligned
                 // bytes that a variable lies in
  symbol_left,   // index: likewise; value: how far these bytes are shifted left (0 to 63) ...
  symbol_right,  // index: likewise; value: ... and then right, so that the variable is left
  routine,       // index: a format::Routine that the stencil declares; pc-relative: a call's destination
  thread,        // value: byte offset, in the thread block, of the thread's id
};
inline bool is_pc_relative(HoleKind kind) {
  return kind == HoleKind::routine || kind == HoleKind::next;
}

struct Hole {
  uint32_t offset = 0;  // of the field, from the stencil's first byte
  uint8_t size = 4;     // of the field: 4 (sign-extended), 8 or 1
  HoleKind kind = HoleKind::cell;
  uint32_t index = 0;
  int64_t addend = 0;  // value + addend goes into the field; minus the field's address when pc-relative
};

// The time of one execution on the dearest path.
struct StencilCost {
  uint64_t cycles = 0;      // hundredths
  uint64_t routine_ns = 0;  // besides, in routines; what a function of the application takes is not in it
};

struct Stencil {
  format::StencilInfo info;
  std::vector<std::byte> code;
  std::vector<Hole> holes;  // by offset
  // General registers that the code was seen to change and to read, bits as in the machine's encoding.
  uint64_t written = 0;
  uint64_t read = 0;
  // Where it reads the machine's counter, in the words that the injector knows and can replace; whether it
  // does so in other words.
  std::vector<uint32_t> counter_reads = {};
  bool reads_otherwise = false;
  // What the code was seen to take at least; not less than the plan says.
  StencilCost cost = {};
};

// A symbol of the application as the holes of a stencil want it (format::kSymbolSymbol).
struct SymbolValue {
  uint64_t address = 0;
  uint8_t left = 0, right = 0;
};

struct Plan;

// A plan among several that are measured by one session, with the consents of who has asked for it. The first is the
// session's own; in its place others' would be BindOptions'.
struct Part {
  std::shared_ptr<const Plan> plan;
  std::string tag = {};  // in which the ids of its metrics end, and nobody else's; "": the session's own
  std::string flavor = {};
  bool allow_calls = false, allow_reads = false;
  uint32_t first_stencil = 0;  // where its stencils begin among the joined plan's
};

struct Plan {
  std::string checksum;                     // hex, as the file holds it: the plan's identity
  std::optional<format::PublicKey> signer;  // whose signature it has, a valid one
  format::Manifest manifest;
  std::vector<Stencil> stencils;  // as Manifest::stencils
  Stencil guard;                  // tests one flag: falls through when it is not 0, else goes to `next`
  std::vector<Part> parts = {};   // of one that was joined (join.h); none: it is one by itself
};

// Reads and verifies. Errors have Status::plan_rejected and name what is wrong.
Result<Plan> read_plan(std::span<const std::byte> bytes);
Result<Plan> read_plan_file(const std::string& path);

}  // namespace mdl::plan
