#include "runtime/arch/hooked_code.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mdl::arch {
namespace {

using Code = std::span<const uint8_t>;

constexpr std::array<uint8_t, 4> kEndbr = {0xf3, 0x0f, 0x1e, 0xfa};
// mov %rsi, 0x98(%rdi); ret: the address lies behind the frame's CFA, where resident.S reads that
constexpr std::array<uint8_t, 8> kSetLanding = {0x48, 0x89, 0xb7, 0x98, 0x00, 0x00, 0x00, 0xc3};
// mov 0xa0(%rdi), %rax; ret: _Unwind_GetLanguageSpecificData, the next function
constexpr std::array<uint8_t, 8> kGetLanguageData = {0x48, 0x8b, 0x87, 0xa0, 0x00, 0x00, 0x00, 0xc3};
constexpr uint64_t kAligned = 16;
// mov 0x30(%rdi), %r8; mov 8(%rdi), %r9; mov 0x38(%rdi), %rdx; ror $17, %r8; xor %fs:0x30, %r8
constexpr std::array<uint8_t, 25> kLongjmp = {0x4c, 0x8b, 0x47, 0x30, 0x4c, 0x8b, 0x4f, 0x08, 0x48,
                                              0x8b, 0x57, 0x38, 0x49, 0xc1, 0xc8, 0x11, 0x64, 0x4c,
                                              0x33, 0x04, 0x25, 0x30, 0x00, 0x00, 0x00};
// pop %rdi; mov $58, %eax; syscall; push %rdi
constexpr std::array<uint8_t, 9> kVfork = {0x5f, 0xb8, 0x3a, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x57};

bool is_at(std::span<const std::byte> bytes, size_t at, Code code) {
  return at <= bytes.size() && bytes.size() - at >= code.size() &&
         std::ranges::equal(std::as_bytes(code), bytes.subspan(at, code.size()));
}

// With or without what marks it as a target of indirect branches.
bool is_function_at(std::span<const std::byte> bytes, size_t at, Code code) {
  return is_at(bytes, at, code) || (is_at(bytes, at, kEndbr) && is_at(bytes, at + kEndbr.size(), code));
}

}  // namespace

bool is_landing_setter(std::span<const std::byte> code) {
  return is_function_at(code, 0, kSetLanding);
}

void find_hooked(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<bool(Hook)> is_wanted,
                 llvm::function_ref<void(Hook hook, uint64_t address)> found) {
  const auto each = [&](Hook hook, Code code, llvm::function_ref<bool(size_t)> test) {
    if (bytes.empty() || !is_wanted(hook)) return;
    size_t from = 0;
    while (const void* at = memmem(bytes.data() + from, bytes.size() - from, code.data(), code.size())) {
      size_t begin = from = static_cast<size_t>(static_cast<const std::byte*>(at) - bytes.data());
      if (begin >= kEndbr.size() && is_at(bytes, begin - kEndbr.size(), kEndbr)) begin -= kEndbr.size();
      if (test(begin)) found(hook, start + begin);
      from += code.size();
    }
  };
  each(Hook::landing, kSetLanding, [&](size_t begin) {
    return (start + begin) % kAligned == 0 && is_function_at(bytes, begin + kAligned, kGetLanguageData);
  });
  each(Hook::jump, kLongjmp, [](size_t) { return true; });
  each(Hook::vfork, kVfork, [](size_t) { return true; });
}

}  // namespace mdl::arch
