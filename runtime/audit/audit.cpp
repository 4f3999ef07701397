#include "runtime/audit/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "runtime/audit/arrivals.h"
#include "runtime/audit/detour.h"
#include "runtime/audit/instruction.h"
#include "runtime/audit/listing.h"
#include "runtime/audit/snapshot.h"

namespace mdl::audit {
namespace {

constexpr std::string_view kNotThere = "the bytes that it replaces are not there";
constexpr std::string_view kGone = "the object that it is in cannot be read";

using image::Range;

constexpr uint64_t kPage = 4096;          // a write inside one is whole
constexpr uint64_t kLongestPadding = 64;  // before an edit that lies in padding

constexpr uint64_t kLongestEdit = 32;

// Up to the last byte that is another one afterwards: what is written as it was concerns nobody.
uint64_t changed_bytes(const Edit& edit) {
  size_t count = std::min(edit.from.size(), edit.to.size());
  while (count > 0 && edit.from[count - 1] == edit.to[count - 1]) --count;
  return count;
}

// The code that an edit replaces, as the object shows it.
struct Replaced {
  std::vector<Instruction> instructions;  // from the edit's beginning on, at least as far as it changes bytes
  std::optional<Instruction> before;      // the last one before it that is no padding
  uint64_t padding = 0;                   // where the padding in front of it begins, or it itself
  bool within_padding = false;            // it begins in the middle of a nop
  std::string problem;
};

class Auditor {
 public:
  Auditor(const Proposal& proposal, const image::Image& image, const image::Memory& memory)
      : proposal_(proposal), image_(image), object_now_(memory), reasons_(proposal.edits.size()) {}

  std::vector<Objection> run() {
    std::map<const image::Object*, std::vector<size_t>> by_object;
    for (size_t i = 0; i < proposal_.edits.size(); ++i) {
      const image::Object* object = image::object_at(image_, proposal_.edits[i].address);
      if (object)
        by_object[object].push_back(i);
      else
        reasons_[i] = "it is in the code of no object";
    }
    for (const auto& [object, edits] : by_object) {
      if (!object_now_.take(*object, image_)) {
        for (const size_t i : edits) reasons_[i] = kGone;
        continue;
      }
      Listings listings(*object, object_now_);
      const std::vector<Arrival> arrivals = find_arrivals(*object, object_now_, watched(edits), listings);
      for (const size_t i : edits)
        reasons_[i] = check(i, replaced_by(proposal_.edits[i], *object, listings), arrivals);
    }
    std::vector<Objection> out;
    for (size_t i = 0; i < reasons_.size(); ++i)
      if (!reasons_[i].empty())
        out.push_back({i, reasons_[i], reasons_[i] == kNotThere || reasons_[i] == kGone});
    return out;
  }

 private:
  // The changed bytes, and where an edit lies in padding some of what is before it.
  std::vector<Range> watched(const std::vector<size_t>& edits) const {
    std::vector<Range> out;
    for (const size_t i : edits) {
      const Edit& edit = proposal_.edits[i];
      Range range{edit.address, edit.address + std::max<uint64_t>(changed_bytes(edit), 1)};
      const auto first = decode(std::as_bytes(edit.from), edit.address);
      if (!first || first->is_padding) range.start -= std::min(range.start, kLongestPadding);
      if (!out.empty() && range.start <= out.back().end)
        out.back().end = std::max(out.back().end, range.end);
      else
        out.push_back(range);
    }
    return out;
  }

  static Replaced refused(std::string why) {
    Replaced out;
    out.problem = std::move(why);
    return out;
  }

  Replaced replaced_by(const Edit& edit, const image::Object& object, Listings& listings) const {
    Replaced out;
    const uint64_t end = edit.address + std::max<uint64_t>(changed_bytes(edit), 1);
    const auto around = piece_around(object, edit.address);
    const auto home = around ? around : piece_before(object, edit.address);
    if (!home) return refused("it is in no function that is known");
    const Listing& listing = listings.of(*home);
    std::vector<Instruction> passed;  // padding behind the function, before the edit
    if (around) out.instructions = listing.between(edit.address, end);
    // Behind the end of a function only its own padding may be changed.
    for (uint64_t at = around ? edit.address : listing.end(); at < end;) {
      if (!out.instructions.empty()) at = out.instructions.back().end();
      if (at >= end) break;
      const auto in = decode_now(at);
      if (at < home->end || !in || !in->is_padding)
        return refused(
            at < home->end
                ? "it changes what is no code"
                : fmt::format("it changes {:#x}, which is behind the end of its function and no padding",
                              at));
      (in->end() <= edit.address ? passed : out.instructions).push_back(*in);
      at = in->end();
    }
    if (out.instructions.empty()) return refused("no instruction begins where it begins");
    const Instruction& first = out.instructions.front();
    out.within_padding = first.is_padding && first.address < edit.address;
    if (first.address != edit.address && !out.within_padding)
      return refused("no instruction begins where it begins");
    out.padding = passed.empty() ? first.address : passed.front().address;
    for (const Instruction& in : listing.before(out.padding))
      if (in.is_padding)
        out.padding = in.address;
      else
        out.before = in;
    return out;
  }

