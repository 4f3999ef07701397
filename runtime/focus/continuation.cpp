#include "runtime/focus/continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace mdl::focus {
namespace {

using RequestNames = std::vector<std::string>;

// A child of a request with `*` may have the focus of another request.
RequestNames names_of(const Binding& binding) {
  RequestNames out;
  for (const BoundRequest& request : binding.requests)
    out.push_back(text_of(request) +
                  (request.of == BoundRequest::kNone ? "" : " of " + text_of(binding.requests[request.of])));
  return out;
}

// By cell: the requests that use it. Code of the plan that belongs to no request is of all.
std::vector<std::set<std::string>> users_of(const Binding& binding, const RequestNames& names) {
  std::vector<std::set<std::string>> out(binding.cells.size());
  const auto use = [&](CellId cell, const std::vector<uint32_t>& requests) {
    for (const uint32_t request : requests) out[cell].insert(names[request]);
    if (requests.empty()) out[cell].insert("");
  };
  for (const BoundPoint& point : binding.points)
    for (const BoundSnippet& snippet : point.snippets) {
      for (const CellId cell : snippet.cells) use(cell, snippet.requests);
      for (const CellId guard : snippet.guards) use(guard, snippet.requests);
    }
  for (const Balance& balance : binding.balances) use(balance.flag, balance.requests);
  for (uint32_t i = 0; i < binding.requests.size(); i++) use(binding.requests[i].value, {i});
  for (const KeyTable& table : binding.key_tables)
    for (const auto& cells : {table.of, {table.change, table.keys, table.base}})
      for (const CellId cell : cells) use(cell, {table.request});
  return out;
}

using Key = std::tuple<std::string, format::CellKind, format::Event, std::set<std::string>>;
using Groups = std::map<Key, std::vector<uint32_t>>;

// The cells that requests use which go on.
Groups groups_of(const Binding& binding, const RequestNames& names, const std::set<std::string>& going_on) {
  Groups out;
  const auto users = users_of(binding, names);
  for (uint32_t i = 0; i < binding.cells.size(); i++) {
    std::set<std::string> own;
    for (const std::string& user : users[i])
      if (going_on.contains(user)) own.insert(own.end(), user);
    const CellSlot& cell = binding.cells[i];
    if (!own.empty()) out[{cell.label, cell.kind, cell.event, std::move(own)}].push_back(i);
  }
  return out;
}

Error not_the_same(const Key& key) {
  return {fmt::format("the cell '{}' of {} would not go on with its value", std::get<0>(key),
                      std::get<3>(key).begin()->empty() ? "the plan" : *std::get<3>(key).begin())};
}

}  // namespace

std::string text_of(const BoundRequest& request) {
  return request_text(request.metric, request.focus);
}

Result<Kept> kept_in(const Binding& before, const Binding& after) {
  const RequestNames old_names = names_of(before), new_names = names_of(after);
  Kept out;
  out.requests.resize(new_names.size());
  out.cells.resize(after.cells.size());
  std::set<std::string> going_on = {""};
  std::map<std::string, uint32_t> before_by_name;
  for (size_t i = 0; i < old_names.size(); i++)
    before_by_name.emplace(old_names[i], static_cast<uint32_t>(i));
  for (size_t i = 0; i < new_names.size(); i++) {
    const auto known = before_by_name.find(new_names[i]);
    if (known == before_by_name.end()) continue;
    out.requests[i] = known->second;
    going_on.insert(new_names[i]);
  }
  Groups old_cells = groups_of(before, old_names, going_on);
  for (const auto& [key, cells] : groups_of(after, new_names, going_on)) {
    const auto known = old_cells.extract(key);
    if (!known || known.mapped().size() != cells.size()) return not_the_same(key);
    for (size_t i = 0; i < cells.size(); i++) out.cells[cells[i]] = known.mapped()[i];
  }
  if (!old_cells.empty()) return not_the_same(old_cells.begin()->first);
  return out;
}

}  // namespace mdl::focus
