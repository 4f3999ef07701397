// The bytes of files behind a process's code: those that it would have if nobody had ever written them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

class Originals {
 public:
  // `places`: where the files of a journal were, whose code the program may have copied since; null without one.
  explicit Originals(const image::Image& image, const resident::FilePlaces* places = nullptr)
      : image_(image), places_(places) {}

  // False where they cannot be read. Ascending addresses are read from the file in large pieces.
  bool read(uint64_t address, std::span<std::byte> into);

 private:
  void load(uint64_t address, uint64_t least);

  const image::Image& image_;
  const resident::FilePlaces* places_;
  uint64_t at_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace mdl::patch
