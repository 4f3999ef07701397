#include "runtime/focus/inlined_calls.h"

#include <algorithm>
#include <map>

#include "runtime/focus/few_lines.h"
#include "runtime/image/debug_sections.h"

namespace mdl::focus {

InlinedSearch::InlinedSearch(const Binding& binding, const image::Image& image) {
  constexpr uint64_t kMost = 128 << 20;  // which takes a second
  constexpr unsigned kSeconds = 2;       // more is for damaged ones
  std::map<const image::Object*, std::vector<const image::Function*>> by_object;
  for (const BoundPoint* point : points_of_few_lines(binding))
    by_object[point->object].push_back(point->function);
  for (const auto& [object, functions] : by_object) {
    auto sections = image::read_debug_sections(image, *object, kMost);
    if (!sections) continue;
    auto info = image::FileDebugInfo::open(std::move(*sections), kSeconds);
    if (!info) continue;
    std::vector<image::FunctionSymbol> symbols;
    std::vector<std::string> names;
    for (const image::Function* function : functions) {
      symbols.emplace_back(function->address - object->bias, function->name);
      names.push_back(image::demangle(function->name).plain);
    }
    if (info->ask_holders(symbols)) asked_.push_back({std::move(*info), std::move(names)});
  }
}

bool InlinedSearch::is_over() const {
  return std::ranges::all_of(asked_, [](const Asked& one) { return one.info.has_asked_holders(); });
}

std::vector<InlinedCalls> InlinedSearch::take() {
  std::vector<InlinedCalls> out;
  for (Asked& one : asked_) {
    const std::vector<std::vector<std::string>> holders = one.info.asked_holders();
    for (size_t i = 0; i < std::min(holders.size(), one.names.size()); ++i) {
      if (holders[i].empty()) continue;
      InlinedCalls calls{one.names[i], {}};
      for (const std::string& holder : holders[i]) calls.holders.push_back(image::demangle(holder).plain);
      out.push_back(std::move(calls));
    }
  }
  asked_.clear();
  return out;
}

}  // namespace mdl::focus
