#include "runtime/audit/arrivals.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/audit/listing.h"
#include "runtime/image/frames.h"
#include "runtime/image/landing_pads.h"

namespace mdl::audit {
namespace {

using image::Range;

constexpr uint64_t kMostEntries = 1 << 16;  // of a table of offsets
constexpr size_t kMostLooks = 1 << 22;      // at entries, to see whether tables matter at all

// A bit for each byte of an object's text.
class Marks {
 public:
  Marks(const std::vector<Range>& text, const std::vector<Range>& watched) {
    if (!watched.empty()) first_ = watched.front().start, end_ = watched.back().end;
    for (const Range& range : text) {
      pieces_.push_back({range, std::vector<uint64_t>((range.end - range.start) / 64 + 1)});
      for (const Range& one : watched)
        for (uint64_t address = std::max(one.start, range.start); address < std::min(one.end, range.end);
             ++address)
          pieces_.back().bits[(address - range.start) / 64] |= uint64_t{1} << (address - range.start) % 64;
    }
  }
  // All that is watched, and what lies between.
  Range span() const { return {first_, end_}; }
  bool has(uint64_t address) const {
    if (address < first_ || address >= end_) return false;  // mostly
    for (const auto& [range, bits] : pieces_)
      if (range.contains(address))
        return bits[(address - range.start) / 64] >> (address - range.start) % 64 & 1;
    return false;
  }

 private:
  struct Piece {
    Range range;
    std::vector<uint64_t> bits;
  };
  uint64_t first_ = 0, end_ = 0;  // of what is watched
  std::vector<Piece> pieces_;
};

// Bytes that seem to be a part of an instruction that leads somewhere.
struct Candidate {
  uint64_t at = 0;  // of its displacement or operand
  uint64_t to = 0;  // where it leads
  std::string_view how;
  bool is_number = false;  // as in Arrival
};

class Finder {
 public:
  Finder(const image::Object& object, const Snapshot& now, const std::vector<Range>& watched,
         Listings& listings)
      : object_(object), now_(now), watched_(watched), marks_(object.text, watched), listings_(listings) {}

  std::vector<Arrival> find() {
    look_at_beginnings();
    look_at_pads();
    for (const image::BufferMemory& text : now_.text()) look_at_text(text.bytes(), text.base());
    for (const image::BufferMemory& data : now_.data()) look_at_words(data.bytes(), data.base());
    look_at_tables();
    for (const Candidate& one : confirmed(std::move(candidates_)))
      arrive(one.to, one.how, one.at, one.is_number);
    std::sort(out_.begin(), out_.end(), [](const Arrival& a, const Arrival& b) { return a.to < b.to; });
    return std::move(out_);
  }

 private:
  void arrive(uint64_t to, std::string_view how, uint64_t from = 0, bool is_number = false) {
    if (marks_.has(to)) out_.push_back({to, from, how, is_number});
  }

  void look_at_beginnings() {
    for (const image::Function& function : object_.functions)
      arrive(function.address, "a function begins there");
    for (const image::Part& part : object_.parts)
      arrive(part.range.start, "a part of a function begins there");
    if (!object_.frame_table) return;
    for (const image::Fde& frame : object_.frame_table->entries())
      arrive(frame.start, "call frame information says that code begins there");
  }

  void look_at_pads() {
    if (!object_.frame_table) return;
    std::vector<image::LandingPad> pads;
    for (const image::Fde& frame : object_.frame_table->entries()) {
      pads.clear();
      read_landing_pads(*object_.frame_table, frame, now_, pads, *object_.budget);
      for (const image::LandingPad& pad : pads) arrive(pad.pad, "an exception is caught there");
    }
  }

  void look_at_text(std::span<const std::byte> raw, uint64_t start) {
    const Range text{start, start + raw.size()};
    find_leads(raw, start, marks_.span(), [&](const Lead& lead) {
      if (marks_.has(lead.to)) candidates_.push_back({lead.at, lead.to, "an instruction leads there"});
      if (lead.is_address) note_base(lead.at, lead.to);
    });
    for (const Range& range : watched_)
      if (text.contains(range.start))
        find_short_leads(raw, start, range, [&](const Lead& lead) {
          candidates_.push_back({lead.at, lead.to, "a short jump leads there"});
        });
    find_constants(raw, start, marks_.span(), [&](const Lead& lead) {
      if (marks_.has(lead.to))
        candidates_.push_back({lead.at, lead.to, "an instruction has its address", true});
    });
    look_at_words(raw, start);
  }

  void look_at_words(std::span<const std::byte> bytes, uint64_t start) {
    const Range span = marks_.span();
    for (size_t at = (8 - start % 8) % 8; at + 8 <= bytes.size(); at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      if (span.contains(word)) arrive(word, "a word of the object's data points there", start + at, true);
    }
  }

