// The stencil verifier: the injector does not trust the plan (decision 9 of the
// architecture). A stencil is judged by decoding it, not by what the plan says of it:
//
//   - instructions of a short list only, without prefixes; registers, the flags and the
//     thread's block are all that they can change, and of these only what is declared;
//   - memory is touched only at [block register + displacement], where the displacement
//     is a hole for a declared cell (or the anomaly counter, or the guard's flag);
//   - branches go forward, onto an instruction of the stencil, its end, or `next`;
//   - a hole is exactly one immediate or displacement field of one instruction;
//   - a division is reached only where it cannot trap.
//
// The rules speak of a target's instructions, so each target brings a TargetRules
// (arch::Description::stencil_rules); this file is the same for all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rules.h"

namespace mdl::plan {

// A rule is broken: the message, which ends with the rule's name.
Error broken(Rule rule, const std::string& what);

// How a relocation type of the machine fills a field; nothing for a type no plan may use.
struct FieldShape {
  uint8_t size = 4;
  bool pc_relative = false;
};

struct TargetRules {
  std::string_view target;  // Manifest::target
  uint16_t machine;         // e_machine
  std::optional<FieldShape> (*field)(uint32_t relocation_type);
  // Both name the offending offset and instruction.
  Result<void> (*verify)(const Stencil& stencil);
  // Fills all of a verified stencil that is found by decoding: registers, reads of the counter, the cost.
  void (*note)(Stencil& stencil);
  Result<void> (*verify_filled)(const Stencil& stencil, std::span<const std::byte> code, uint64_t block_size);
};

// The rules of a target; null for a target that this build does not know.
const TargetRules* rules_for(std::string_view target);
// The names of those that it knows.
std::vector<std::string_view> known_targets();

// No stencil may take longer than this, whatever the user's budget is.
inline constexpr uint64_t kMostCycles = 100'000 * 100;  // hundredths
inline constexpr uint64_t kMostRoutineNs = 100'000;

// A stencil as it is in the plan.
Result<void> verify(const TargetRules& rules, const Stencil& stencil);

// The same stencil with its holes filled: it must be the stencil byte for byte outside of
// the holes, keep every rule, and touch only whole 8-byte values inside the thread block
// of `block_size` bytes. Its `next` must lie forward.
Result<void> verify_filled(const TargetRules& rules, const Stencil& stencil, std::span<const std::byte> code,
                           uint64_t block_size);

}  // namespace mdl::plan
