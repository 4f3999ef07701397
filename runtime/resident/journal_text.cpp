#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/json.h"
#include "runtime/arch/description.h"
#include "runtime/arch/target_data.h"
#include "runtime/arch/windows.h"
#include "runtime/resident/journal.h"
#include "runtime/resident/key_table.h"

namespace mdl::resident {
namespace {

using nlohmann::json;

constexpr char kMagic[8] = {'M', 'D', 'L', 'J', 'R', 'N', 'L', '\n'};
constexpr uint64_t kMaxWindow = 16;

struct Head {
  char magic[8];
  uint32_t version;
  uint32_t taken;   // not 0: kJournalTaken
  uint64_t length;  // of the JSON text behind this head
  Digest checksum;  // of that text
};

static_assert(sizeof(Head) == kJournalHead && offsetof(Head, taken) == kJournalTaken);

Digest checksum(std::string_view text) {
  return sha256(std::as_bytes(std::span(text)));
}

std::string hex(const std::vector<uint8_t>& bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::vector<uint8_t> unhex(const std::string& text) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return out;
}

json range_json(const image::Range& range) {
  return json::array({range.start, range.end});
}

image::Range range_of(const json& value) {
  image::Range out{value.at(0).get<uint64_t>(), value.at(1).get<uint64_t>()};
  if (out.start >= out.end || out.start % 4096 != 0 || out.end >> 47 != 0) throw std::out_of_range("range");
  return out;
}

void put_raised(const Journal& j, json& out) {
  out["functions"] = json::array();
  for (const JournalFunction& f : j.functions) {
    json function = json::array({f.name});
    for (const image::Range& range : f.code) function.push_back(range_json(range));
    out["functions"].push_back(std::move(function));
  }
  out["raised"] = json::array();
  for (const RaisedCell& r : j.raised)
    out["raised"].push_back(
        json::array({r.cell, r.tied, r.moves, r.functions, r.requests, r.words, r.words_end}));
}

json to_json(const Journal& j) {
  json out = {
      {"owner", j.owner},
      {"owner_start", j.owner_start},
      {"target", j.target},
      {"started_ns", j.started_ns},
      {"plan", j.plan},
      {"points", j.points},
      {"slots", j.layout.slots},
      {"stride", j.layout.stride},
      {"groups", {j.layout.timers, j.layout.calls, j.layout.sums, j.layout.cells_end, j.layout.extremes_end}},
      {"ended", j.layout.ended},
      {"ticks_per_second", j.ticks_per_second},
      {"hit_time", j.layout.keeps_hit_time},
      {"thread_at", j.layout.thread_at},
      {"data", range_json(j.data)}};
  if (j.news.end) out["news"] = range_json(j.news);
  if (j.layout.anomalies) out["anomalies"] = {j.layout.anomalies, j.layout.anomalies_end};
  if (j.layout.deferred) out["deferred"] = j.layout.deferred;
  if (j.layout.times_calls) out["times_calls"] = true;
  for (const image::Range& range : j.code) out["code"].push_back(range_json(range));
  out["cells"] = json::array();
  for (size_t i = 0; i < j.kinds.size(); i++)
    out["cells"].push_back(json::array({format::info(j.kinds[i]).name, j.layout.cells[i]}));
  out["requests"] = json::array();
  for (const JournalRequest& r : j.requests) {
    json request = {{"metric", r.metric},
                    {"focus", r.focus},
                    {"name", r.name},
                    {"units", r.units},
                    {"aggregate", format::name(r.aggregate)},
                    {"value", r.value},
                    {"event", format::info(r.event).name},
                    {"thread", r.thread},
                    {"refused", r.refused}};
    if (r.children) request["children"] = r.children;
    if (r.keyed) request["keyed"] = true;
    if (r.early) request["early"] = r.early;
    if (r.sampled) request["sampled"] = true;
    if (r.of != focus::BoundRequest::kNone) request["of"] = r.of;
    out["requests"].push_back(std::move(request));
  }
  out["tables"] = json::array();
  for (const JournalTable& t : j.tables)
    out["tables"].push_back(json::array({range_json(t.at), t.most, t.request, t.keys, t.base, t.by_thread,
                                         t.names, format::info(t.kind).name}));
  if (j.extension) out["extension"] = j.extension;
  if (j.generation) out["generation"] = j.generation;
  out["files"] = json::array();
  for (const PatchedFile& file : j.files)
    out["files"].push_back(json::array({range_json(file.at), file.device, file.inode}));
  out["windows"] = json::array();
  for (const PatchedWindow& w : j.windows)
    out["windows"].push_back(json::array({w.address, hex(w.original), hex(w.patched), w.points, w.part}));
  put_raised(j, out);
  return out;
}

// Where a target has forged them, they decide on no more than what is said of its functions.
void take_raised(const json& in, Journal& out) {
  for (const json& f : in.at("functions")) {
    JournalFunction function{f.at(0).get<std::string>(), {}};
    for (size_t i = 1; i < f.size(); i++)
      function.code.push_back({f.at(i).at(0).get<uint64_t>(), f.at(i).at(1).get<uint64_t>()});
    out.functions.push_back(std::move(function));
  }
  for (const json& r : in.at("raised")) {
    RaisedCell cell{r.at(0).get<focus::CellId>(),
                    r.at(1).get<bool>(),
                    r.at(2).get<bool>(),
                    r.at(3).get<std::vector<uint32_t>>(),
                    r.at(4).get<std::vector<uint32_t>>(),
                    r.at(5).get<uint32_t>(),
                    r.at(6).get<uint32_t>()};
    const auto is_known = [&](uint32_t function) { return function < out.functions.size(); };
    if (!std::ranges::all_of(cell.functions, is_known) || !std::ranges::is_sorted(cell.functions))
      throw std::out_of_range("raised");
    out.raised.push_back(std::move(cell));
  }
}

PatchedWindow window_of(const json& value) {
  PatchedWindow out{value.at(0).get<uint64_t>(), unhex(value.at(1).get<std::string>()),
                    unhex(value.at(2).get<std::string>()), value.at(3).get<uint64_t>(),
                    value.at(4).get<PatchedWindow::Part>()};
  if (out.original.empty() || out.original.size() > kMaxWindow || out.original.size() != out.patched.size() ||
      out.address >> 47 != 0)
    throw std::out_of_range("window");
  if (out.part > PatchedWindow::Part::window ||
      (out.part != PatchedWindow::Part::window && relays_of(out).empty()))
    throw std::out_of_range("part");
  return out;
}

Layout layout_of(const json& in, std::vector<format::CellKind>& kinds, const image::Range& data) {
  Layout out;
  out.slots = in.at("slots").get<uint32_t>();
  out.stride = in.at("stride").get<uint64_t>();
  out.ended = in.at("ended").get<uint32_t>();
  out.keeps_hit_time = in.at("hit_time").get<bool>();
  out.thread_at = in.at("thread_at").get<uint32_t>();
  const json& groups = in.at("groups");
  out.timers = groups.at(0).get<uint64_t>(), out.calls = groups.at(1).get<uint64_t>();
  out.sums = groups.at(2).get<uint64_t>(), out.cells_end = groups.at(3).get<uint64_t>();
  out.extremes_end = groups.at(4).get<uint64_t>();
  out.deferred = in.value("deferred", uint64_t{0});
  out.times_calls = in.value("times_calls", false);
  if (in.contains("anomalies")) {
    out.anomalies = in.at("anomalies").at(0).get<uint64_t>();
    out.anomalies_end = in.at("anomalies").at(1).get<uint64_t>();
    const uint64_t pairs = (out.timers - kBlockHeader) + (out.calls - out.timers) / 2;
    if (out.timers < kBlockHeader || out.calls < out.timers || out.anomalies % 8 != 0 ||
        out.anomalies_end % 8 != 0 || out.anomalies < out.sums || out.anomalies_end > out.cells_end ||
        out.anomalies_end < out.anomalies || out.anomalies_end - out.anomalies < pairs)
      throw std::out_of_range("anomalies");
  }
  if (out.ended > kMostEnded || out.timers > out.calls || out.calls > out.sums || out.sums > out.cells_end ||
      out.cells_end > out.extremes_end || out.extremes_end > out.stride)
    throw std::out_of_range("layout");
  if (!std::has_single_bit(out.slots) || out.slots > kMostSlots || out.stride < kBlockHeader ||
      out.stride > kLargestBlock || out.size() > data.end - data.start || out.deferred % 8 != 0 ||
      (out.deferred && out.deferred + kDeferredBytes > out.stride))
    throw std::out_of_range("layout");
  for (const json& cell : in.at("cells")) {
    auto kind = format::cell_kind(cell.at(0).get<std::string>());
    auto offset = cell.at(1).get<uint32_t>();
    if (!kind || offset < kBlockHeader || offset + format::info(*kind).size > out.stride)
      throw std::out_of_range("cell");
    kinds.push_back(*kind);
    out.cells.push_back(offset);
  }
  return out;
}

JournalTable table_of(const json& in, const Journal& journal) {
  JournalTable out{range_of(in.at(0)),       in.at(1).get<uint64_t>(), in.at(2).get<uint32_t>(),
                   in.at(3).get<uint32_t>(), in.at(4).get<uint32_t>(), in.at(5).get<bool>()};
  out.names = in.at(6).get<std::vector<format::KeyName>>();
  const auto is_known = [](format::KeyName name) {
    return static_cast<size_t>(name) < std::size(format::kKeyNames);
  };
  const auto kind = format::cell_kind(in.at(7).get<std::string>());
  if (!kind || !format::key_change(*kind)) throw std::out_of_range("keyed");
  out.kind = *kind;
  if (out.names.size() > format::kMostKeysOfMetric || !std::ranges::all_of(out.names, is_known))
    throw std::out_of_range("keys");
  const uint64_t keys_end = out.keys + uint64_t{format::info(format::CellKind::keys).size};
  if (out.most == 0 || out.most > (out.shape().text_keys ? kMostTexts : kMostKeys) ||
      out.shape().size() > out.at.end - out.at.start || out.request >= journal.requests.size() ||
      !journal.requests[out.request].keyed || out.keys < kBlockHeader || keys_end > journal.layout.stride ||
      out.base < kBlockHeader || out.base + uint64_t{8} > journal.layout.stride)
    throw std::out_of_range("table");
  return out;
}

Journal from_json(const json& in) {
  Journal out;
  out.owner = in.at("owner").get<pid_t>();
  out.owner_start = in.at("owner_start").get<uint64_t>();
  out.target = in.at("target").get<pid_t>();
  out.started_ns = in.at("started_ns").get<int64_t>();
  out.ticks_per_second = in.at("ticks_per_second").get<uint64_t>();
  out.plan = in.at("plan").get<std::string>();
  out.points = in.at("points").get<uint64_t>();
  out.data = range_of(in.at("data"));
  if (in.contains("news")) out.news = range_of(in.at("news"));
  for (const json& range : in.at("code")) out.code.push_back(range_of(range));
  out.layout = layout_of(in, out.kinds, out.data);
  for (const json& r : in.at("requests")) {
    auto event = format::event(r.at("event").get<std::string>());
    auto aggregate = format::aggregate(r.at("aggregate").get<std::string>());
    if (!event || !aggregate) throw std::out_of_range("request");
    JournalRequest request{.metric = r.at("metric").get<std::string>(),
                           .focus = r.at("focus").get<std::string>(),
                           .name = r.at("name").get<std::string>(),
                           .units = r.at("units").get<std::string>(),
                           .aggregate = *aggregate,
                           .value = r.at("value").get<uint32_t>(),
                           .refused = r.at("refused").get<uint64_t>(),
                           .children = r.value("children", 0u),
                           .of = r.value("of", focus::BoundRequest::kNone),
                           .event = *event,
                           .thread = r.at("thread").get<int64_t>(),
                           .keyed = r.value("keyed", false),
                           .early = r.value("early", uint64_t{0}),
                           .sampled = r.value("sampled", false)};
    if (request.value >= out.layout.cells.size()) throw std::out_of_range("request");
    if (request.of != focus::BoundRequest::kNone &&
        (request.of >= out.requests.size() || out.requests[request.of].children == 0))
      throw std::out_of_range("child");
    out.requests.push_back(std::move(request));
  }
  for (const json& table : in.at("tables")) out.tables.push_back(table_of(table, out));
  out.extension = in.value("extension", 0u);
  out.generation = in.value("generation", 0u);
  for (const json& file : in.at("files"))
    out.files.push_back({range_of(file.at(0)), file.at(1).get<uint64_t>(), file.at(2).get<uint64_t>()});
  for (const json& window : in.at("windows")) out.windows.push_back(window_of(window));
  take_raised(in, out);
  return out;
}

// What is behind the head.
std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof(Head), bytes.size() - sizeof(Head)};
}

