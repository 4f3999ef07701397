#include "runtime/patch/written_code.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/arch/description.h"
#include "runtime/patch/originals.h"
#include "runtime/patch/relay.h"

namespace mdl::patch {
namespace {

// Memory that is read in ascending pieces, many at once.
class Ahead {
 public:
  explicit Ahead(const image::Memory& memory) : memory_(memory) {}

  // Empty where it cannot be read.
  std::span<const std::byte> read(const image::Range& at) {
    const uint64_t size = at.end - at.start;
    if (at.start < start_ || at.end > start_ + bytes_.size()) {
      start_ = at.start;
      bytes_.resize(std::max(kAtOnce, size));
      if (!memory_.read(start_, bytes_)) {  // it ends before
        bytes_.resize(size);
        if (!memory_.read(start_, bytes_)) bytes_.clear();
      }
    }
    return bytes_.empty() ? std::span<const std::byte>{} : std::span(bytes_).subspan(at.start - start_, size);
  }

 private:
  static constexpr uint64_t kAtOnce = uint64_t{1} << 14;

  const image::Memory& memory_;
  uint64_t start_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<bool> over_written_code(const std::vector<FunctionPlan>& functions, const image::Image& image,
                                    const image::Memory& memory) {
  struct Piece {
    image::Range at;
    size_t function;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < functions.size(); i++)
    for (const Window& window : functions[i].sites.windows) {
      pieces.push_back({{window.start, window.start + written_by(window)}, i});
      if (window.relay) pieces.push_back({{window.relay, window.relay + arch::kMachine.jump_size}, i});
    }
  std::ranges::sort(pieces, {}, [](const Piece& piece) { return piece.at.start; });
  std::vector<bool> out(functions.size());
  Originals originals(image);
  Ahead ahead(memory);
  std::vector<std::byte> in_file;
  for (const Piece& piece : pieces) {
    const std::span<const std::byte> now = ahead.read(piece.at);
    in_file.resize(now.size());
    if (!now.empty() && originals.read(piece.at.start, in_file) && !std::ranges::equal(now, in_file))
      out[piece.function] = true;
  }
  return out;
}

}  // namespace mdl::patch
