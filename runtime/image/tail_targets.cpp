#include "runtime/image/tail_targets.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/image/cfi_entries.h"
#include "runtime/image/function_code.h"

namespace mdl::image {
namespace {

// Of any kind: also one that only call frame information shows.
const Function* beginning_at(const Object& object, uint64_t address) {
  auto found = std::lower_bound(object.functions.begin(), object.functions.end(), address,
                                [](const Function& one, uint64_t value) { return one.address < value; });
  return found != object.functions.end() && found->address == address ? &*found : nullptr;
}

bool is_writable(const Image& image, uint64_t address) {
  return std::ranges::any_of(image.mappings, [&](const Mapping& mapping) {
    return mapping.write && mapping.start <= address && address < mapping.end;
  });
}

TailTarget unknown(std::string obstacle) {
  return {nullptr, nullptr, std::move(obstacle), 0, 0};
}

TailTarget through_slot(const Image& image, uint64_t slot, const Memory& memory) {
  TailTarget out;
  out.slot = slot;
  if (!memory.read(slot, std::as_writable_bytes(std::span(&out.value, 1))))
    return unknown("the word that it goes through cannot be read");
  out.object = object_at(image, out.value);
  out.function = out.object ? beginning_at(*out.object, out.value) : nullptr;
  if (!out.function) return unknown("its slot of the linkage table is not bound yet");
  return out;
}

// The word that `jmp *word(%rip)` reads, 0 for any other jump.
uint64_t word_of(const Instruction& jump) {
  if (jump.pc_relative_at == 0 || size_t{jump.pc_relative_at} + 4 > jump.bytes.size()) return 0;
  int32_t displacement = 0;
  std::memcpy(&displacement, jump.bytes.data() + jump.pc_relative_at, sizeof displacement);
  return jump.address + jump.size + static_cast<uint64_t>(int64_t{displacement});
}

const Function* behind_cfi_entry(const Object& object, uint64_t address, const Memory& memory) {
  std::array<std::byte, kMostOfCfiEntry> bytes;
  if (!memory.read(address, bytes)) return nullptr;
  const std::optional<CfiEntry> entry = read_cfi_entry(bytes, address);
  return entry ? beginning_at(object, entry->target) : nullptr;
}

}  // namespace

TailTarget tail_target(const Image& image, const Object& object, const Instruction& jump,
                       const Memory& memory) {
  if (jump.flow == Flow::jump_indirect) {
    const uint64_t word = word_of(jump);
    if (word == 0 || is_writable(image, word))
      return unknown("where an indirect jump leads is known only when it is taken");
    return through_slot(image, word, memory);
  }
  const Function* function = beginning_at(object, jump.target);
  // A stub of the linkage table is no function, unless a program has such functions of its own.
  if (!function)
    if (const uint64_t slot = linkage_slot(memory, jump.target)) return through_slot(image, slot, memory);
  if (!function) function = behind_cfi_entry(object, jump.target, memory);
  if (!function) return unknown("no function is known to begin where it leads");
  return {&object, function, "", 0, 0};
}

}  // namespace mdl::image
