#include "format/kinds.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "format/manifest.h"

namespace mdl::format {
namespace {

constexpr PointKindInfo kPoints[] = {
#define X(id, name, args, result, feature, owner, field, many, rank, noun) \
  {name, args, result, feature, PointOwner::owner, field, many, rank, noun},
    MDL_POINT_KINDS(X)
#undef X
};

static_assert(std::size(kPoints) == kPointKinds);

constexpr CellKindInfo kCells[] = {
#define X(id, name, type, size, room, group, clock, update, feature) \
  {name, type, size, room, CellGroup::group, CellClock::clock, update, feature},
    MDL_CELL_KINDS(X)
#undef X
};

constexpr EventInfo kEvents[] = {
#define X(id, name, alias, offset, more) {name, alias, offset, more},
    MDL_EVENTS(X)
#undef X
};

constexpr RoutineInfo kRoutines[] = {
#define X(id, name, feature, nanoseconds) {name, feature, nanoseconds},
    MDL_ROUTINES(X)
#undef X
};

template <typename Row>
constexpr std::string_view spelled(const Row& row) {
  return row.name;
}
constexpr std::string_view spelled(std::string_view row) {
  return row;
}

template <typename Kind, typename Row, size_t N>
std::optional<Kind> named(const Row (&table)[N], std::string_view wanted) {
  for (size_t i = 0; i < N; i++)
    if (spelled(table[i]) == wanted) return static_cast<Kind>(i);
  return std::nullopt;
}

}  // namespace

const PointKindInfo& info(PointKind kind) {
  return kPoints[static_cast<size_t>(kind)];
}
const CellKindInfo& info(CellKind kind) {
  return kCells[static_cast<size_t>(kind)];
}
const EventInfo& info(Event event) {
  return kEvents[static_cast<size_t>(event)];
}
const RoutineInfo& info(Routine routine) {
  return kRoutines[static_cast<size_t>(routine)];
}
std::string_view name(Aggregate value) {
  return kAggregates[static_cast<size_t>(value)];
}

std::optional<KeyChange> key_change(CellKind kind) {
  switch (kind) {
    case CellKind::counter:
      return KeyChange::add;
    case CellKind::histogram:
      return KeyChange::observe;
    case CellKind::minimum:
      return KeyChange::least;
    case CellKind::maximum:
      return KeyChange::largest;
    case CellKind::average:
      return KeyChange::mean;
    default:
      return std::nullopt;
  }
}

Aggregate aggregate_of(CellKind kind) {
  switch (kind) {
    case CellKind::minimum:
      return Aggregate::min;
    case CellKind::maximum:
      return Aggregate::max;
    case CellKind::average:
      return Aggregate::avg;
    default:
      return Aggregate::sum;
  }
}

bool is_timer(CellKind kind) {
  return info(kind).group == CellGroup::timers;
}

bool is_time(CellKind kind) {
  const CellClock clock = info(kind).clock;
  return clock == CellClock::wall || clock == CellClock::cpu;
}

bool is_raised(CellKind kind) {
  return is_timer(kind) || info(kind).group == CellGroup::flags;
}

bool is_even(CellKind kind) {
  return is_raised(kind) || kind == CellKind::entries;
}

uint64_t text_keys(const Metric& metric) {
  return static_cast<uint64_t>(std::ranges::count_if(metric.keys, is_text, &MetricKey::name));
}

uint64_t text_keys(const std::vector<KeyName>& names) {
  return static_cast<uint64_t>(std::ranges::count_if(names, is_text));
}

std::vector<KeyName> texts_of(const std::vector<KeyName>& names) {
  std::vector<KeyName> out;
  std::ranges::copy_if(names, std::back_inserter(out), is_text);
  return out;
}

std::vector<size_t> order_of_keys(const std::vector<KeyName>& names) {
  std::vector<size_t> out;
  for (const bool texts : {true, false})
    for (size_t i = 0; i < names.size(); i++)
      if (is_text(names[i]) == texts) out.push_back(i);
  return out;
}

bool is_known_feature(std::string_view wanted) {
  const auto has = [&](const auto& row) { return row.feature == wanted; };
  return std::ranges::any_of(kPoints, has) || std::ranges::any_of(kCells, has) ||
         std::ranges::any_of(kRoutines, has) ||
         std::ranges::find(kOtherFeatures, wanted) != std::end(kOtherFeatures);
}

std::optional<PointKind> point_kind(std::string_view wanted) {
  return named<PointKind>(kPoints, wanted);
}
std::optional<PointKind> point_field(PointOwner owner, std::string_view field) {
  for (const PointKindInfo& one : kPoints)
    if (one.owner == owner && one.field == field) return static_cast<PointKind>(&one - kPoints);
  return std::nullopt;
}
std::optional<CellKind> cell_kind(std::string_view wanted) {
  return named<CellKind>(kCells, wanted);
}
std::optional<CellKind> cell_type(std::string_view wanted) {
  for (const CellKindInfo& one : kCells)
    if (wanted == one.type && !wanted.empty()) return static_cast<CellKind>(&one - kCells);
  return std::nullopt;
}
std::optional<Event> event(std::string_view wanted) {
  return named<Event>(kEvents, wanted);
}
std::optional<Event> event_or_alias(std::string_view wanted) {
  for (const EventInfo& one : kEvents)
    if (wanted == one.name || (!one.alias.empty() && wanted == one.alias))
      return static_cast<Event>(&one - kEvents);
  return std::nullopt;
}
std::optional<Routine> routine(std::string_view wanted) {
  return named<Routine>(kRoutines, wanted);
}
std::optional<Aggregate> aggregate(std::string_view wanted) {
  return named<Aggregate>(kAggregates, wanted);
}

std::span<const std::string_view> hierarchies_of(KeyName name) {
  // By the names' order.
  static constexpr std::string_view kLocks[] = {"/SyncObject/Mutex", "/SyncObject/RwLock",
                                                "/SyncObject/Condition", "/SyncObject/Semaphore",
                                                "/SyncObject/Barrier"};
  static constexpr std::string_view kDescriptors[] = {kFiles, kSockets};
  static constexpr std::string_view kFunctions[] = {"/Code"}, kMemory[] = {"/Memory"};
  using Hierarchies = std::span<const std::string_view>;
  const Hierarchies locks(kLocks), descriptors(kDescriptors);
  if (is_lock(name)) return locks.subspan(static_cast<size_t>(name) - static_cast<size_t>(KeyName::mutex), 1);
  if (name == KeyName::file) return descriptors.first(1);
  if (name == KeyName::socket) return descriptors.last(1);
  if (name == KeyName::descriptor) return descriptors;
  if (name == KeyName::path) return kFunctions;
  if (name == KeyName::memory) return kMemory;
  return {};
}

bool is_lock(KeyName name) {
  return name >= KeyName::mutex && name <= KeyName::barrier;
}

bool is_descriptor(KeyName name) {
  return name == KeyName::file || name == KeyName::socket || name == KeyName::descriptor;
}

bool is_text(KeyName name) {
  return name == KeyName::str || is_descriptor(name);
}

std::optional<KeyName> key_call(std::string_view wanted) {
  const auto known = named<KeyName>(kKeyNames, wanted);
  const bool is_other = known == KeyName::number || known == KeyName::caller || known == KeyName::error;
  return is_other ? std::nullopt : known;
}

}  // namespace mdl::format
