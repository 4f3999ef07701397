#include "runtime/image/expression.h"

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/DataExtractor.h"

namespace mdl::image {
namespace {

namespace dwarf = llvm::dwarf;

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxSteps = 256;  // a branch may go backwards

class Machine {
 public:
  Machine(std::span<const std::byte> expression, std::span<const std::optional<uint64_t>> registers,
          const Memory& memory)
      : data_(llvm::StringRef(reinterpret_cast<const char*>(expression.data()), expression.size()), true, 8),
        size_(expression.size()),
        registers_(registers),
        memory_(memory) {}

  std::optional<uint64_t> run(std::optional<uint64_t> initial) {
    if (initial) push(*initial);
    llvm::DataExtractor::Cursor cursor(0);
    size_t steps = 0;
    while (sound_ && cursor && cursor.tell() < size_ && ++steps <= kMaxSteps) step(cursor);
    if (!cursor || cursor.tell() < size_) sound_ = false;
    llvm::consumeError(cursor.takeError());
    uint64_t top = pop();
    return sound_ ? std::optional(top) : std::nullopt;
  }

 private:
  void push(uint64_t value) {
    if (depth_ == kMaxDepth)
      sound_ = false;
    else
      stack_[depth_++] = value;
  }
  uint64_t pop() {
    if (depth_ == 0) sound_ = false;
    return depth_ == 0 ? 0 : stack_[--depth_];
  }
  void push_register(uint64_t number, int64_t offset) {
    if (number >= registers_.size() || !registers_[number])
      sound_ = false;
    else
      push(*registers_[number] + static_cast<uint64_t>(offset));
  }
  void load(size_t width) {
    uint64_t address = pop(), value = 0;
    if (width == 0 || width > 8 ||
        !memory_.read(address, std::as_writable_bytes(std::span(&value, 1)).first(width)))
      sound_ = false;
    push(value);
  }
  void step(llvm::DataExtractor::Cursor& cursor);
  bool push_constant(uint8_t operation, llvm::DataExtractor::Cursor& cursor);
  bool rearrange(uint8_t operation, llvm::DataExtractor::Cursor& cursor);
  bool calculate(uint8_t operation);
  bool branch(uint8_t operation, llvm::DataExtractor::Cursor& cursor);

