#include "runtime/patch/reach.h"

#include <set>

namespace mdl::patch {

void Reach::Code::add(const plan::Plan& plan, const focus::BoundSnippet& snippet) {
  const auto& uses = plan.stencils[snippet.stencil].info.cells;
  for (size_t i = 0; i < uses.size(); i++) {
    written[snippet.cells[i]] = written[snippet.cells[i]] || uses[i].writes;
    if (uses[i].reads && !uses[i].writes)
      for (uint32_t request : snippet.requests) read[request].push_back(snippet.cells[i]);
  }
  for (const focus::TrackedCells& track : snippet.tracks) written[track.span] = true;
  for (uint32_t request : snippet.requests)
    guards[request].insert(guards[request].end(), snippet.guards.begin(), snippet.guards.end());
}

std::vector<bool> Reach::cells_written(const plan::Plan& plan, const focus::Binding& binding) {
  Code code(binding);
  for (const focus::BoundPoint& point : binding.points)
    for (const focus::BoundSnippet& snippet : point.snippets) code.add(plan, snippet);
  return code.written;
}

void Reach::add(const plan::Plan& plan, const Coverage& coverage) {
  for (size_t i = 0; i < coverage.refused_of.size(); i++)  // none, where there was nothing to plan
    refused_[i] = refused_[i] || coverage.refused_of[i] != 0;
  for (const auto& [request, functions] : coverage.of_parts) parts_[request] = true;
  for (const FunctionPlan& f : coverage.functions) {
    std::set<uint32_t> taken;
    for (const Window& window : f.sites.windows)
      for (const Site& site : window.sites) taken.insert(site.point);
    for (uint32_t point = 0; point < f.points.size(); point++) {
      for (const focus::BoundSnippet& snippet : f.points[point].snippets) {
        there_.add(plan, snippet);
        if (taken.contains(point)) inserted_.add(plan, snippet);
      }
    }
  }
}

std::vector<bool> Reach::Code::hollow(const focus::Binding& binding, const std::vector<bool>& wanted) const {
  std::vector<bool> out;
  for (size_t i = 0; i < binding.requests.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    bool hollow = !request.idle && !written[request.value];
    for (focus::CellId guard : guards[i]) hollow = hollow || (!request.idle && !written[guard]);
    for (focus::CellId cell : read[i]) hollow = hollow || (wanted[cell] && !written[cell]);
    if (request.of != focus::BoundRequest::kNone) hollow = hollow || out[request.of];
    out.push_back(hollow);
  }
  return out;
}

std::vector<bool> Reach::without_functions(const focus::Binding& binding) const {
  std::vector<bool> out = there_.hollow(binding, wanted_);
  for (size_t i = 0; i < out.size(); i++) out[i] = out[i] && why(i) == Why::without;
  return out;
}

void note_losses(const Reach& reach, const focus::Binding& binding, resident::Journal& journal) {
  const std::vector<bool> hollow = reach.hollow(binding);
  for (size_t i = 0; i < journal.requests.size(); i++) {
    journal.requests[i].hollow = hollow[i];
    journal.requests[i].lost = reach.loses(i);
  }
}

void note_losses(const plan::Plan& plan, const focus::Binding& binding, const Coverage& coverage,
                 resident::Journal& journal) {
  for (size_t i = 0; i < journal.requests.size(); i++) journal.requests[i].refused = coverage.refused_of[i];
  Reach reach(plan, binding);
  reach.add(plan, coverage);
  note_losses(reach, binding, journal);
}

}  // namespace mdl::patch
