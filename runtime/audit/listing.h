// The code of an object, function by function: where functions lie, and which instructions they consist of
// when each is decoded from its beginning on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/audit/instruction.h"
#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::audit {

// The code around an address that a symbol or a frame descriptor says is one piece: from the nearest
// beginning at or before it to the nearest end. Nothing where neither says that code is there.
std::optional<image::Range> piece_around(const image::Object& object, uint64_t address);
// The last piece that begins before an address.
std::optional<image::Range> piece_before(const image::Object& object, uint64_t address);
// The piece around an address, or what lies between two pieces: padding, start-up code, tables.
image::Range piece_or_gap(const image::Object& object, uint64_t address);

// Where the instructions of a piece of code begin. Where bytes are no instruction the next byte is tried.
class Listing {
 public:
  Listing(const image::Range& piece, const image::Memory& memory);

  const image::Range& piece() const { return piece_; }
  // Behind the last instruction, which may reach out of the piece.
  uint64_t end() const { return end_; }
  // The instruction to which the byte at an address belongs; nothing where none does.
  std::optional<Instruction> covering(uint64_t address) const;
  // Instructions one behind the other: from the one that covers `first` to the one that covers the byte
  // before `end`.
  std::vector<Instruction> between(uint64_t first, uint64_t end) const;
  // The instruction that ends at an address, and those before it, back over padding to the first that is
  // none; backwards.
  std::vector<Instruction> before(uint64_t address) const;

 private:
  static constexpr size_t kStep = 32;
  struct Place {
    size_t index;
    uint64_t address;
  };
  Place place_of(uint64_t address) const;

  image::Range piece_;
  const image::Memory& memory_;
  uint64_t end_ = 0;
  std::vector<uint8_t> sizes_;       // 0: a byte that is in no instruction
  std::vector<uint64_t> addresses_;  // of every kStep-th
};

// The listings of an object, each made once.
class Listings {
 public:
  Listings(const image::Object& object, const image::Memory& memory) : object_(object), memory_(memory) {}
  // Makes those that around() will be asked for, on several threads.
  void prepare(std::span<const uint64_t> addresses);
  const Listing& of(const image::Range& piece);
  const Listing& around(uint64_t address) { return of(piece_or_gap(object_, address)); }

 private:
  const image::Object& object_;
  const image::Memory& memory_;
  std::map<uint64_t, Listing> known_;
};

}  // namespace mdl::audit