  llvm::DataExtractor data_;
  uint64_t size_;
  std::span<const std::optional<uint64_t>> registers_;
  const Memory& memory_;
  std::array<uint64_t, kMaxDepth> stack_{};
  size_t depth_ = 0;
  bool sound_ = true;
};

template <typename T>
uint64_t extended(T value) {
  return static_cast<uint64_t>(int64_t{value});
}

bool Machine::push_constant(uint8_t operation, llvm::DataExtractor::Cursor& cursor) {
  switch (operation) {
    case dwarf::DW_OP_addr:
    case dwarf::DW_OP_const8u:
    case dwarf::DW_OP_const8s:
      push(data_.getU64(cursor));
      return true;
    case dwarf::DW_OP_const1u:
      push(data_.getU8(cursor));
      return true;
    case dwarf::DW_OP_const1s:
      push(extended(static_cast<int8_t>(data_.getU8(cursor))));
      return true;
    case dwarf::DW_OP_const2u:
      push(data_.getU16(cursor));
      return true;
    case dwarf::DW_OP_const2s:
      push(extended(static_cast<int16_t>(data_.getU16(cursor))));
      return true;
    case dwarf::DW_OP_const4u:
      push(data_.getU32(cursor));
      return true;
    case dwarf::DW_OP_const4s:
      push(extended(static_cast<int32_t>(data_.getU32(cursor))));
      return true;
    case dwarf::DW_OP_constu:
      push(data_.getULEB128(cursor));
      return true;
    case dwarf::DW_OP_consts:
      push(extended(data_.getSLEB128(cursor)));
      return true;
    default:
      return false;
  }
}

bool Machine::rearrange(uint8_t operation, llvm::DataExtractor::Cursor& cursor) {
  switch (operation) {
    case dwarf::DW_OP_nop:
      return true;
    case dwarf::DW_OP_deref:
      load(8);
      return true;
    case dwarf::DW_OP_deref_size:
      load(data_.getU8(cursor));
      return true;
    case dwarf::DW_OP_drop:
      pop();
      return true;
    case dwarf::DW_OP_dup:
    case dwarf::DW_OP_over:
    case dwarf::DW_OP_pick: {
      size_t below = operation == dwarf::DW_OP_dup    ? 0
                     : operation == dwarf::DW_OP_over ? 1
                                                      : data_.getU8(cursor);
      if (below >= depth_) return false;
      push(stack_[depth_ - 1 - below]);
      return true;
    }
    case dwarf::DW_OP_swap: {
      uint64_t top = pop(), next = pop();
      push(top);
      push(next);
      return true;
    }
    default:
      return false;
  }
}

bool Machine::calculate(uint8_t operation) {
  if (operation == dwarf::DW_OP_neg || operation == dwarf::DW_OP_not) {
    uint64_t value = pop();
    push(operation == dwarf::DW_OP_neg ? 0 - value : ~value);
    return true;
  }
  uint64_t right = pop(), left = pop();
  auto signed_left = static_cast<int64_t>(left), signed_right = static_cast<int64_t>(right);
  switch (operation) {
    case dwarf::DW_OP_plus:
      push(left + right);
      return true;
    case dwarf::DW_OP_minus:
      push(left - right);
      return true;
    case dwarf::DW_OP_mul:
      push(left * right);
      return true;
    case dwarf::DW_OP_and:
      push(left & right);
      return true;
    case dwarf::DW_OP_or:
      push(left | right);
      return true;
    case dwarf::DW_OP_xor:
      push(left ^ right);
      return true;
    case dwarf::DW_OP_shl:
      push(right < 64 ? left << right : 0);
      return true;
    case dwarf::DW_OP_shr:
      push(right < 64 ? left >> right : 0);
      return true;
    case dwarf::DW_OP_shra:
      push(static_cast<uint64_t>(signed_left >> (right < 64 ? right : 63)));
      return true;
    case dwarf::DW_OP_eq:
      push(left == right);
      return true;
    case dwarf::DW_OP_ne:
      push(left != right);
      return true;
    case dwarf::DW_OP_lt:
      push(signed_left < signed_right);
      return true;
    case dwarf::DW_OP_le:
      push(signed_left <= signed_right);
      return true;
    case dwarf::DW_OP_gt:
      push(signed_left > signed_right);
      return true;
    case dwarf::DW_OP_ge:
      push(signed_left >= signed_right);
      return true;
    default:
      return false;
  }
}

bool Machine::branch(uint8_t operation, llvm::DataExtractor::Cursor& cursor) {
  auto distance = static_cast<int16_t>(data_.getU16(cursor));
  if (operation == dwarf::DW_OP_bra && pop() == 0) return true;
  uint64_t to = cursor.tell() + extended(distance);
  if (!cursor || to > size_) return false;
  cursor.seek(to);
  return true;
}

void Machine::step(llvm::DataExtractor::Cursor& cursor) {
  uint8_t operation = data_.getU8(cursor);
  if (operation >= dwarf::DW_OP_lit0 && operation <= dwarf::DW_OP_lit31)
    push(operation - dwarf::DW_OP_lit0);
  else if (operation >= dwarf::DW_OP_breg0 && operation <= dwarf::DW_OP_breg31)
    push_register(operation - dwarf::DW_OP_breg0, data_.getSLEB128(cursor));
  else if (operation == dwarf::DW_OP_bregx) {
    uint64_t number = data_.getULEB128(cursor);
    push_register(number, data_.getSLEB128(cursor));
  } else if (operation == dwarf::DW_OP_plus_uconst)
    push(pop() + data_.getULEB128(cursor));
  else if (operation == dwarf::DW_OP_bra || operation == dwarf::DW_OP_skip)
    sound_ = branch(operation, cursor) && sound_;
  else if (!push_constant(operation, cursor) && !rearrange(operation, cursor))
    sound_ = calculate(operation) && sound_;
}

}  // namespace

std::optional<uint64_t> evaluate(std::span<const std::byte> expression,
                                 std::span<const std::optional<uint64_t>> registers,
                                 std::optional<uint64_t> initial, const Memory& memory) {
  return Machine(expression, registers, memory).run(initial);
}

}  // namespace mdl::image