std::string beyond(std::string_view text, const JournalBudget& budget) {
  constexpr size_t kDepth = 8;
  if (text.size() > budget.bytes)
    return fmt::format("it has {} bytes, and {} is the most", text.size(), budget.bytes);
  return mdl::beyond(text, {kDepth, budget.values});
}

}  // namespace

std::vector<std::byte> write_journal(const Journal& journal) {
  std::string text = write_json(to_json(journal));
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = journal.generation ? kJournalOfGenerations : kJournalVersion;
  head.length = text.size();
  head.checksum = checksum(text);
  std::vector<std::byte> out(sizeof head + text.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::memcpy(out.data() + sizeof head, text.data(), text.size());
  return out;
}

bool may_be_readable(size_t windows) {
  constexpr size_t kValues = 6;  // of each, and of the list of them
  return windows <= JournalBudget().values / kValues;
}

bool is_readable(std::span<const std::byte> journal) {
  return beyond(text_of(journal), JournalBudget()).empty();
}

Result<uint64_t> journal_size(std::span<const std::byte> bytes) {
  Head head{};
  if (bytes.size() < sizeof head) return Error{"the journal is truncated"};
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return Error{"the journal was never completed"};
  if (head.version != kJournalVersion && head.version != kJournalOfGenerations)
    return Error{fmt::format("the journal has version {}, this mdl-inject knows {}: use the one that made it",
                             head.version, kJournalOfGenerations)};
  return head.length > UINT64_MAX - sizeof head ? UINT64_MAX : head.length + sizeof head;
}

Result<Journal> read_journal(std::span<const std::byte> bytes, JournalBudget& budget) {
  const Result<uint64_t> size = journal_size(bytes);
  if (!size) return size.error();
  if (*size > bytes.size()) return Error{"the journal is truncated"};
  Head head{};
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::string_view text = text_of(bytes).substr(0, head.length);
  if (checksum(text) != head.checksum) return Error{"the journal's checksum is wrong"};
  if (const std::string why = beyond(text, budget); !why.empty())
    return Error{fmt::format("the journal is not valid: {}", why)};
  budget.bytes -= *size;
  budget.values -= json_values(text);
  try {
    Journal out = from_json(read_json(text));
    out.head.assign(bytes.begin(), bytes.begin() + kJournalHead);
    return out;
  } catch (const std::exception& problem) {
    return Error{fmt::format("the journal is not valid: {}", problem.what())};
  }
}

Result<Journal> read_journal(std::span<const std::byte> bytes) {
  JournalBudget budget;
  return read_journal(bytes, budget);
}

}  // namespace mdl::resident
