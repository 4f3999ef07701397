#include "runtime/image/references.h"

#include <algorithm>
#include <cstring>

#include "runtime/arch/code_search.h"
#include "runtime/arch/decoder.h"
#include "runtime/image/function_code.h"
#include "runtime/image/incoming_jumps.h"
#include "runtime/image/landing_pads.h"

namespace mdl::image {
namespace {

constexpr uint64_t kMostOfPiece = 1 << 20;    // of a piece of code that is looked at as a whole
constexpr uint64_t kMostOfData = 256u << 20;  // of an object's data
constexpr size_t kPieceRead = 4 << 20;

// The object's code lies between these.
Range span_of_text(const Object& object) {
  Range span{UINT64_MAX, 0};
  for (const Range& text : object.text)
    span = {std::min(span.start, text.start), std::max(span.end, text.end)};
  return span;
}

// Every word in `bytes` that is an address in `text`, at any offset: packed structures hold pointers, too.
// Below 4 GiB an address is four bytes long, in data as in an instruction.
void add_words(std::span<const std::byte> bytes, const Range& text, std::vector<uint64_t>& places) {
  const size_t width = text.end <= UINT32_MAX ? 4 : 8;
  const uint64_t size = text.end - text.start;
  for (size_t at = 0; at + width <= bytes.size(); ++at) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, width);
    if (word - text.start < size) places.push_back(word);
  }
}

// Calls `look(bytes, address)` for a range piece by piece; pieces overlap by the length of an operand. False
// when it cannot be read.
template <typename Look>
bool read_pieces(const Memory& memory, const Range& range, Look look) {
  constexpr uint64_t kOverlap = 8;
  for (uint64_t at = range.start; at < range.end;) {
    std::vector<std::byte> bytes(std::min<uint64_t>(kPieceRead, range.end - at));
    if (!memory.read(at, bytes)) return false;
    look(std::span<const std::byte>(bytes), at);
    if (at + bytes.size() == range.end) break;
    at += bytes.size() - kOverlap;
  }
  return true;
}

void add_pads(const FrameTable& table, const Memory& memory, const Budget& budget,
              std::vector<uint64_t>& places) {
  std::vector<LandingPad> pads;
  for (const Fde& entry : table.entries()) {
    pads.clear();
    read_landing_pads(table, entry, memory, pads, budget);
    for (const LandingPad& pad : pads)
      if (pad.pad < entry.start || pad.pad >= entry.end) places.push_back(pad.pad);
  }
}

bool jumps_directly(const Instruction& one) {
  return one.flow == Flow::jump || one.flow == Flow::branch;
}

// The instructions of a range; nothing when not all of it can be read and decoded.
std::vector<Decoded> decode_whole(const FunctionCode& code, const Range& range) {
  if (range.end - range.start > kMostOfPiece) return {};
  std::vector<std::byte> bytes(range.end - range.start);
  if (!code.spend(bytes.size()) || !code.memory.read(range.start, bytes)) return {};
  std::vector<Decoded> out;
  for (size_t at = 0; at < bytes.size(); at += out.back().instruction.size) {
    Decoded one;
    if (!arch::decode_instruction(std::span(bytes).subspan(at), range.start + at, one.instruction,
                                  one.detail))
      return {};
    out.push_back(std::move(one));
  }
  return out;
}

// True when control ends in it otherwise than by a return or a jump: by a call that does not come back, or by
// an instruction that traps.
bool may_end_inside(const FunctionCode& code, const std::vector<Decoded>& piece) {
  auto last = std::ranges::find_if(piece.rbegin(), piece.rend(),
                                   [](const Decoded& one) { return !one.instruction.is_padding; });
  return std::ranges::any_of(piece, [&](const Decoded& one) {
    const Flow flow = one.instruction.flow;
    if (flow == Flow::stop) return !one.instruction.is_padding;
    if (flow != Flow::call && flow != Flow::call_indirect) return false;
    return one.end() == last->end() || comes_back(code, one) == Comes::never;
  });
}