  // --- one edit

  std::string check(size_t index, const Replaced& replaced, const std::vector<Arrival>& arrivals) const {
    const Edit& edit = proposal_.edits[index];
    const uint64_t changed = changed_bytes(edit);
    if (edit.from.size() != edit.to.size() || changed == 0) return "it changes nothing";
    if (edit.to.size() > kLongestEdit) return "it is longer than any that is needed";
    if (edit.address / kPage != (edit.address + edit.to.size() - 1) / kPage) return "it crosses a page";
    if (index + 1 < proposal_.edits.size() && proposal_.edits[index + 1].address < edit.address + changed)
      return "another edit changes the same bytes";
    std::vector<std::byte> now(edit.from.size());
    if (!object_now_.read(edit.address, now) || !std::ranges::equal(std::as_bytes(edit.from), now))
      return std::string(kNotThere);
    if (!replaced.problem.empty()) {
      const std::string why = check_arrivals(edit.address + 1, edit.address + changed, replaced, arrivals);
      return why.empty() ? replaced.problem : why;
    }
    const bool is_unreached = std::ranges::all_of(replaced.instructions, &Instruction::is_padding);
    const Detour* detour = nullptr;
    bool is_called = false;
    std::string astray = follow(edit, detour, is_called);
    if (is_unreached &&
        (!detour || detour->displaced.empty() || detour->displaced[0].original != edit.address))
      return check_padding(edit, replaced, arrivals);
    if (replaced.within_padding) return "no instruction begins where it begins";
    if (std::string why = check_arrivals(edit.address + 1, edit.address + changed, replaced, arrivals);
        !why.empty())
      return why;
    if (!astray.empty()) return astray;
    return check_window(edit, replaced, *detour, is_called);
  }

  static std::string check_arrivals(uint64_t start, uint64_t end, const Replaced& replaced,
                                    const std::vector<Arrival>& arrivals) {
    const auto begins = [&](uint64_t address) {
      return std::ranges::find(replaced.instructions, address, &Instruction::address) !=
             replaced.instructions.end();
    };
    for (auto one = std::ranges::lower_bound(arrivals, start, {}, &Arrival::to);
         one != arrivals.end() && one->to < end; ++one)
      if (!one->is_number || begins(one->to))
        return fmt::format("control may arrive at {:#x} in it: {}{}", one->to, one->how,
                           one->from ? fmt::format(" (at {:#x})", one->from) : "");
    return "";
  }

  // Padding that nothing reaches but what the proposal itself writes.
  std::string check_padding(const Edit& edit, const Replaced& replaced,
                            const std::vector<Arrival>& arrivals) const {
    const uint64_t start = replaced.padding;
    if (!replaced.before || !replaced.before->ends_flow())
      return "control may run on into the padding that it changes";
    if (edit.address - start > kLongestPadding)
      return "the padding before it is too long to be looked through";
    return check_arrivals(start, edit.address + changed_bytes(edit), replaced, arrivals);
  }

  // --- where it leads

  // The bytes as they will be; one region may go on where another one ends.
  bool read_new(uint64_t address, std::span<std::byte> into) const {
    for (const Region& region : proposal_.code)
      if (address >= region.address && address - region.address < region.bytes.size()) {
        const auto from = std::as_bytes(region.bytes).subspan(address - region.address);
        std::copy_n(from.begin(), std::min(from.size(), into.size()), into.begin());
        return from.size() >= into.size() || read_new(address + from.size(), into.subspan(from.size()));
      }
    if (!object_now_.read(address, into)) return false;
    auto edit =
        std::lower_bound(proposal_.edits.begin(), proposal_.edits.end(), address,
                         [](const Edit& one, uint64_t a) { return one.address + one.to.size() <= a; });
    for (; edit != proposal_.edits.end() && edit->address < address + into.size(); ++edit)
      for (size_t i = 0; i < edit->to.size(); ++i)
        if (edit->address + i >= address && edit->address + i < address + into.size() &&
            edit->from[i] != edit->to[i])
          into[edit->address + i - address] = static_cast<std::byte>(edit->to[i]);
    return true;
  }

