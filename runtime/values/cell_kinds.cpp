#include "runtime/values/cell_kinds.h"

#include <algorithm>

namespace mdl::values {
namespace {

// A timer that runs holds less than nothing: what it had less the clock at its start.
int64_t read_timer(CellReading& cell) {
  if (cell.word() >= 0) return std::max(cell.word(), cell.last());
  const auto now = cell.running();
  if (!now) return cell.last();
  const int64_t clock = now->word < 0 ? static_cast<int64_t>(now->clock) : 0;
  return std::max(now->word + clock, cell.last());
}

// How long a timer ran that was not stopped, nobody saw.
int64_t ended_timer(int64_t word, int64_t last) {
  return std::max(word, last);
}

int64_t shared_timer(int64_t word) {
  return std::max<int64_t>(word, 0);
}

uint64_t timer_anew(uint64_t word, uint64_t clock) {
  return static_cast<int64_t>(word) < 0 ? 0 - clock : 0;
}

// The thread's own clocks begin at 0 with the child.
uint64_t own_timer_anew(uint64_t word, uint64_t) {
  return timer_anew(word, kAbove);
}

void fold_histogram(Observations& into, std::span<const uint64_t> words) {
  into.distribution.add(words);
}

// Words as format/kinds.h has them.
constexpr uint64_t kSign = uint64_t{1} << 63;

void fold_minimum(Observations& into, std::span<const uint64_t> words) {
  if (words[0] == 0) return;
  const auto least = static_cast<int64_t>(~(words[1] ^ kSign));
  into.number = into.count ? std::min(into.number, least) : least;
  into.count += words[0];
}

void fold_maximum(Observations& into, std::span<const uint64_t> words) {
  if (words[0] == 0) return;
  const auto largest = static_cast<int64_t>(words[1] ^ kSign);
  into.number = into.count ? std::max(into.number, largest) : largest;
  into.count += words[0];
}

void fold_average(Observations& into, std::span<const uint64_t> words) {
  into.number = static_cast<int64_t>(static_cast<uint64_t>(into.number) + words[0]);
  into.count += words[1];
}

constexpr CellRoutines kWord = {};
constexpr CellRoutines kHistogram = {.fold = fold_histogram, .is_distribution = true};
constexpr CellRoutines kMinimum = {.fold = fold_minimum};
constexpr CellRoutines kMaximum = {.fold = fold_maximum};
constexpr CellRoutines kAverage = {.fold = fold_average};
constexpr CellRoutines kWallTimer = {read_timer, ended_timer, shared_timer, timer_anew};
constexpr CellRoutines kOwnTimer = {read_timer, ended_timer, shared_timer, own_timer_anew};

}  // namespace

const CellRoutines& routines(format::CellKind kind) {
  switch (kind) {
    case format::CellKind::wall_timer:
      return kWallTimer;
    case format::CellKind::process_timer:
    case format::CellKind::event_timer:
      return kOwnTimer;
    case format::CellKind::histogram:
      return kHistogram;
    case format::CellKind::minimum:
      return kMinimum;
    case format::CellKind::maximum:
      return kMaximum;
    case format::CellKind::average:
      return kAverage;
    default:
      return kWord;
  }
}

}  // namespace mdl::values
