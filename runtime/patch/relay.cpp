#include "runtime/patch/relay.h"

#include <algorithm>

#include "runtime/arch/description.h"
#include "runtime/arch/windows.h"

namespace mdl::patch {
namespace {

using image::Flow;
using image::Instruction;
using image::Range;

using arch::kPage;

bool overlap(const Range& a, const Range& b) {
  return a.start < b.end && b.start < a.end;
}

// True when control never runs on behind it. A call that does not come back is not trusted that far.
bool ends_here(const Instruction& in) {
  return in.flow == Flow::return_ || in.flow == Flow::jump || in.flow == Flow::jump_indirect;
}

bool is_inside(const image::Code& code, uint64_t address) {
  return std::any_of(code.ranges.begin(), code.ranges.end(),
                     [&](const Range& range) { return range.contains(address); });
}

}  // namespace

std::vector<Range> unreachable_padding(const image::Code& code) {
  std::vector<Range> out;
  const auto& list = code.instructions;
  for (size_t i = 0; i + 1 < list.size(); i++) {
    if (!ends_here(list[i])) continue;
    Range run{list[i].address + list[i].size, list[i].address + list[i].size};
    for (size_t k = i + 1; k < list.size() && list[k].is_padding && list[k].address == run.end; k++) {
      if (code.is_target(list[k].address) || code.is_entry(list[k].address)) break;
      if (code.unresolved_jump && is_inside(code, list[k].address)) break;
      run.end += list[k].size;
    }
    if (run.end - run.start >= arch::kMachine.jump_size) out.push_back(run);
  }
  return out;
}

uint64_t written_by(const Window& window) {
  if (window.tactic == Tactic::short_) return arch::kMachine.short_jump_size;
  return uint64_t{arch::kMachine.jump_size} * (1 + window.relays);
}

uint64_t next_relay(const Window& host) {
  return host.start + written_by(host);
}

void drop_windows(std::vector<Window>& windows, const std::function<bool(const Window&)>& unneeded) {
  std::erase_if(windows, [&](const Window& window) { return window.relays == 0 && unneeded(window); });
  const std::vector<Window> left = windows;
  std::erase_if(windows, [&](const Window& host) {
    const image::Range bytes{host.start, host.end};
    return host.relays && unneeded(host) && std::none_of(left.begin(), left.end(), [&](const Window& window) {
             return window.hosted && bytes.contains(window.relay);
           });
  });
}

bool changes(const Window& window, const Range& bytes) {
  return overlap({window.start, window.end}, bytes) ||
         (window.relay && overlap({window.relay, window.relay + arch::kMachine.jump_size}, bytes));
}

bool occupies(const Window& window, const Range& bytes) {
  return changes(window, bytes) || overlap({window.end, window.end + window.kept.size()}, bytes);
}

std::optional<uint64_t> find_relay(std::span<const Range> padding, std::span<const Window> windows,
                                   uint64_t from) {
  const uint64_t reach = arch::kMachine.short_reach;
  for (const Range& run : padding) {
    if (run.end + reach < from || run.start > from + 2 * reach) continue;
    for (uint64_t at = run.start; at + arch::kMachine.jump_size <= run.end; at += arch::kMachine.alignment) {
      Range relay{at, at + arch::kMachine.jump_size};
      bool in_page = at / kPage == (relay.end - 1) / kPage;
      if (!in_page || !arch::short_jump_reaches(from, at)) continue;
      if (std::none_of(windows.begin(), windows.end(),
                       [&](const Window& window) { return occupies(window, relay); }))
        return at;
    }
  }
  return std::nullopt;
}

}  // namespace mdl::patch
