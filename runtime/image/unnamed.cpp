// An FDE describes a function, or a part of one that the compiler placed elsewhere (GCC's `f.cold`), or
// stubs.
//
//   - Where the frame is open at the first instruction (frames.h), it is a part.
//   - A part in which the frame is closed gives itself away: it jumps into the middle of another FDE's code,
//     or is jumped into, or an exception's landing pad of another one lies in it. All of that holds for the
//     function that it belongs to as well; but that is called, or its address taken, and the part never is.
//   - A function that nothing calls, but others end with by a jump, and that has such a part of its own, looks
//     the same. But a part is jumped to by what it is a part of, and a function by others, too: those that have
//     no jump into its middle or its parts', nor it into theirs.
//   - What is left is reached by jumps at most, does not come back, and so may be seen as a function that is
//     called last: at the jump the other one ends (destinations.cpp).
//   - The procedure linkage table and the return of signal handlers are described by FDEs, too, and are none.
//
// Jumps are looked for by their bytes first, since few FDEs have any that leave it, and then by decoding.
#include "runtime/image/unnamed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/in_parallel.h"
#include "llvm/BinaryFormat/ELF.h"
#include "runtime/arch/code_search.h"
#include "runtime/arch/decoder.h"
#include "runtime/image/landing_pads.h"

namespace mdl::image {
namespace {

constexpr uint64_t kMostBytes = 1 << 20;     // of a function; larger ranges are no single one
constexpr uint64_t kReachOfShortJump = 256;  // at least as far as a jump leads that is no far one

// Functions and their parts, by address; they may overlap, so each reaches as far as any before it.
std::vector<Range> known_ranges(const std::vector<Function>& functions) {
  std::vector<Range> known;
  for (const Function& function : functions) {
    known.push_back({function.address, function.address + std::max<uint64_t>(function.size, 1)});
    known.insert(known.end(), function.parts.begin(), function.parts.end());
  }
  std::sort(known.begin(), known.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  for (size_t i = 1; i < known.size(); ++i) known[i].end = std::max(known[i].end, known[i - 1].end);
  return known;
}

bool touches(const std::vector<Range>& known, const Range& range) {
  auto after = std::lower_bound(known.begin(), known.end(), range.end,
                                [](const Range& one, uint64_t end) { return one.start < end; });
  return after != known.begin() && std::prev(after)->end > range.start;
}

std::vector<Range> linkage_tables(const ElfFile& file, uint64_t bias) {
  std::vector<Range> out;
  for (const Section& section : file.sections())
    if (section.is_linkage_table())
      out.push_back({section.address + bias, section.address + section.size + bias});
  return out;
}

bool contains(const std::vector<Range>& ranges, uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& one) { return one.contains(address); });
}

// The code of a file at the addresses where it runs, as memory.
class FileText final : public Memory {
 public:
  FileText(const ElfFile& file, uint64_t bias) : file_(file), bias_(bias) {
    for (const Segment& segment : file.segments())
      if (segment.type == llvm::ELF::PT_LOAD && (segment.flags & llvm::ELF::PF_X))
        pieces_.push_back({segment.address + bias, file.at_address(segment.address, segment.file_size)});
  }
  struct Piece {
    uint64_t start;
    std::vector<std::byte> bytes;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

  std::span<const std::byte> at(const Range& range) const {
    for (const Piece& piece : pieces_)
      if (range.start >= piece.start && range.start - piece.start <= piece.bytes.size() &&
          range.end - range.start <= piece.bytes.size() - (range.start - piece.start))
        return std::span(piece.bytes).subspan(range.start - piece.start, range.end - range.start);
    return {};
  }
  bool read(uint64_t address, std::span<std::byte> into) const override {
    const std::vector<std::byte> bytes = file_.at_address(address - bias_, into.size());
    if (bytes.size() < into.size()) return false;
    std::copy(bytes.begin(), bytes.end(), into.begin());
    return true;
  }

