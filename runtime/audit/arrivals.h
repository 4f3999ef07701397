// Where control may arrive among the bytes that a proposal changes, for every reason that can be seen in the
// object's bytes and files, whatever the planner has found:
//
//   - a symbol or a frame descriptor begins there, or a landing pad of an exception table lies there;
//   - an instruction anywhere in the object jumps or calls there, or forms the address, relative to the pc;
//   - a word of the object's data, relocated as it is in the process, or an absolute operand is that address;
//   - it is an entry of a table of 32-bit offsets whose address some instruction forms. A table ends where
//     another one begins, or with an entry that leads to no code.
//
// Decoding a whole program takes seconds, so each byte of the text is first tried as if it belonged to such
// an instruction. A match that seems to lead to a changed byte is then confirmed: by decoding the piece of
// code that it lies in from its beginning. Where bytes there are no code it counts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/audit/listing.h"
#include "runtime/audit/snapshot.h"
#include "runtime/image/image.h"

namespace mdl::audit {

struct Arrival {
  uint64_t to = 0;
  uint64_t from = 0;  // 0: not by an instruction
  std::string_view how;
  bool is_number = false;  // a number that may mean something else: where no instruction begins, it does
};

// All at addresses in `watched` (by address, disjoint, in the object's text), by `to`.
std::vector<Arrival> find_arrivals(const image::Object& object, const Snapshot& now,
                                   const std::vector<image::Range>& watched, Listings& listings);

}  // namespace mdl::audit
