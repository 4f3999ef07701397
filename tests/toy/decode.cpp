// The decoder, and searches: every instruction begins at a multiple of its size, so these find just what
// there is.
#include "runtime/arch/code_search.h"
#include "runtime/arch/decoder.h"
#include "runtime/arch/hooked_code.h"
#include "tests/toy/encoding.h"

namespace mdl::arch {
namespace {

using image::Flow;
using image::kFlags;
using image::register_bit;

Flow flow_of(uint8_t operation) {
  switch (operation) {
    case toy::trap:
      return Flow::stop;
    case toy::jump:
      return Flow::jump;
    case toy::branch:
      return Flow::branch;
    case toy::call:
      return Flow::call;
    case toy::call_register:
      return Flow::call_indirect;
    case toy::jump_register:
    case toy::jump_far:
      return Flow::jump_indirect;
    case toy::ret:
      return Flow::return_;
    case toy::system_call:
      return Flow::system_call;
    default:
      return Flow::next;
  }
}

void note_registers(const toy::Word& word, image::Instruction& in) {
  const auto bit = [](uint8_t number) { return number < toy::kRegisters ? register_bit(number) : 0; };
  const auto read = [&](uint8_t number) { in.reads |= bit(number); };
  const auto write = [&](uint8_t number) { in.writes |= bit(number), in.touches |= bit(number); };
  switch (word.operation) {
    case toy::set:
    case toy::address:
      return write(word.a);
    case toy::move:
      return read(word.b), write(word.a);
    case toy::add:
      return read(word.a), read(word.b), write(word.a);
    case toy::add_immediate:
      return read(word.a), write(word.a);
    case toy::load:
      return read(word.b), read(word.c), write(word.a);
    case toy::store:
      return read(word.a), read(word.b);
    case toy::count:
      return read(word.b);
    case toy::compare:
    case toy::compare_both:
      read(word.a);
      if (word.operation == toy::compare_both) read(word.b);
      in.writes |= kFlags, in.touches |= kFlags;
      return;
    case toy::get_flags:
      in.reads |= kFlags;
      return write(word.a);
    case toy::set_flags:
      in.writes |= kFlags, in.touches |= kFlags;
      return read(word.a);
    case toy::branch:
      in.reads |= kFlags;
      return;
    case toy::nop:
    case toy::landing:
    case toy::jump:
      return;
    default:
      in.reads = ~image::Registers{0};
  }
}

void note_detail(const toy::Word& word, image::Detail& detail) {
  using image::Operation;
  detail.immediate = word.immediate;
  detail.destination = word.a;
  switch (word.operation) {
    case toy::set:
      detail.operation = Operation::constant;
      return;
    case toy::move:
    case toy::add:
      detail.operation = word.operation == toy::move ? Operation::move : Operation::add;
      detail.source = word.b;
      return;
    case toy::address:
      detail.operation = Operation::address;
      detail.has_memory = true;
      detail.memory = {.base = image::kPcRegister, .displacement = word.immediate};
      return;
    case toy::load:
      detail.operation = Operation::load;
      detail.load_size = 8;
      detail.has_memory = true;
      detail.memory = {.base = word.b, .displacement = word.immediate};
      if (word.c < toy::kRegisters) detail.memory.index = word.c, detail.memory.scale = 8;
      return;
    case toy::compare:
      detail.operation = Operation::compare;
      detail.source = word.a;
      detail.destination = image::kNoRegister;
      return;
    case toy::jump_register:
    case toy::call_register:
      detail.source = word.a;
      detail.destination = image::kNoRegister;
      return;
    case toy::branch:
      detail.condition = word.a == toy::above       ? image::Condition::above
                         : word.a == toy::not_below ? image::Condition::above_or_equal
                                                    : image::Condition::other;
      detail.destination = image::kNoRegister;
      return;
    default:
      detail.destination = image::kNoRegister;
  }
}

// Calls `look` with each instruction that begins in the code.
template <typename Look>
void each(std::span<const std::byte> bytes, uint64_t start, Look look) {
  for (uint64_t at = (start + 7) / 8 * 8 - start; at + toy::kSize <= bytes.size(); at += toy::kSize) {
    const toy::Word word = toy::word_at(bytes.data() + at);
    look(word, start + at, start + at + toy::kSize + static_cast<uint64_t>(int64_t{word.immediate}));
  }
}

bool leads(uint8_t operation) {
  return operation == toy::jump || operation == toy::branch || operation == toy::call;
}

}  // namespace

bool decode_instruction(std::span<const std::byte> bytes, uint64_t address, image::Instruction& in,
                        image::Detail& detail) {
  in = {}, detail = {};
  if (bytes.size() < toy::kSize || address % toy::kSize != 0) return false;
  const toy::Word word = toy::word_at(bytes.data());
  if (word.operation >= toy::operations) return false;
  in.address = address;
  in.size = toy::kSize;
  in.flow = flow_of(word.operation);
  in.bytes.assign(bytes.first(toy::kSize));
  in.is_padding = word.operation == toy::nop || (word.operation == toy::trap && word.a == 0);
  in.is_landing = word.operation == toy::landing;
  if (leads(word.operation))
    in.target = address + toy::kSize + static_cast<uint64_t>(int64_t{word.immediate});
  if (word.operation == toy::address) in.pc_relative_at = 4;
  note_registers(word, in);
  note_detail(word, detail);
  return true;
}

void find_jumps(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<void(uint64_t)> found) {
  image::Instruction one;
  image::Detail detail;
  for (size_t at = 0; at < bytes.size(); at += one.size) {
    if (!decode_instruction(bytes.subspan(at), start + at, one, detail)) return;
    if (one.flow == image::Flow::jump || one.flow == image::Flow::branch) found(one.target);
  }
}

bool begins_with_call(std::span<const std::byte> bytes) {
  return bytes.size() >= toy::kSize && toy::word_at(bytes.data()).operation == toy::call;
}

// Nothing below the first page can be stored to by an absolute address: there is none.
bool faults(const image::Instruction&) {
  return false;
}

bool asks_for_stack(const image::Instruction&) {
  return false;
}

bool may_fault(const image::Instruction&, const image::Detail& detail) {
  return detail.has_memory && detail.operation != image::Operation::address;
}

// A return goes where kLink says: who has put an address there returns to it, as who has pushed one
// elsewhere.
bool stores_on_top(const image::Instruction& in) {
  const toy::Word word = toy::word_at(in.bytes.data());
  return word.operation == toy::set && word.a == toy::kLink;
}

// address kScratch, slot; load kScratch, [kScratch]; jump_register kScratch: too long for kMostOfStub, so the
// slot is where the first two say, and the third is left unread.
uint64_t read_linkage_stub(std::span<const std::byte> bytes, uint64_t address) {
  if (bytes.size() < 2 * toy::kSize) return 0;
  const toy::Word first = toy::word_at(bytes.data()), second = toy::word_at(bytes.data() + toy::kSize);
  const bool is_stub = first.operation == toy::address && first.a == toy::kScratch &&
                       second.operation == toy::load && second.a == toy::kScratch &&
                       second.b == toy::kScratch;
  return is_stub ? address + toy::kSize + static_cast<uint64_t>(int64_t{first.immediate}) : 0;
}

// No compiler for it makes such tables.
std::optional<CfiEntry> read_cfi_entry(std::span<const std::byte>, uint64_t) {
  return std::nullopt;
}

void find_far_branches(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                       llvm::function_ref<void(const FarBranch&)> found) {
  each(bytes, start, [&](const toy::Word& word, uint64_t at, uint64_t to) {
    if (leads(word.operation) && within.contains(to)) found({at, to, word.operation == toy::call});
  });
}

bool any_far_jump(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<bool(uint64_t)> test) {
  bool any = false;
  each(bytes, start, [&](const toy::Word& word, uint64_t, uint64_t to) {
    any = any || ((word.operation == toy::jump || word.operation == toy::branch) && test(to));
  });
  return any;
}

bool is_landing_setter(std::span<const std::byte>) {
  return false;
}
void find_hooked(std::span<const std::byte>, uint64_t, llvm::function_ref<bool(Hook)>,
                 llvm::function_ref<void(Hook, uint64_t)>) {}

uint64_t find_stack_jump(std::span<const std::byte>, uint64_t) {
  return 0;
}
uint64_t find_pointer_change(std::span<const std::byte>, uint64_t) {
  return 0;
}
uint64_t find_constant(std::span<const std::byte>, uint64_t, uint64_t) {
  return 0;
}

bool may_branch_into(std::span<const std::byte>, uint64_t, const image::Range&) {
  return false;  // all branches are far
}

void find_operands(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                   std::vector<uint64_t>& places) {
  each(bytes, start, [&](const toy::Word& word, uint64_t, uint64_t to) {
    if (word.operation == toy::address && within.contains(to)) places.push_back(to);
  });
}

void find_references(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                     std::vector<uint64_t>& places) {
  find_operands(bytes, start, within, places);
  each(bytes, start, [&](const toy::Word& word, uint64_t, uint64_t to) {
    if (word.operation == toy::call && within.contains(to)) places.push_back(to);
  });
}

void find_whole_addresses(std::span<const std::byte>, const image::Range&, std::vector<uint64_t>&) {
  // all addresses are relative
}

}  // namespace mdl::arch
