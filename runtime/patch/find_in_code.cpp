#include "runtime/patch/find_in_code.h"

#include <algorithm>
#include <vector>

namespace mdl::patch {

uint64_t find_in_code(const image::Object& object, const image::Memory& memory, size_t most,
                      llvm::function_ref<uint64_t(std::span<const std::byte>, uint64_t)> find) {
  constexpr uint64_t kPiece = 1 << 20;
  std::vector<std::byte> bytes;
  for (const image::Range& text : object.text)
    for (uint64_t at = text.start; at < text.end; at += kPiece) {
      bytes.resize(std::min(text.end - at, kPiece + most));
      if (!memory.read(at, bytes)) break;
      if (const uint64_t found = find(bytes, at)) return found;
    }
  return 0;
}

}  // namespace mdl::patch
