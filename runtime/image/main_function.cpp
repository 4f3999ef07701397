// The entry point of glibc (sysdeps/<machine>/start.S) and musl (crt_arch.h) is straight code up to its call.
// It forms main's address relative to the pc in position-independent programs, or has it as a constant; or it
// reads it from a word that the loader has filled in, where the linker has left it so.
#include "runtime/image/main_function.h"

#include <elf.h>

#include <array>

#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"
#include "runtime/image/auxiliary.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::image {
namespace {

constexpr size_t kLongest = 128;  // bytes of the entry point

// The value that the instruction leaves in its destination, where that is an address that it names.
std::optional<uint64_t> named(const Detail& detail, uint64_t end, const Memory& memory) {
  if (detail.operation == Operation::constant) return static_cast<uint64_t>(detail.immediate);
  if (!detail.has_memory || detail.memory.base != kPcRegister) return std::nullopt;
  const uint64_t at = end + static_cast<uint64_t>(detail.memory.displacement);
  if (detail.operation == Operation::address) return at;
  uint64_t word = 0;
  if (detail.operation != Operation::load || !memory.read(at, std::as_writable_bytes(std::span(&word, 1))))
    return std::nullopt;
  return word;
}

}  // namespace

std::optional<uint64_t> main_from_entry(std::span<const std::byte> code, uint64_t entry,
                                        const Memory& memory) {
  const int first = arch::kMachine.first_argument;
  std::optional<uint64_t> argument;
  for (size_t at = 0; at < code.size();) {
    Instruction in;
    Detail detail;
    if (!arch::decode_instruction(code.subspan(at), entry + at, in, detail)) return std::nullopt;
    if (in.flow == Flow::call || in.flow == Flow::call_indirect) return argument;
    if (in.flow != Flow::next) return std::nullopt;
    if (in.touches & register_bit(first))
      argument = detail.destination == first ? named(detail, entry + at + in.size, memory) : std::nullopt;
    at += in.size;
  }
  return std::nullopt;
}

std::optional<uint64_t> find_main(const Image& image, const Memory& memory) {
  const uint64_t entry = auxiliary_value(kernel::proc_text(image.pid, "auxv"), AT_ENTRY).value_or(0);
  std::array<std::byte, kLongest> code;
  if (entry == 0 || !memory.read(entry, code)) return std::nullopt;
  const auto found = main_from_entry(code, entry, memory);
  const Object* object = found ? object_at(image, *found) : nullptr;
  return object && object->is_main ? found : std::nullopt;
}

}  // namespace mdl::image
