#include "runtime/focus/graft.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace mdl::focus {
namespace {

template <typename Key>
std::map<Key, std::vector<uint32_t>> group(size_t count, auto key_of) {
  std::map<Key, std::vector<uint32_t>> out;
  for (uint32_t i = 0; i < count; ++i) out[key_of(i)].push_back(i);
  return out;
}

// For each element of `fresh` the one of `first` that means the same.
template <typename Key>
std::vector<std::optional<uint32_t>> match(size_t first, size_t fresh, auto first_key, auto fresh_key) {
  std::vector<std::optional<uint32_t>> out(fresh);
  const auto known = group<Key>(first, first_key);
  for (const auto& [key, indices] : group<Key>(fresh, fresh_key)) {
    const auto same = known.find(key);
    if (same == known.end() || same->second.size() != indices.size()) continue;
    for (size_t i = 0; i < indices.size(); ++i) out[indices[i]] = same->second[i];
  }
  return out;
}

class Grafter {
 public:
  Grafter(const Binding& first, const Binding& fresh) : first_(first), fresh_(fresh) {
    using CellKey = std::pair<std::string, format::CellKind>;
    const auto cell_key = [](const Binding& b) {
      return [&b](uint32_t i) { return CellKey{b.cells[i].label, b.cells[i].kind}; };
    };
    cells_ = match<CellKey>(first.cells.size(), fresh.cells.size(), cell_key(first), cell_key(fresh));
    using RequestKey = std::pair<std::string, std::string>;
    const auto request_key = [](const Binding& b) {
      return [&b](uint32_t i) { return RequestKey{b.requests[i].metric, b.requests[i].focus}; };
    };
    requests_ = match<RequestKey>(first.requests.size(), fresh.requests.size(), request_key(first),
                                  request_key(fresh));
  }

  Graft run(const std::set<const image::Object*>& objects) {
    Graft out;
    out.binding.cells = first_.cells;
    out.binding.requests = first_.requests;
    out.binding.balances = first_.balances;
    out.binding.tracks = first_.tracks;
    out.binding.key_tables = first_.key_tables;
    out.binding.symbols = fresh_.symbols;
    std::set<const image::Function*> functions;
    for (const BoundPoint& point : fresh_.points) {
      if (!objects.contains(point.object)) continue;
      functions.insert(point.function);
      BoundPoint moved{point.object, point.function, point.kind, point.place, {}};
      for (const BoundSnippet& snippet : point.snippets) {
        if (auto same = move(snippet))
          moved.snippets.push_back(std::move(*same));
        else
          out.left_out++;
      }
      if (!moved.snippets.empty()) out.binding.points.push_back(std::move(moved));
    }
    for (const Balance& balance : fresh_.balances)
      if (functions.contains(balance.function) && cells_[balance.flag])
        out.binding.balances.push_back(
            {balance.function, *cells_[balance.flag], balance.of_calls, move(balance.requests)});
    return out;
  }

 private:
  std::vector<uint32_t> move(const std::vector<uint32_t>& requests) const {
    std::vector<uint32_t> out;
    for (const uint32_t request : requests)
      if (requests_[request]) out.push_back(*requests_[request]);
    return out;
  }

  // Nothing when it needs a cell that is not there.
  std::optional<BoundSnippet> move(const BoundSnippet& snippet) const {
    BoundSnippet out = snippet;
    for (std::vector<CellId>* cells : {&out.cells, &out.guards})
      for (CellId& cell : *cells) {
        if (!cells_[cell]) return std::nullopt;
        cell = *cells_[cell];
      }
    out.requests = move(snippet.requests);
    out.tracks.clear();
    for (const TrackedCells& track : snippet.tracks)
      if (cells_[track.flag] && cells_[track.span] && cells_[track.base])
        out.tracks.push_back({*cells_[track.flag], *cells_[track.span], *cells_[track.base]});
    if (snippet.keys == BoundSnippet::kNoTable) return out;
    const std::optional<uint32_t> request = requests_[fresh_.key_tables[snippet.keys].request];
    const auto table = std::find_if(first_.key_tables.begin(), first_.key_tables.end(),
                                    [&](const KeyTable& one) { return request && one.request == *request; });
    if (table == first_.key_tables.end()) return std::nullopt;
    out.keys = static_cast<uint32_t>(table - first_.key_tables.begin());
    return out;
  }

  const Binding& first_;
  const Binding& fresh_;
  std::vector<std::optional<uint32_t>> cells_, requests_;  // by the fresh one's index
};

}  // namespace

Graft graft(const Binding& first, const Binding& fresh, const std::set<const image::Object*>& objects) {
  return Grafter(first, fresh).run(objects);
}

}  // namespace mdl::focus