// A jump of the function itself, as it was decoded. Bytes in the middle of its instructions are none.
bool is_own_or_nothing(const FunctionCode& code, const IncomingJump& jump) {
  if (jump.source == 0 || !code.contains(jump.source)) return false;
  const Decoded* one = code.at(jump.source);
  return !one || one->instruction.flow != Flow::call;
}

}  // namespace

// Data of the program's own changes all the time, and what it holds of addresses hardly ever does: so these are compared
// (are_same_in), and not what was read for them.
References::Places References::scan(const Image& image, const Object& object, const Memory& memory,
                                    const Budget& budget) {
  Places out;
  const Range text = span_of_text(object);
  if (text.start >= text.end) return out;
  uint64_t data = 0;
  for (const Mapping& mapping : image.mappings) {
    if (!mapping.read || mapping.path != object.path) continue;
    const Range range{mapping.start, mapping.end};
    if (!mapping.execute) data += range.end - range.start;
    out.complete &= data <= kMostOfData &&
                    read_pieces(memory.unlogged(), range, [&](std::span<const std::byte> bytes, uint64_t at) {
                      add_words(bytes, text, out.found);
                      if (mapping.execute) arch::find_operands(bytes, at, text, out.found);
                    });
    if (!out.complete) return out;
  }
  if (object.frame_table) add_pads(*object.frame_table, memory, budget, out.found);
  std::sort(out.found.begin(), out.found.end());
  out.found.erase(std::unique(out.found.begin(), out.found.end()), out.found.end());
  return out;
}

bool References::has(const Image& image, const Object& object, uint64_t place, const Memory& memory) {
  std::call_once(once_, [&] {
    places_ = scan(image, object, memory, *object.budget);
    is_scanned_ = true;
  });
  return !places_.complete || std::binary_search(places_.found.begin(), places_.found.end(), place);
}

bool References::are_same_in(const Image& other, const Object& object, const Memory& memory) const {
  return !is_scanned_ || (!object.budget->is_spent() && scan(other, object, memory, Budget()) == places_);
}

bool is_own_part(const FunctionCode& code, const Range& range) {
  const Object& object = code.object;
  if (!object.far_jumps || !object.references) return false;
  for (const IncomingJump& jump : object.far_jumps->within(object, range, code.memory))
    if (!is_own_or_nothing(code, jump)) return false;
  for (const IncomingJump& jump : near_jumps_within(object, range, code.memory))
    if (!is_own_or_nothing(code, jump)) return false;
  auto has_reference = [&](uint64_t place) {
    return object.references->has(code.image, object, place, code.memory);
  };
  if (has_reference(range.start)) return false;
  bool entered_in_the_middle = false;
  if (!code.spend(code.decoded.size() / code.kPerStep)) return false;
  for (uint64_t target : code.direct_targets()) {
    if (!range.contains(target) || target == range.start) continue;
    if (has_reference(target)) return false;
    entered_in_the_middle = true;
  }
  const std::vector<Decoded> piece = decode_whole(code, range);
  const bool calls_itself = std::ranges::any_of(piece, [&](const Decoded& one) {
    return one.instruction.flow == Flow::call && range.contains(one.instruction.target);
  });
  return !piece.empty() && !calls_itself && (entered_in_the_middle || may_end_inside(code, piece));
}

bool never_comes_back(const FunctionCode& code, const Range& range) {
  const std::vector<Decoded> piece = decode_whole(code, range);
  for (const Decoded& one : piece) {
    const Flow flow = one.instruction.flow;
    if (flow == Flow::return_ || flow == Flow::jump_indirect) return false;
    if (jumps_directly(one.instruction) && !range.contains(one.instruction.target)) return false;
  }
  auto last = std::ranges::find_if(piece.rbegin(), piece.rend(),
                                   [](const Decoded& one) { return !one.instruction.is_padding; });
  if (last == piece.rend()) return false;
  const Flow flow = last->instruction.flow;
  return flow == Flow::call || flow == Flow::call_indirect || flow == Flow::jump || flow == Flow::stop;
}

}  // namespace mdl::image
