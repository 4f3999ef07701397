#include "runtime/session/request_values.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>

#include "runtime/focus/name_pattern.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/resident/key_table.h"
#include "runtime/values/cell_kinds.h"
#include "runtime/values/fold.h"

namespace mdl::inject {
namespace {

constexpr size_t kMostLines = 1 << 17;  // by thread, of a process

// The focus of one key: its number in the place of the `*` that stands for keys.
std::string of_key(const std::string& focus, const std::string& key) {
  constexpr std::string_view kThreads = "/Thread/*";
  size_t star = focus.rfind('*');
  if (const size_t threads = focus.rfind(kThreads); threads != std::string::npos)
    if (star == threads + kThreads.size() - 1) star = focus.rfind('*', star - 1);
  return focus.substr(0, star) + key + focus.substr(star + 1);
}

// `by_focus`: the keys are what its focus asks for, and not the metric's own.
std::string focus_of(const resident::JournalRequest& request, const RequestValue& value, bool by_focus) {
  std::string out = request.focus;
  if (by_focus) out = of_key(out, value.others ? "?" : fmt::format("{}", value.of.key));
  return request.thread == focus::kEachThread && !value.others ? focus::of_thread(out, value.of.thread) : out;
}

// Where the resource of a hierarchy stands in a focus, as /SyncObject/Mutex/name; empty where none is there.
std::string_view resource_in(std::string_view focus, std::string_view hierarchy) {
  for (size_t at = 0; at < focus.size();) {
    const size_t end = std::min(focus.find(",/", at), focus.size());
    const std::string_view one = focus.substr(at, end - at);
    if (one.starts_with(hierarchy) && (one.size() == hierarchy.size() || one[hierarchy.size()] == '/'))
      return one;
    at = end + 1;
  }
  return {};
}

// The resource that a key is, as /SyncObject/Mutex/NAME. A function and what a descriptor was open for are one already;
// where the latter is not known it may have been a file, or a socket where only these are asked for.
std::string resource_of(format::KeyName name, const std::string& text) {
  if (name == format::KeyName::path || text.starts_with('/')) return text;
  return fmt::format("{}/{}", format::hierarchies_of(name).front(), text);
}

// The focus with a resource that is a key: in the place of what stands for all of them, or before the others.
std::string with_resource(const std::string& focus, format::KeyName name, const std::string& resource) {
  std::string_view asked;
  for (const std::string_view hierarchy : format::hierarchies_of(name))
    if (asked.empty()) asked = resource_in(focus, hierarchy);
  if (asked.empty()) return focus.empty() ? resource : resource + "," + focus;
  std::string out = focus;
  return out.replace(static_cast<size_t>(asked.data() - focus.data()), asked.size(), resource);
}

// By key. `threads`: how many the metric is folded over.
std::map<values::KeyOf, int64_t> fold(const std::map<values::KeyOf, values::KeyTotal>& totals,
                                      const resident::JournalRequest& request, int64_t threads) {
  std::map<values::KeyOf, int64_t> out;
  const bool all = request.thread == focus::kAllThreads;
  std::map<values::KeyOf, values::Fold> folds;
  for (const auto& [of, total] : totals)
    if (all || static_cast<uint64_t>(request.thread) == of.thread)
      folds[{of.key, 0, of.more}].add(total.value);
  for (auto& [key, fold] : folds) {
    // Threads that never met the key have counted nothing for it.
    if (all && request.aggregate != format::Aggregate::sum) fold.add_zeros(threads - fold.count());
    out[key] = fold.result(request.aggregate);
  }
  return out;
}

// How each key is shown, and the key; in the order in which they were asked for.
std::vector<std::pair<format::KeyName, int64_t>> named_keys(const std::vector<format::KeyName>& names,
                                                            const values::KeyOf& of) {
  std::vector<std::pair<format::KeyName, int64_t>> out(names.size());
  size_t at = 0;
  for (const size_t i : format::order_of_keys(names)) {
    out[i] = {names[i], at == 0 ? of.key : of.more[at - 1]};
    at++;
  }
  return out;
}

}  // namespace

values::KeyPlace key_place(const resident::JournalTable& table) {
  const resident::KeyTableShape shape = table.shape();
  return {.table = table.at.start,
          .most = shape.most,
          .others = shape.others(),
          .totals = shape.totals(),
          .texts = shape.texts(),
          .text_keys = shape.text_keys,
          .descriptors = shape.descriptors,
          .own = shape.own(),
          .most_own = shape.most_own(),
          .own_totals = shape.own_totals(),
          .keys = table.keys,
          .base = table.base,
          .by_thread = table.by_thread,
          .kind = table.kind};
}

RequestValues::RequestValues(const resident::Journal& journal, const values::BlockLayout& layout,
                             output::Feed& feed, pid_t pid)
    : journal_(journal), feed_(feed), pid_(pid), sockets_(std::make_shared<SocketNames>(pid)) {
  add_readers(layout);
}

void RequestValues::add_readers(const values::BlockLayout& layout) {
  for (const resident::JournalTable& table : journal_.tables) {
    if (keys_.contains(table.request)) continue;
    values::KeyReader& reader = keys_.try_emplace(table.request, layout, key_place(table)).first->second;
    reader.name_descriptors([sockets = sockets_](const std::string& text) { return sockets->name_of(text); });
  }
}

// A keyed request that stays has its table where it was.
void RequestValues::change(const values::BlockLayout& layout,
                           const std::vector<std::optional<uint32_t>>& kept,
                           std::vector<output::Feed*> feeds) {
  feeds_ = std::move(feeds);
  decltype(keys_) keys;
  decltype(series_) all_series;
  std::map<size_t, size_t> now;  // by the index before
  for (size_t i = 0; i < kept.size(); i++) {
    if (!kept[i]) continue;
    now.emplace(*kept[i], i);
    if (auto known = keys_.extract(*kept[i])) keys.emplace(i, std::move(known.mapped()));
  }
  for (const auto& [of, series] : series_)
    if (const auto one = now.find(std::get<0>(of)); one != now.end())
      all_series[{one->second, std::get<1>(of), std::get<2>(of)}] = series;
  decltype(files_) files;
  for (auto& [of, file] : files_)
    if (const auto one = now.find(of.first); one != now.end())
      files[{one->second, of.second}] = std::move(file);
  decltype(taken_) taken;
  for (const auto& [of, key] : taken_)
    if (const auto one = now.find(std::get<0>(of)); one != now.end())
      taken[{one->second, std::get<1>(of), std::get<2>(of)}] = key;
  files_ = std::move(files);
  taken_ = std::move(taken);
  keys_ = std::move(keys);
  series_ = std::move(all_series);
  last_.clear();
  add_readers(layout);
}

void RequestValues::read_keys(const image::Memory& memory) {
  sockets_->forget();
  for (auto& [request, reader] : keys_)
    if (reader.read(memory)) name_descriptors(request, reader.last());
}

// A descriptor is of another file later, or of none: what it is is asked when it is first seen.
void RequestValues::name_descriptors(size_t request, const values::KeyValues& now) {
  const std::vector<format::KeyName>* names = names_of_keys(request);
  if (names == nullptr || std::ranges::find(*names, format::KeyName::fd) == names->end()) return;
  const auto name = [&](const auto& values) {
    for (const auto& [of, value] : values)
      for (const auto& [name, key] : named_keys(*names, of))
        if (name == format::KeyName::fd)
          if (const auto [file, fresh] = files_.try_emplace({request, key}); fresh)
            file->second = kernel::proc_link(pid_, fmt::format("fd/{}", key));
  };
  name(now.totals), name(now.observed);
}

std::string RequestValues::text_of(size_t request, format::KeyName name, int64_t key) const {
  using enum format::KeyName;
  const auto address = static_cast<uint64_t>(key);
  if (name == fd) {
    const auto file = files_.find({request, key});
    return file == files_.end() || file->second.empty() ? fmt::format("{}", key)
                                                        : fmt::format("{} {}", key, file->second);
  }
  if (name == error)
    if (const char* known = strerrorname_np(static_cast<int>(key))) return fmt::format("{} {}", key, known);
  if (name == number || name == error) return fmt::format("{}", key);
  if (name == str) return keys_.at(request).text(key);
  if (format::is_descriptor(name)) return keys_.at(request).descriptor(key);
  if (name == site && key == 0) return "<unknown block>";
  return !addresses_                      ? fmt::format("{:#x}", address)
         : name == caller || name == site ? addresses_->of_caller(address)
         : name == path                   ? addresses_->path(address)
         : name == module                 ? addresses_->object(address)
                                          : addresses_->at(address);
}

std::string RequestValues::name_key(size_t request, size_t place, format::KeyName name, int64_t key) {
  std::string text = text_of(request, name, key);
  if (taken_.try_emplace({request, place, text}, key).first->second != key)
    text += fmt::format(" ({:#x})", static_cast<uint64_t>(key));
  return text;
}

// The resource that the request's focus asks for among those that such keys are, with `*` and `?`; "" where that is all.
std::string_view RequestValues::asked(size_t request, format::KeyName name) const {
  const auto hierarchies = format::hierarchies_of(name);
  for (const std::string_view hierarchy : hierarchies) {
    const std::string_view resource = resource_in(journal_.requests[request].focus, hierarchy);
    const bool is_all = resource.size() <= hierarchy.size() || resource.substr(hierarchy.size()) == "/*";
    if (!resource.empty() && !(is_all && hierarchies.size() == 1)) return resource;
  }
  return {};
}

// Others are kept, too, and not shown.
bool RequestValues::is_asked(size_t request, const values::KeyOf& of) const {
  return std::ranges::all_of(named_keys(*names_of_keys(request), of), [&](const auto& one) {
    const std::string_view pattern = asked(request, one.first);
    return pattern.empty() ||
           focus::fits(pattern, resource_of(one.first, text_of(request, one.first, one.second)));
  });
}

std::vector<RequestValue> RequestValues::of(size_t index, const values::Snapshot& snapshot) const {
  const resident::JournalRequest& request = journal_.requests[index];
  const format::CellKind kind = journal_.kinds[request.value];
  const auto observation = [](bool others, values::KeyOf of, const values::Observations& observed,
                              format::CellKind kind) -> RequestValue {
    const bool is_distribution = values::routines(kind).is_distribution;
    return {others, of, is_distribution ? observed.distribution.sum : observed.value(kind), &observed, kind};
  };
  const auto value = [&](uint64_t thread, int64_t total) -> RequestValue {
    if (!values::routines(kind).fold) return {false, {0, thread, {}}, total};
    return observation(false, {0, thread, {}}, snapshot.observed(index, thread), kind);
  };
  if (!request.keyed && request.thread != focus::kEachThread) return {value(0, snapshot.cells[index])};
  std::vector<RequestValue> out;
  if (!request.keyed) {
    int64_t others = 0;
    bool any = false;  // in the line of thread 0
    const bool is_observed = values::routines(kind).fold != nullptr;
    for (const auto& [thread, total] : snapshot.each[index])
      if (thread != 0 && (is_observed || has_line(index, thread)))
        out.push_back(value(thread, total));
      else
        others += total, any = true;
    if (any) out.insert(out.begin(), value(0, others));
  }
  if (const auto table = keys_.find(index); request.keyed && table != keys_.end()) {
    const values::KeyValues& now = table->second.last();
    // Once for all keys, of which there may be thousands in each sample.
    const std::vector<format::KeyName>* names = names_of_keys(index);
    const bool all = names == nullptr || std::ranges::all_of(*names, [&](format::KeyName name) {
                       return asked(index, name).empty();
                     });
    const auto is_shown = [&](const values::KeyOf& of) { return all || is_asked(index, of); };
    if (const format::CellKind keyed = table->second.kind(); values::routines(keyed).fold) {
      for (const auto& [of, observed] : now.observed)
        if ((request.thread < 0 || static_cast<uint64_t>(request.thread) == of.thread) && is_shown(of))
          out.push_back(
              observation(false, {of.key, request.thread < 0 ? of.thread : 0, of.more}, observed, keyed));
      if (now.others) out.push_back(observation(true, {}, now.others_observed, keyed));
      return out;
    }
    if (table->second.is_by_thread() && request.thread != focus::kEachThread) {
      for (const auto& [of, total] : fold(now.totals, request, snapshot.counts[index]))
        if (is_shown(of)) out.push_back({false, of, total});
    } else {
      out.reserve(now.in_order.size() + 1);
      for (const auto* one : now.in_order)
        if (all || is_shown(one->first)) out.push_back({false, one->first, one->second.value});
    }
    if (now.others) out.push_back({true, {}, now.others_total});
  }
  return out;
}

// Threads come and go: a line each for each of thousands of functions, and for good, has no end.
bool RequestValues::has_line(size_t request, uint64_t thread) const {
  if (lines_by_thread_ < kMostLines || series_.contains({request, false, {0, thread, {}}})) return true;
  has_more_threads_ = true;
  return false;
}

// Those of a metric by key; null for any other request.
const std::vector<format::KeyName>* RequestValues::names_of_keys(size_t index) const {
  for (const resident::JournalTable& table : journal_.tables)
    if (table.request == index && !table.names.empty()) return &table.names;
  return nullptr;
}

const output::Series& RequestValues::series(size_t index, const RequestValue& value, size_t place) {
  last_.resize(journal_.requests.size());
  std::vector<Known>& last = last_[index];
  if (last.size() <= place) last.resize(place + 1);
  // Of thousands, none is in a cache any more.
  constexpr size_t kAhead = 8;
  if (place + kAhead < last.size()) __builtin_prefetch(last[place + kAhead].series);
  const Of of{index, value.others, value.of};
  if (last[place].series == nullptr || last[place].of != of) last[place] = {of, &series_of(index, value)};
  return *last[place].series;
}

const output::Series& RequestValues::series_of(size_t index, const RequestValue& value) {
  const output::Series*& known = series_[{index, value.others, value.of}];
  if (known) return *known;
  const resident::JournalRequest& request = journal_.requests[index];
  if (!request.keyed && request.thread == focus::kEachThread) ++lines_by_thread_;
  output::Series series;
  series.metric = request.metric;
  series.name = request.name;
  const std::vector<format::KeyName>* names = names_of_keys(index);
  series.focus = focus_of(request, value, request.keyed && names == nullptr);
  if (names != nullptr)
    for (size_t place = 0; const auto& [name, key] : named_keys(*names, value.of)) {
      const std::string text = value.others ? "?" : name_key(index, place++, name, key);
      if (name == format::KeyName::module)
        series.focus = series.focus.empty() ? text : text + "," + series.focus;
      else if (!format::hierarchies_of(name).empty())
        series.focus = with_resource(series.focus, name, resource_of(name, text));
      else
        series.key.push_back(text);
    }
  series.asked =
      request.of == focus::BoundRequest::kNone ? request.focus : journal_.requests[request.of].focus;
  series.process = pid_;
  series.units = request.units;
  series.aggregate = request.thread == focus::kEachThread ? std::nullopt : std::optional(request.aggregate);
  series.kind = values::routines(value.kind).is_distribution ? output::Series::Kind::distribution
                : is_level(request)                          ? output::Series::Kind::level
                                                             : output::Series::Kind::total;
  // The children of one request with `*` belong together, and so do keys.
  if (request.keyed)
    series.family = static_cast<uint32_t>(index) + 1;
  else if (request.of != focus::BoundRequest::kNone)
    series.family = request.of + 1;
  return *(known = &feed_of(index).add(std::move(series)));
}

bool RequestValues::has_other_keys(size_t request) const {
  const auto reader = keys_.find(request);
  return reader != keys_.end() && reader->second.last().others;
}

uint64_t RequestValues::more_keys() const {
  uint64_t more = 0;
  for (const auto& [request, reader] : keys_) more += reader.last().more;
  return more;
}

}  // namespace mdl::inject