 private:
  const ElfFile& file_;
  uint64_t bias_;
  std::vector<Piece> pieces_;
};

// The FDEs that belong together with another one, one of the two being a candidate: they jump into its
// middle, or it into theirs.
class Related {
 public:
  // `candidates` are sorted by address.
  Related(const FrameTable& frames, const std::vector<const Fde*>& candidates,
          const std::vector<Range>& known, const std::vector<Range>& stubs, const FileText& text,
          const Budget& budget)
      : frames_(frames), candidates_(candidates), known_(known), stubs_(stubs), text_(text), budget_(budget) {
    std::vector<const Fde*> jumping;
    for (const Fde& entry : frames.entries()) {
      if (may_jump_out(entry)) jumping.push_back(&entry);
      look_at_pads(entry);
    }
    constexpr size_t kBatch = 16;
    std::vector<std::vector<const Fde*>> others(jumping.size());
    in_parallel(jumping.size(), kBatch, [&](size_t i) { others[i] = jumps_into(*jumping[i]); });
    for (size_t i = 0; i < jumping.size(); ++i)
      for (const Fde* other : others[i]) relate(*jumping[i], *other);
  }
  bool has(const Fde& entry) const { return groups_.contains(entry.start); }

  // Those among `places`, where candidates start, to which code jumps that belongs to something else.
  std::set<uint64_t> jumped_to_by_others(const std::set<uint64_t>& places) {
    std::set<uint64_t> out;
    for (const Fde& entry : frames_.entries()) {
      if (entry.end - entry.start > kMostBytes) continue;
      const std::span bytes = bytes_of(entry);
      if (!budget_.spend(bytes.size())) break;
      const bool is_near = places.lower_bound(entry.start - kReachOfShortJump) !=
                           places.lower_bound(entry.end + kReachOfShortJump);
      if (!is_near &&
          !arch::any_far_jump(bytes, entry.start, [&](uint64_t target) { return places.contains(target); }))
        continue;
      arch::find_jumps(bytes, entry.start, [&](uint64_t target) {
        if (places.contains(target) && group_of(entry.start) != group_of(target)) out.insert(target);
      });
    }
    return out;
  }

 private:
  // The other FDE that an address is in the middle of: not where it, a function or a stub starts. Null when
  // it is none.
  const Fde* middle_of(uint64_t target, const Fde& own) const {
    if (target >= own.start && target < own.end) return nullptr;
    const Fde* other = frames_.find(target);
    if (!other || other->start == target || contains(stubs_, target)) return nullptr;
    const bool starts_something =
        std::binary_search(known_.begin(), known_.end(), Range{target, target},
                           [](const Range& a, const Range& b) { return a.start < b.start; });
    return starts_something ? nullptr : other;
  }
  bool in_candidate(uint64_t address) const {
    auto after = std::upper_bound(candidates_.begin(), candidates_.end(), address,
                                  [](uint64_t value, const Fde* one) { return value < one->start; });
    return after != candidates_.begin() && address < (*std::prev(after))->end;
  }
  void relate(const Fde& one, const Fde& other) {
    for (const uint64_t start : {one.start, other.start}) groups_.try_emplace(start, start);
    groups_[group_of(one.start)] = group_of(other.start);
  }
  // The FDE that stands for all that belong together with the one that starts here. Ways get shorter as they
  // are gone.
  uint64_t group_of(uint64_t start) {
    auto at = groups_.find(start);
    if (at == groups_.end()) return start;
    while (at->second != at->first) {
      const auto next = groups_.find(at->second);
      at->second = next->second;
      at = next;
    }
    return at->first;
  }

  std::span<const std::byte> bytes_of(const Fde& entry) const { return text_.at({entry.start, entry.end}); }

  // By its bytes, which may be no jumps.
  bool may_jump_out(const Fde& entry) const {
    if (entry.end - entry.start > kMostBytes) return false;
    const std::span bytes = bytes_of(entry);
    if (!budget_.spend(bytes.size())) return false;
    const bool is_candidate = in_candidate(entry.start);
    return arch::any_far_jump(bytes, entry.start, [&](uint64_t target) {
      return (is_candidate || in_candidate(target)) && middle_of(target, entry);
    });
  }

  std::vector<const Fde*> jumps_into(const Fde& entry) const {
    std::vector<const Fde*> out;
    arch::find_jumps(bytes_of(entry), entry.start, [&](uint64_t target) {
      if (const Fde* other = middle_of(target, entry)) out.push_back(other);
    });
    return out;
  }

  void look_at_pads(const Fde& entry) {
    pads_.clear();
    if (!read_landing_pads(frames_, entry, text_, pads_, budget_)) return;
    for (const LandingPad& pad : pads_) {
      if (pad.pad >= entry.start && pad.pad < entry.end) continue;
      if (const Fde* other = frames_.find(pad.pad)) relate(entry, *other);
    }
  }

