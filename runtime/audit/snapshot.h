// The memory of an object that an audit reads, read once.
//
// The process goes on meanwhile: a library may be unloaded in the middle of an audit, and be there again at
// its end. Read twice, or in parts, it would be something that it never was; so everything that the file has
// in memory is read at the beginning, and what cannot be read is no reason for an objection but a reason to
// begin again.
#pragma once

#include <vector>

#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::audit {

class Snapshot final : public image::Memory {
 public:
  // `memory`: of the process; what lies outside of the object is read there each time.
  explicit Snapshot(const image::Memory& memory) : memory_(memory) {}

  // Reads another object than before; false when some of it cannot be read.
  bool take(const image::Object& object, const image::Image& image);

  bool read(uint64_t address, std::span<std::byte> into) const override {
    return read_held(address, into) || memory_.read(address, into);
  }
  bool read_held(uint64_t address, std::span<std::byte> into) const;

  // As in Object::text, and the rest of what is mapped of the file.
  const std::vector<image::BufferMemory>& text() const { return text_; }
  const std::vector<image::BufferMemory>& data() const { return data_; }

 private:
  const image::Memory& memory_;
  std::vector<image::BufferMemory> text_, data_;
};

}  // namespace mdl::audit