  void note_base(uint64_t at, uint64_t base) {
    if (base % 4 == 0)
      bases_.push_back({at, base, "a table of offsets that an instruction uses leads there"});
  }

  bool in_text(uint64_t address) const {
    return std::any_of(object_.text.begin(), object_.text.end(),
                       [&](const Range& range) { return range.contains(address); });
  }

  // One entry of a table of offsets; nothing when it leads to no code.
  std::optional<uint64_t> entry(const Candidate& base, uint64_t at) const {
    int32_t offset;
    if (!now_.read_held(at, std::as_writable_bytes(std::span(&offset, 1)))) return std::nullopt;
    const uint64_t to = base.to + static_cast<uint64_t>(int64_t{offset});
    return in_text(to) ? std::optional(to) : std::nullopt;
  }

  // Where a frame begins is code, whatever numbers its bytes may be.
  bool is_frame(uint64_t address) const {
    const auto found = std::ranges::lower_bound(object_.frames, address, {}, &Range::start);
    return found != object_.frames.end() && found->start == address;
  }

  // Whether a table of offsets at `base`, however long it is, may lead to what is watched. `looks`: how many entries
  // may be looked at yet; when there are none left the answer is yes.
  bool may_arrive(uint64_t base, size_t& looks) const {
    for (const auto* held : {&now_.text(), &now_.data()})
      for (const image::BufferMemory& one : *held) {
        if (!Range{one.base(), one.base() + one.bytes().size()}.contains(base)) continue;
        const std::span<const std::byte> bytes = one.bytes().subspan(base - one.base());
        for (size_t at = 0; at + 4 <= bytes.size() && at / 4 < kMostEntries && looks > 0; at += 4, --looks) {
          int32_t offset;
          std::memcpy(&offset, bytes.data() + at, sizeof offset);
          const uint64_t to = base + static_cast<uint64_t>(int64_t{offset});
          if (!in_text(to)) return false;
          if (marks_.has(to)) return true;
        }
        return true;  // it was not seen to end
      }
    return true;
  }

  void look_at_tables() {
    std::erase_if(bases_, [&](const Candidate& base) { return is_frame(base.to) || !entry(base, base.to); });
    std::ranges::sort(bases_, {}, &Candidate::to);
    size_t looks = kMostLooks;
    uint64_t last = 0;
    const bool any = std::ranges::any_of(bases_, [&](const Candidate& base) {
      return std::exchange(last, base.to) != base.to && may_arrive(base.to, looks);
    });
    if (!any) return;  // whichever of them are tables, and wherever these end
    std::vector<Candidate> tables = confirmed(std::move(bases_));
    std::sort(tables.begin(), tables.end(),
              [](const Candidate& a, const Candidate& b) { return a.to < b.to; });
    for (size_t i = 0; i < tables.size(); ++i) {
      if (i > 0 && tables[i].to == tables[i - 1].to) continue;
      auto next = std::find_if(tables.begin() + static_cast<std::ptrdiff_t>(i), tables.end(),
                               [&](const Candidate& other) { return other.to > tables[i].to; });
      const uint64_t end = next == tables.end() ? UINT64_MAX : next->to;
      for (uint64_t at = tables[i].to, n = 0; at < end && n < kMostEntries; at += 4, ++n) {
        const auto to = entry(tables[i], at);
        if (!to) break;
        arrive(*to, tables[i].how, tables[i].at, true);
      }
    }
  }

  static bool leads_to(const Instruction& in, uint64_t to) {
    return in.target == to || in.operand == to || in.constants[0] == to || in.constants[1] == to;
  }

  // Those whose bytes are such an instruction, or no instruction at all.
  std::vector<Candidate> confirmed(std::vector<Candidate> candidates) {
    std::vector<uint64_t> places;
    for (const Candidate& one : candidates) places.push_back(one.at);
    listings_.prepare(places);
    std::erase_if(candidates, [&](Candidate& one) {
      const auto in = listings_.around(one.at).covering(one.at);
      if (!in) return false;  // data among code
      one.at = in->address;
      return !leads_to(*in, one.to);
    });
    return candidates;
  }

  const image::Object& object_;
  const Snapshot& now_;
  const std::vector<Range>& watched_;
  Marks marks_;
  std::vector<Candidate> candidates_, bases_;
  Listings& listings_;
  std::vector<Arrival> out_;
};

}  // namespace

std::vector<Arrival> find_arrivals(const image::Object& object, const Snapshot& now,
                                   const std::vector<Range>& watched, Listings& listings) {
  return Finder(object, now, watched, listings).find();
}

}  // namespace mdl::audit
