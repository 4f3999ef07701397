// A function while read_code finds out what belongs to it: ranges, and the instructions in
// them with what jump resolution wants to know of each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/image/code.h"
#include "runtime/image/frames.h"
#include "runtime/image/incoming_jumps.h"

namespace mdl::image {

struct Decoded {
  Instruction instruction;
  Detail detail;
  uint64_t end() const { return instruction.address + instruction.size; }
};

class FunctionCode {
 public:
  FunctionCode(const Image& image, const Object& object, const Function& function, const Memory& memory)
      : image(image), object(object), function(function), memory(memory) {}

  const Image& image;
  const Object& object;
  const Function& function;
  const Memory& memory;

  std::vector<Range> ranges;     // by address, not overlapping
  std::vector<Decoded> decoded;  // of the ranges, by address
  bool complete = true;
  std::string doubt;                    // the first reason
  std::optional<IncomingJump> watched;  // other code that takes an address in its midst
  // Whether code elsewhere leads back here, by its range and how many ranges there were (destinations.cpp).
  using Known = std::map<std::tuple<uint64_t, uint64_t, size_t>, bool>;
  mutable Known ways_back;
  mutable Known own_parts;  // the same: whether it is a part that nothing names (references.h)

  // Decodes a range and adds it. False when its bytes cannot be read; nothing is added then.
  bool add_range(Range range);
  bool contains(uint64_t address) const;
  // Where the direct jumps in the ranges so far lead, sorted.
  const std::vector<uint64_t>& direct_targets() const;
  // The instruction that starts at an address, or that covers it; null when there is none.
  const Decoded* at(uint64_t address) const;
  const Decoded* covering(uint64_t address) const;
  void set_doubt(std::string reason) {
    if (doubt.empty()) doubt = std::move(reason);
  }
  // As Budget::spend. Each step is worth a look at so many instructions.
  static constexpr size_t kPerStep = 32;
  bool spend(uint64_t steps) const { return object.budget->spend(steps); }
  bool is_over() const { return object.budget->is_spent(); }
  bool frame_is_open(uint64_t pc) const;
  bool frame_is_closed(uint64_t pc) const;

 private:
  mutable std::vector<uint64_t> direct_targets_;
  mutable size_t targets_of_ = 0;  // how many decoded instructions they are from
};

// Where a direct jump that leaves the function's ranges leads.
struct Destination {
  // `never`: elsewhere, and it does not come back, so the function does not return there.
  enum class Kind : uint8_t { exit, part, never, unknown } kind = Kind::unknown;
  Range part;  // what must be added to the function
};
Destination classify_destination(const FunctionCode& code, uint64_t target);

// The function that a symbol says starts at an address, null when none does. One that only call frame
// information shows may as well be a part of another.
const Function* function_starting_at(const Object& object, uint64_t address);
// That one, too.
const Function* any_function_starting_at(const Object& object, uint64_t address);

// The slot of a stub of the procedure linkage table, 0 when the code is something else.
uint64_t linkage_slot(const Memory& memory, uint64_t address);

// How often a call comes back, by the name of what it calls, also through the linkage table.
enum class Comes : uint8_t { back, never, twice };
Comes comes_back(const FunctionCode& code, const Decoded& call);

// Whether the return at code.decoded[index] goes to an address that the instructions right before it have put
// on the stack: a push that no pop takes away, or a store to the top (setcontext, retpolines). Such a return
// is a jump and no way out.
bool goes_to_pushed_address(const FunctionCode& code, size_t index);

struct JumpTable {
  uint64_t address = 0;
  bool is_absolute = false;  // 8-byte addresses, else 4-byte offsets from the table
  std::vector<uint64_t> targets;  // instructions of the function, and ends of its ranges
};

// Every readable address that the function forms, tried as a table of its own instructions.
std::vector<JumpTable> find_jump_tables(const FunctionCode& code);

enum class IndirectJump : uint8_t { inside, exit, unresolved };
IndirectJump classify_indirect_jump(const FunctionCode& code, const std::vector<JumpTable>& tables,
                                    size_t index);

// Where a jump that stays inside leads: through every table that it may read, as far as the range check
// before it allows.
Switch targets_of_switch(const FunctionCode& code, const std::vector<JumpTable>& tables, size_t index);

// Parts that a table of known length reaches and that are not in the ranges yet.
std::vector<Range> parts_behind_tables(const FunctionCode& code);

}  // namespace mdl::image
