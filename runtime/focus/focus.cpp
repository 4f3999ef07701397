// The text of requests: METRIC[@FOCUS], and a focus into its resources.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/focus/request.h"

namespace mdl::focus {
namespace {

struct Hierarchy {
  const char* name;
  size_t components;  // at most; what follows belongs to the last one
};
constexpr Hierarchy kHierarchies[] = {{"Code", 2},       {"Machine", 1}, {"Process", 1}, {"Thread", 1},
                                      {"SyncObject", 2}, {"File", 1},    {"Memory", 1},  {"Socket", 1}};

Error wrong(const std::string& text, const std::string& why) {
  return {
      fmt::format("`{}` is not a focus: {}; a focus is written like /Code/OBJECT/FUNCTION or /Code/OBJECT",
                  text, why),
      Status::usage};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Resources end at a comma that another resource follows: a function's parameters have
// commas too.
std::vector<std::string_view> split_resources(std::string_view text) {
  std::vector<std::string_view> resources;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',' || !trim(text.substr(i + 1)).starts_with('/')) continue;
    resources.push_back(trim(text.substr(start, i - start)));
    start = i + 1;
  }
  resources.push_back(trim(text.substr(start)));
  return resources;
}

Result<std::vector<std::string>> parse_resource(const std::string& whole, std::string_view text) {
  if (!text.starts_with('/')) return wrong(whole, "a resource begins with `/`");
  std::string path(text);
  if (path == "/Message" || path.starts_with("/Message/")) path = "/SyncObject" + path;
  const size_t end = std::min(path.find('/', 1), path.size());
  std::vector<std::string> parts = {path.substr(1, end - 1)};
  const auto hierarchy = std::find_if(std::begin(kHierarchies), std::end(kHierarchies),
                                      [&](const Hierarchy& h) { return h.name == parts[0]; });
  if (hierarchy == std::end(kHierarchies))
    return wrong(whole,
                 fmt::format("there is no hierarchy /{} (there are /Code, /Machine, /Process, /Thread, "
                             "/SyncObject, /File, /Socket and /Memory)",
                             parts[0]));
  for (size_t at = end; at < path.size();) {
    const size_t start = at + 1;
    at = parts.size() < hierarchy->components ? std::min(path.find('/', start), path.size()) : path.size();
    if (at == start) return wrong(whole, "a component is empty");
    parts.push_back(path.substr(start, at - start));
  }
  return parts;
}

}  // namespace

Result<Focus> parse_focus(const std::string& text) {
  Focus focus;
  if (trim(text).empty()) return focus;
  if (text.find_first_of(std::string("\n\r\t\0", 4)) != std::string::npos)
    return wrong(text, "it has a control character");
  for (const std::string_view part : split_resources(text)) {
    auto resource = parse_resource(text, part);
    if (!resource) return resource.error();
    // The whole hierarchy restricts nothing, unless a descriptor may be of it or of another.
    if (resource->size() == 1 && (resource->front() == "File" || resource->front() == "Socket"))
      resource->emplace_back("*");
    if (resource->size() == 1) continue;
    for (const auto& other : focus.resources)
      if (other[0] == (*resource)[0])
        return wrong(text, fmt::format("it names two resources of /{}", other[0]));
    if (!focus.text.empty()) focus.text += ',';
    for (const std::string& component : *resource) focus.text += '/' + component;
    focus.resources.push_back(std::move(*resource));
  }
  return focus;
}

std::string request_text(const std::string& metric, const std::string& focus) {
  return focus.empty() ? metric : metric.empty() ? focus : metric + "@" + focus;
}

std::string of_thread(const std::string& focus, uint64_t thread) {
  constexpr std::string_view kEach = "/Thread/*";
  std::string out = focus;
  if (const size_t at = out.find(kEach); at != std::string::npos)
    out.replace(at, kEach.size(), fmt::format("/Thread/{}", thread));
  return out;
}

RequestText split_request(const std::string& text) {
  const size_t at = text.find('@');
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace mdl::focus
