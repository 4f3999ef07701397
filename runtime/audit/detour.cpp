#include "runtime/audit/detour.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace mdl::audit {
namespace {

class Check {
 public:
  explicit Check(const DetourInput& input) : input_(input), displaced_(input.detour.displaced) {}

  std::string run() {
    if (!list()) return "its detour is no sequence of instructions";
    if (displaced_.size() != input_.originals.size() || displaced_.empty())
      return "its detour does not say where each displaced instruction is";
    uint64_t stretch = input_.detour.code.start;
    for (size_t i = 0; i < displaced_.size(); ++i) {
      if (displaced_[i].original != input_.originals[i].address)
        return "its detour displaces other instructions than those that are changed";
      if (displaced_[i].copy < stretch || displaced_[i].moved < stretch ||
          displaced_[i].moved > displaced_[i].copy)
        return "its detour has the displaced instructions out of order";
      stretches_.push_back({stretch, displaced_[i].copy});
      const Instruction* copy = at(displaced_[i].copy);
      if (!copy)
        return fmt::format("no instruction begins at the copy of the one at {:#x}", displaced_[i].original);
      if (!at(displaced_[i].moved)) return "a thread would be moved into an instruction of the detour";
      const auto behind = behind_copy(i, *copy);
      if (!behind)
        return fmt::format("the copy of the instruction at {:#x} does something else",
                           displaced_[i].original);
      stretch = *behind;
    }
    return check_end(stretch);
  }

 private:
  bool list() {
    for (size_t at = 0; at < input_.code.size();) {
      const auto in = decode(input_.code.subspan(at), input_.detour.code.start + at);
      if (!in) return false;
      listing_.push_back(*in);
      at += in->size;
    }
    return !listing_.empty();
  }
  const Instruction* at(uint64_t address) const {
    auto it = std::lower_bound(listing_.begin(), listing_.end(), address,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    return it != listing_.end() && it->address == address ? &*it : nullptr;
  }
  const Instruction* before(uint64_t address) const {
    auto it = std::lower_bound(listing_.begin(), listing_.end(), address,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    return it != listing_.begin() && std::prev(it)->end() == address ? &*std::prev(it) : nullptr;
  }

  // Where the code goes on behind the copy of an instruction; nothing when that is no copy.
  std::optional<uint64_t> behind_copy(size_t index, const Instruction& copy) {
    const Instruction& original = input_.originals[index];
    if (input_.is_called) return goes_on_as(original, copy) ? std::optional(copy.end()) : std::nullopt;
    if (has_same_effect(original, copy)) return copy.end();
    // Code that was added for the taken side of a branch stands between its inverse and a jump to its target.
    if (original.kind != Kind::branch || copy.kind != Kind::branch || copy.target <= copy.end() ||
        !is_opposite(original, copy))
      return std::nullopt;
    const Instruction* jump = before(copy.target);
    if (!jump || jump->kind != Kind::jump || jump->target != original.target || jump->address < copy.end() ||
        copy.target > input_.detour.code.end)
      return std::nullopt;
    stretches_.push_back({copy.end(), jump->address});
    return copy.target;
  }

  // Behind the last copy: what was added there, and the jump back.
  std::string check_end(uint64_t stretch) {
    const Instruction& last = input_.originals.back();
    uint64_t rest = stretch;
    if (!input_.is_called && !last.ends_flow()) {
      const auto back = std::find_if(listing_.begin(), listing_.end(), [&](const Instruction& in) {
        return in.address >= stretch && in.kind == Kind::jump && !is_inside(in.target);
      });
      if (back == listing_.end() || back->target != last.end())
        return fmt::format("its detour does not come back to {:#x}", last.end());
      stretches_.push_back({stretch, back->address});
      rest = back->end();
    }
    for (const image::Range& one : stretches_)
      if (std::string why = check_stretch(one, one, rest); !why.empty()) return why;
    return "";
  }

  bool is_inside(uint64_t address) const { return input_.detour.code.contains(address); }

  // `part` is a piece of what was added at `home`, which it may go back to. `rest`: where seldom executed
  // parts begin.
  std::string check_stretch(const image::Range& part, const image::Range& home, uint64_t rest) {
    if (part.start != part.end && !at(part.start)) return "its detour jumps into an instruction";
    for (const Instruction& in : listing_) {
      if (in.address < part.start || in.address >= part.end) continue;
      const bool leaves = in.kind == Kind::jump || in.kind == Kind::branch;
      if (in.kind == Kind::return_ || in.kind == Kind::indirect_jump || in.kind == Kind::other)
        return "what was added in its detour does not come back";
      if (in.kind == Kind::call && is_inside(in.target)) return "what was added in its detour calls into it";
      if (!leaves) continue;
      const bool stays =
          in.target >= home.start && in.target <= home.end && (in.target == home.end || at(in.target));
      if (stays) continue;
      if (part.start != home.start || in.target < rest || !is_inside(in.target))
        return "what was added in its detour passes a displaced instruction by";
      if (std::string why = check_aside(in.target, home, rest); !why.empty()) return why;
    }
    return "";
  }

  // A seldom executed part ends with the first jump.
  std::string check_aside(uint64_t start, const image::Range& home, uint64_t rest) {
    const auto jump = std::find_if(listing_.begin(), listing_.end(), [&](const Instruction& in) {
      return in.address >= start && in.kind == Kind::jump;
    });
    if (jump == listing_.end()) return "what was added in its detour does not come back";
    return check_stretch({start, jump->end()}, home, rest);
  }

  const DetourInput& input_;
  const std::vector<Displaced>& displaced_;
  std::vector<Instruction> listing_;
  std::vector<image::Range> stretches_;  // what was added, in order
};

}  // namespace

std::string objection_to(const DetourInput& input) {
  return Check(input).run();
}

}  // namespace mdl::audit
