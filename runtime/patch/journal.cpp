#include "runtime/patch/journal.h"

#include <fmt/format.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/SHA256.h>

#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/patch/key_table.h"

namespace mdl::patch {
namespace {

using nlohmann::json;

constexpr char kMagic[8] = {'M', 'D', 'L', 'J', 'R', 'N', 'L', '\n'};
constexpr uint64_t kMaxText = 256u << 20;
constexpr uint64_t kMaxWindow = 16;

struct Head {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t length;                   // of the JSON text behind this head
  std::array<uint8_t, 32> checksum;  // of that text
};

std::array<uint8_t, 32> checksum(std::string_view text) {
  return llvm::SHA256::hash({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
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

json to_json(const Journal& j) {
  json out = {{"owner", j.owner},
              {"owner_start", j.owner_start},
              {"target", j.target},
              {"started_ns", j.started_ns},
              {"plan", j.plan},
              {"points", j.points},
              {"slots", j.layout.slots},
              {"stride", j.layout.stride},
              {"groups", {j.layout.timers, j.layout.calls, j.layout.sums, j.layout.cells_end}},
              {"ended", j.layout.ended},
              {"ticks_per_second", j.ticks_per_second},
              {"data", range_json(j.data)}};
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
    if (r.of != focus::BoundRequest::kNone) request["of"] = r.of;
    out["requests"].push_back(std::move(request));
  }
  out["tables"] = json::array();
  for (const JournalTable& t : j.tables)
    out["tables"].push_back(json::array({range_json(t.at), t.most, t.request, t.keys, t.base}));
  out["windows"] = json::array();
  for (const PatchedWindow& w : j.windows)
    out["windows"].push_back(json::array({w.address, hex(w.original), hex(w.patched)}));
  return out;
}

PatchedWindow window_of(const json& value) {
  PatchedWindow out{value.at(0).get<uint64_t>(), unhex(value.at(1).get<std::string>()),
                    unhex(value.at(2).get<std::string>())};
  if (out.original.empty() || out.original.size() > kMaxWindow || out.original.size() != out.patched.size() ||
      out.address >> 47 != 0)
    throw std::out_of_range("window");
  return out;
}

Layout layout_of(const json& in, std::vector<format::CellKind>& kinds, const image::Range& data) {
  Layout out;
  out.slots = in.at("slots").get<uint32_t>();
  out.stride = in.at("stride").get<uint64_t>();
  out.ended = in.at("ended").get<uint32_t>();
  const json& groups = in.at("groups");
  out.timers = groups.at(0).get<uint64_t>(), out.calls = groups.at(1).get<uint64_t>();
  out.sums = groups.at(2).get<uint64_t>(), out.cells_end = groups.at(3).get<uint64_t>();
  if (out.ended > (1u << 20) || out.timers > out.calls || out.calls > out.sums || out.sums > out.cells_end ||
      out.cells_end > out.stride)
    throw std::out_of_range("layout");
  if (!std::has_single_bit(out.slots) || out.slots > (1u << 20) || out.stride < kBlockHeader ||
      out.stride > (1u << 30) || out.size() > data.end - data.start)
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
  JournalTable out{range_of(in.at(0)), in.at(1).get<uint64_t>(), in.at(2).get<uint32_t>(),
                   in.at(3).get<uint32_t>(), in.at(4).get<uint32_t>()};
  const uint64_t keys_end = out.keys + uint64_t{format::info(format::CellKind::keys).size};
  if (out.most == 0 || out.most > kMostKeys || KeyTableShape{out.most}.size() > out.at.end - out.at.start ||
      out.request >= journal.requests.size() || !journal.requests[out.request].keyed ||
      out.keys < kBlockHeader || keys_end > journal.layout.stride || out.base < kBlockHeader ||
      out.base + uint64_t{8} > journal.layout.stride)
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
  for (const json& range : in.at("code")) out.code.push_back(range_of(range));
  out.layout = layout_of(in, out.kinds, out.data);
  for (const json& r : in.at("requests")) {
    JournalRequest request{r.at("metric").get<std::string>(),
                           r.at("focus").get<std::string>(),
                           r.at("name").get<std::string>(),
                           r.at("units").get<std::string>(),
                           format::Aggregate::sum,
                           r.at("value").get<uint32_t>(),
                           r.at("refused").get<uint64_t>(),
                           r.value("children", 0u),
                           r.value("of", focus::BoundRequest::kNone)};
    request.keyed = r.value("keyed", false);
    if (request.of != focus::BoundRequest::kNone &&
        (request.of >= out.requests.size() || out.requests[request.of].children == 0))
      throw std::out_of_range("child");
    auto event = format::event(r.at("event").get<std::string>());
    if (!event) throw std::out_of_range("event");
    request.event = *event;
    request.thread = r.at("thread").get<int64_t>();
    auto aggregate = format::aggregate(r.at("aggregate").get<std::string>());
    if (!aggregate || request.value >= out.layout.cells.size()) throw std::out_of_range("request");
    request.aggregate = *aggregate;
    out.requests.push_back(std::move(request));
  }
  for (const json& table : in.at("tables")) out.tables.push_back(table_of(table, out));
  for (const json& window : in.at("windows")) out.windows.push_back(window_of(window));
  return out;
}

}  // namespace

std::vector<std::byte> write_journal(const Journal& journal) {
  std::string text = to_json(journal).dump();
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kJournalVersion;
  head.length = text.size();
  head.checksum = checksum(text);
  std::vector<std::byte> out(sizeof head + text.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::memcpy(out.data() + sizeof head, text.data(), text.size());
  return out;
}

Result<Journal> read_journal(std::span<const std::byte> bytes) {
  Head head{};
  if (bytes.size() < sizeof head) return Error{"the journal is truncated"};
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return Error{"the journal was never completed"};
  if (head.version != kJournalVersion)
    return Error{fmt::format("the journal has version {}, this mdl-inject knows {}: use the one that made it",
                             head.version, kJournalVersion)};
  if (head.length > bytes.size() - sizeof head) return Error{"the journal is truncated"};
  std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof head, head.length);
  if (checksum(text) != head.checksum) return Error{"the journal's checksum is wrong"};
  try {
    return from_json(json::parse(text));
  } catch (const std::exception& problem) {
    return Error{fmt::format("the journal is not valid: {}", problem.what())};
  }
}

bool is_session_mapping(const image::Mapping& mapping) {
  return mapping.path.starts_with(std::string("/memfd:") + kSessionName);
}

Session find_session(const std::vector<image::Mapping>& mappings, const image::Memory& memory) {
  Session out;
  for (const image::Mapping& mapping : mappings) {
    if (!is_session_mapping(mapping)) continue;
    out.mappings.push_back({mapping.start, mapping.end});
    uint64_t size = std::min(mapping.end - mapping.start, kMaxText);
    if (mapping.offset != 0 || out.journal) continue;
    std::vector<std::byte> bytes(size);
    if (!memory.read(mapping.start, bytes)) continue;
    if (auto journal = read_journal(bytes)) out.journal = std::move(*journal);
  }
  return out;
}

}  // namespace mdl::patch
