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
  uint64_t length;  // of the body behind this head
  Digest checksum;  // of the body
};

static_assert(sizeof(Head) == kJournalHead && offsetof(Head, taken) == kJournalTaken);

// The body: how many windows there are (u64), a record of each, and JSON text for all else. Windows are nearly all of
// a large journal, which is read while the process stands still.
struct WindowRecord {
  uint64_t address;
  uint64_t points;
  uint8_t size;  // of both codes
  uint8_t part;
  uint8_t original[kMaxWindow];
  uint8_t patched[kMaxWindow];
  uint8_t reserved[6];
};

static_assert(sizeof(WindowRecord) == kJournalWindow);

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

// A list, since there may be thousands.
json request_json(const JournalRequest& r) {
  return json::array({r.metric, r.focus, r.name, r.units, format::name(r.aggregate), r.value,
                      format::info(r.event).name, r.thread, r.refused, r.children, r.of, r.keyed, r.early,
                      r.sampled, r.hollow, r.lost});
}

JournalRequest request_of(const json& in) {
  const auto aggregate = format::aggregate(in.at(4).get<std::string>());
  const auto event = format::event(in.at(6).get<std::string>());
  if (!event || !aggregate) throw std::out_of_range("request");
  return {.metric = in.at(0).get<std::string>(),
          .focus = in.at(1).get<std::string>(),
          .name = in.at(2).get<std::string>(),
          .units = in.at(3).get<std::string>(),
          .aggregate = *aggregate,
          .value = in.at(5).get<uint32_t>(),
          .refused = in.at(8).get<uint64_t>(),
          .children = in.at(9).get<uint32_t>(),
          .of = in.at(10).get<uint32_t>(),
          .event = *event,
          .thread = in.at(7).get<int64_t>(),
          .keyed = in.at(11).get<bool>(),
          .early = in.at(12).get<uint64_t>(),
          .sampled = in.at(13).get<bool>(),
          .hollow = in.size() > 14 && in.at(14).get<bool>(),  // journals of before have none of both
          .lost = in.size() > 15 && in.at(15).get<bool>()};
}

json to_json(const Journal& j) {
  json out = {
      {"owner", j.owner},
      {"owner_start", j.owner_start},
      {"owner_space", j.owner_space},
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
  for (const JournalRequest& r : j.requests) out["requests"].push_back(request_json(r));
  out["tables"] = json::array();
  for (const JournalTable& t : j.tables)
    out["tables"].push_back(json::array({range_json(t.at), t.most, t.request, t.keys, t.base, t.by_thread,
                                         t.names, format::info(t.kind).name}));
  if (j.extension) out["extension"] = j.extension;
  if (j.generation) out["generation"] = j.generation;
  out["files"] = json::array();
  for (const PatchedFile& file : j.files)
    out["files"].push_back(json::array({range_json(file.at), file.device, file.inode, file.offset}));
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

WindowRecord record_of(const PatchedWindow& window) {
  WindowRecord out{};
  out.address = window.address;
  out.points = window.points;
  out.size = static_cast<uint8_t>(window.original.size());
  out.part = static_cast<uint8_t>(window.part);
  // What does not fit is not read back either.
  if (window.original.size() != window.patched.size() || window.original.size() > kMaxWindow) out.size = 0;
  std::copy_n(window.original.begin(), out.size, out.original);
  std::copy_n(window.patched.begin(), out.size, out.patched);
  return out;
}

PatchedWindow window_of(const WindowRecord& record) {
  if (record.size == 0 || record.size > kMaxWindow || record.address >> 47 != 0)
    throw std::out_of_range("window");
  if (record.part > static_cast<uint8_t>(PatchedWindow::Part::window)) throw std::out_of_range("part");
  PatchedWindow out{.address = record.address,
                    .original = {record.original, record.original + record.size},
                    .patched = {record.patched, record.patched + record.size},
                    .points = record.points,
                    .part = static_cast<PatchedWindow::Part>(record.part)};
  if (out.part != PatchedWindow::Part::window && relays_of(out).empty()) throw std::out_of_range("part");
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
  if (in.contains("owner_space")) out.owner_space = in.at("owner_space").get<uint64_t>();
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
    JournalRequest request = request_of(r);
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
    out.files.push_back({range_of(file.at(0)), file.at(1).get<uint64_t>(), file.at(2).get<uint64_t>(),
                         file.at(3).get<uint64_t>()});
  take_raised(in, out);
  return out;
}

// What is behind the head, of a journal that is not longer than that.
struct Body {
  std::span<const std::byte> windows;  // their records
  std::string_view text;
};

std::optional<Body> body_of(std::span<const std::byte> journal) {
  const std::span<const std::byte> all = journal.subspan(sizeof(Head));
  uint64_t windows = 0;
  if (all.size() < sizeof windows) return std::nullopt;
  std::memcpy(&windows, all.data(), sizeof windows);
  const std::span<const std::byte> rest = all.subspan(sizeof windows);
  if (windows > rest.size() / sizeof(WindowRecord)) return std::nullopt;
  const std::span<const std::byte> text = rest.subspan(windows * sizeof(WindowRecord));
  return Body{rest.first(windows * sizeof(WindowRecord)),
              {reinterpret_cast<const char*>(text.data()), text.size()}};
}

std::vector<PatchedWindow> windows_of(std::span<const std::byte> records) {
  std::vector<PatchedWindow> out;
  out.reserve(records.size() / sizeof(WindowRecord));
  for (; !records.empty(); records = records.subspan(sizeof(WindowRecord))) {
    WindowRecord record;
    std::memcpy(&record, records.data(), sizeof record);
    out.push_back(window_of(record));
  }
  return out;
}

std::string beyond(const Body& body, uint64_t bytes, const JournalBudget& budget) {
  constexpr size_t kDepth = 8;
  if (bytes > budget.bytes) return fmt::format("it has {} bytes, and {} is the most", bytes, budget.bytes);
  return mdl::beyond(body.text, {kDepth, budget.values});
}

}  // namespace

std::vector<std::byte> write_journal(const Journal& journal) {
  const std::string text = write_json(to_json(journal));
  const uint64_t windows = journal.windows.size();
  std::vector<std::byte> out(sizeof(Head) + sizeof windows + windows * sizeof(WindowRecord) + text.size());
  std::byte* at = out.data() + sizeof(Head);
  const auto put = [&at](const void* from, size_t size) {
    at = std::copy_n(static_cast<const std::byte*>(from), size, at);
  };
  put(&windows, sizeof windows);
  for (const PatchedWindow& window : journal.windows) {
    const WindowRecord record = record_of(window);
    put(&record, sizeof record);
  }
  put(text.data(), text.size());
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = journal.generation ? kJournalOfGenerations : kJournalVersion;
  head.length = out.size() - sizeof head;
  head.checksum = sha256(std::span(out).subspan(sizeof head));
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

bool is_readable(std::span<const std::byte> journal) {
  const auto body = body_of(journal);
  return body && beyond(*body, journal.size(), JournalBudget()).empty();
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
  bytes = bytes.first(*size);
  if (sha256(bytes.subspan(sizeof head)) != head.checksum) return Error{"the journal's checksum is wrong"};
  const auto body = body_of(bytes);
  if (!body) return Error{"the journal is not valid: it has fewer windows than it says"};
  if (const std::string why = beyond(*body, *size, budget); !why.empty())
    return Error{fmt::format("the journal is not valid: {}", why)};
  budget.bytes -= *size;
  budget.values -= json_values(body->text);
  try {
    Journal out = from_json(read_json(body->text));
    out.windows = windows_of(body->windows);
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