  const FrameTable& frames_;
  const std::vector<const Fde*>& candidates_;
  const std::vector<Range>& known_;
  const std::vector<Range>& stubs_;
  const FileText& text_;
  const Budget& budget_;
  std::vector<LandingPad> pads_;
  std::map<uint64_t, uint64_t> groups_;  // where an FDE starts that is related: one of those it is related to
};

// Pointers in the data of a file at a fixed address, where nothing tells them from numbers: where compilers put them,
// at each eighth byte. Segments that share bytes are made to be slow.
void find_words(const ElfFile& file, const Range& within, std::vector<uint64_t>& places) {
  uint64_t left = file.most_bytes();
  for (const Segment& segment : file.segments()) {
    if (segment.type != llvm::ELF::PT_LOAD || segment.file_size > left) continue;
    left -= segment.file_size;
    const std::vector<std::byte> bytes = file.at_address(segment.address, segment.file_size);
    uint64_t word;
    for (size_t at = -segment.address % sizeof word; at + sizeof word <= bytes.size(); at += sizeof word) {
      std::memcpy(&word, bytes.data() + at, sizeof word);
      if (within.contains(word)) places.push_back(word);
    }
  }
}

// Those among `doubtful` addresses that something calls, or takes the address of: by a displacement in the
// code that may be one of these, or by a pointer that the loader relocates. Where the file is at a fixed
// address it relocates none: there an operand or a word of the data that may be the address is one.
std::set<uint64_t> referred_to(const std::set<uint64_t>& doubtful, const ElfFile& file, uint64_t bias,
                               const FileText& text) {
  std::set<uint64_t> out;
  if (doubtful.empty()) return out;
  const Range within{*doubtful.begin(), *doubtful.rbegin() + 1};
  const bool is_fixed = bias == 0;
  std::vector<uint64_t> places;
  for (const FileText::Piece& piece : text.pieces()) {
    arch::find_references(piece.bytes, piece.start, within, places);
    if (is_fixed) arch::find_whole_addresses(piece.bytes, within, places);
  }
  if (is_fixed) find_words(file, within, places);
  for (const uint64_t place : places)
    if (doubtful.contains(place)) out.insert(place);
  for (const uint64_t pointer : file.relocated_pointers())
    if (doubtful.contains(pointer + bias)) out.insert(pointer + bias);
  return out;
}

std::vector<const Fde*> candidates(const FrameTable& frames, const std::vector<Range>& known,
                                   const std::vector<Range>& stubs, const Budget& budget) {
  std::vector<const Fde*> out;
  uint64_t seen = 0;  // end of the last range: those that overlap are not sound
  for (const Fde& entry : frames.entries()) {
    const Range range{entry.start, entry.end};
    if (range.start < seen) continue;
    seen = range.end;
    if (range.end - range.start > kMostBytes || touches(known, range) || frames.cie(entry).is_signal_frame ||
        !frame_is_closed(frames, entry.start, budget))
      continue;
    if (!contains(stubs, range.start)) out.push_back(&entry);
  }
  return out;
}

}  // namespace

void add_unnamed_functions(const ElfFile& file, uint64_t bias, const FrameTable& frames, const Budget& budget,
                           std::vector<Function>& functions) {
  const std::vector<Range> known = known_ranges(functions);
  const std::vector<Range> stubs = linkage_tables(file, bias);
  const std::vector<const Fde*> found = candidates(frames, known, stubs, budget);
  if (found.empty()) return;
  const FileText text(file, bias);
  Related related(frames, found, known, stubs, text, budget);
  std::set<uint64_t> doubtful;
  for (const Fde* entry : found)
    if (related.has(*entry)) doubtful.insert(entry->start);
  for (const uint64_t place : referred_to(doubtful, file, bias, text)) doubtful.erase(place);
  if (!doubtful.empty())
    for (const uint64_t place : related.jumped_to_by_others(doubtful)) doubtful.erase(place);

  const auto middle = static_cast<std::ptrdiff_t>(functions.size());
  for (const Fde* entry : found) {
    if (doubtful.contains(entry->start)) continue;
    const uint64_t address = entry->start - bias;
    Function function;
    function.name = address == file.entry() ? "_start" : fmt::format("sub_{:x}", address);
    function.address = entry->start;
    function.size = entry->end - entry->start;
    function.unnamed = true;
    functions.push_back(std::move(function));
  }
  std::inplace_merge(functions.begin(), functions.begin() + middle, functions.end(),
                     [](const Function& a, const Function& b) { return a.address < b.address; });
}

}  // namespace mdl::image