  // An instruction by the bytes that `read` knows of; fewer than the longest has may be there.
  template <typename Read>
  static std::optional<Instruction> decode_by(uint64_t address, Read read) {
    std::array<std::byte, 15> bytes{};
    for (size_t size = bytes.size(); size > 0; --size)
      if (read(std::span(bytes).first(size))) return decode(std::span(bytes).first(size), address);
    return std::nullopt;
  }
  std::optional<Instruction> decode_now(uint64_t address) const {
    return decode_by(address, [&](std::span<std::byte> into) { return object_now_.read(address, into); });
  }
  std::optional<Instruction> decode_new(uint64_t address) const {
    return decode_by(address, [&](std::span<std::byte> into) { return read_new(address, into); });
  }

  const Detour* detour_at(uint64_t address) const {
    auto it = std::lower_bound(proposal_.detours.begin(), proposal_.detours.end(), address,
                               [](const Detour& one, uint64_t a) { return one.code.start < a; });
    return it != proposal_.detours.end() && it->code.start == address ? &*it : nullptr;
  }

  // From the first instruction that an edit makes over jumps to a detour; why it does not come there.
  std::string follow(const Edit& edit, const Detour*& detour, bool& is_called) const {
    uint64_t at = edit.address;
    for (int jumps = 0; jumps < 4; ++jumps) {
      const auto in = decode_new(at);
      if (!in) return "what it writes is no instruction";
      if (jumps == 0 && foreign_edit_in(edit, *in)) return "another edit changes a part of its jump";
      uint64_t to = in->target;
      if (jumps == 0 && in->kind == Kind::call) {
        is_called = true;
        if (in->size != edit.to.size())
          return "its call does not return where the call that it replaces does";
      } else if (in->kind == Kind::indirect_jump && in->operand_at) {
        if (!read_new(in->operand, std::as_writable_bytes(std::span(&to, 1)))) return "it leads nowhere";
      } else if (in->kind != Kind::jump) {
        return "it does not lead to a detour";
      }
      detour = detour_at(to);
      if (detour) return "";
      at = to;
    }
    return "it does not lead to a detour";
  }

  // The end of a punned jump is what stands there, so nobody may change it.
  bool foreign_edit_in(const Edit& edit, const Instruction& jump) const {
    const uint64_t first = jump.address - std::min(jump.address, kLongestEdit);
    for (auto other = std::ranges::lower_bound(proposal_.edits, first, {}, &Edit::address);
         other != proposal_.edits.end() && other->address < jump.end(); ++other)
      if (&*other != &edit && other->address + changed_bytes(*other) > jump.address) return true;
    return false;
  }

  std::string check_window(const Edit& edit, const Replaced& replaced, const Detour& detour,
                           bool is_called) const {
    size_t count = 0;
    for (const Instruction& in : replaced.instructions) {
      if (in.is_landing) return "a landing instruction must stay first";
      ++count;
      if (in.ends_flow()) break;
    }
    for (size_t i = count; i < replaced.instructions.size(); ++i)
      if (!replaced.instructions[i].is_padding) return "it changes code behind the end of what it displaces";
    std::vector<Instruction> originals(replaced.instructions.begin(),
                                       replaced.instructions.begin() + static_cast<std::ptrdiff_t>(count));
    // A detour may displace more than what is changed.
    while (originals.size() < detour.displaced.size() && !originals.back().ends_flow()) {
      const auto in = decode_now(originals.back().end());
      if (!in) break;
      originals.push_back(*in);
    }
    if (is_called && (originals.size() != 1 || originals[0].size != edit.to.size()))
      return "its call replaces no call of its size";
    std::vector<std::byte> code(detour.code.end - detour.code.start);
    if (!read_new(detour.code.start, code)) return "its detour is not in the new code";
    return objection_to({detour, code, originals, is_called});
  }

  const Proposal& proposal_;
  const image::Image& image_;
  Snapshot object_now_;
  std::vector<std::string> reasons_;
};

}  // namespace

std::vector<Objection> audit(const Proposal& proposal, const image::Image& image,
                             const image::Memory& memory) {
  return Auditor(proposal, image, memory).run();
}

}  // namespace mdl::audit
