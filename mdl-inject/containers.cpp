#include "mdl-inject/containers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/focus/nearest.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::inject {
namespace {

using nlohmann::json;

constexpr size_t kIdDigits = 64;
constexpr size_t kLeastDigits = 3;   // of the beginning of an id
constexpr size_t kShownDigits = 12;  // as all runtimes show them
constexpr size_t kLargestFile = 16 << 20;

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

// `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, or the id alone; not Podman's `libpod-conmon-ID`, which
// is the process beside it.
std::optional<std::string> id_in(std::string_view part) {
  if (part.size() < kIdDigits || part.find("conmon") != part.npos) return std::nullopt;
  const std::string_view id = part.substr(part.size() - kIdDigits),
                         before = part.substr(0, part.size() - kIdDigits);
  return is_hex(id) && (before.empty() || before.ends_with('-')) ? std::optional<std::string>(id)
                                                                 : std::nullopt;
}

// systemd writes what its names cannot have as `\x2d`.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at++) {
    if (text.substr(at).starts_with("\\x") && at + 3 < text.size() && is_hex(text.substr(at + 2, 2))) {
      out += static_cast<char>(std::stoi(std::string(text.substr(at + 2, 2)), nullptr, 16));
      at += 3;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::optional<std::string> name_in(std::string_view part, std::string_view parent, bool is_scope) {
  constexpr std::string_view kLxc = "lxc.payload.", kMachine = "machine-", kNspawn = "systemd-nspawn@",
                             kService = ".service";
  if (part.starts_with(kLxc)) return std::string(part.substr(kLxc.size()));
  if (parent == "lxc") return std::string(part);
  if (is_scope && parent == "machine.slice" && part.starts_with(kMachine))
    return unescaped(part.substr(kMachine.size()));
  if (part.starts_with(kNspawn) && part.ends_with(kService))
    return unescaped(part.substr(kNspawn.size(), part.size() - kNspawn.size() - kService.size()));
  return std::nullopt;
}

void add_containers_in(std::string_view path, std::vector<std::string>& out) {
  std::string_view parent;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view whole = path.substr(0, slash);
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
    constexpr std::string_view kScope = ".scope";
    const bool is_scope = whole.ends_with(kScope);
    const std::string_view part = is_scope ? whole.substr(0, whole.size() - kScope.size()) : whole;
    auto found = id_in(part);
    if (!found) found = name_in(part, parent, is_scope);
    if (found && !found->empty() && std::ranges::find(out, *found) == out.end()) out.push_back(*found);
    parent = whole;
  }
}

// Null where it is not there, no JSON, or not ours to read.
json parsed(const std::filesystem::path& path) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem) ||
      std::filesystem::file_size(path, problem) > kLargestFile)
    return {};
  std::ifstream file(path);
  return file ? json::parse(file, nullptr, false) : json();
}

std::string text_in(const json& object, std::string_view key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Calls `visit` with each folder's name and path.
template <typename Visit>
void each_folder(const std::filesystem::path& path, Visit visit) {
  std::error_code problem;
  for (std::filesystem::directory_iterator one(path, problem), end; !problem && one != end;
       one.increment(problem))
    visit(one->path().filename().string(), one->path());
}

std::string shown(const std::string& label, const std::multimap<std::string, std::string>& names) {
  std::string out = label.size() == kIdDigits && is_hex(label) ? label.substr(0, kShownDigits) : label;
  const auto [first, last] = names.equal_range(label);
  return first == last ? out : fmt::format("{} ({})", first->second, out);
}

// Calls `visit` with each line.
template <typename Visit>
void each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::vector<std::string> containers_in(std::string_view proc_cgroup) {
  std::vector<std::string> out;
  each_line(proc_cgroup, [&](std::string_view line) {
    // HIERARCHY:CONTROLLERS:PATH
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second != line.npos) add_containers_in(line.substr(second + 1), out);
  });
  return out;
}

std::set<std::string> groups_in(std::string_view proc_cgroup, const std::string& container) {
  std::set<std::string> out;
  each_line(proc_cgroup, [&](std::string_view line) {
    for (size_t end = line.find('/'); end < line.size();) {
      end = std::min(line.find('/', end + 1), line.size());
      if (std::ranges::count(containers_in(line.substr(0, end)), container) == 0) continue;
      out.emplace(line.substr(0, end));
      return;
    }
  });
  return out;
}

bool is_in_groups(std::string_view proc_cgroup, const std::vector<std::string>& groups) {
  bool out = false;
  each_line(proc_cgroup, [&](std::string_view line) {
    out = out || std::ranges::any_of(groups, [&](const std::string& group) {
            return line.starts_with(group) && (line.size() == group.size() || line[group.size()] == '/');
          });
  });
  return out;
}

std::multimap<std::string, std::string> container_names(const std::filesystem::path& root) {
  std::multimap<std::string, std::string> out;
  const auto add = [&out](const std::string& id, std::string name) {
    if (name.starts_with('/')) name.erase(0, 1);
    if (!name.empty()) out.emplace(id, std::move(name));
  };
  each_folder(root / "var/lib/docker/containers",
              [&](const std::string& id, const std::filesystem::path& path) {
                add(id, text_in(parsed(path / "config.v2.json"), "Name"));
              });
  const json podman = parsed(root / "var/lib/containers/storage/overlay-containers/containers.json");
  for (const json& one : podman.is_array() ? podman : json::array())
    if (const auto names = one.is_object() ? one.find("names") : one.end();
        names != one.end() && names->is_array())
      for (const json& name : *names)
        if (name.is_string()) add(text_in(one, "id"), name.get<std::string>());
  each_folder(root / "run/containerd/io.containerd.runtime.v2.task",
              [&](const std::string&, const auto& space) {
                each_folder(space, [&](const std::string& id, const std::filesystem::path& path) {
                  const json config = parsed(path / "config.json");
                  const auto notes = config.is_object() ? config.find("annotations") : config.end();
                  if (notes == config.end()) return;
                  const std::string name = text_in(*notes, "io.kubernetes.cri.container-name"),
                                    pod = text_in(*notes, "io.kubernetes.cri.sandbox-name");
                  add(id, name);
                  if (!name.empty() && !pod.empty()) add(id, pod + "/" + name);
                  add(id, text_in(*notes, "nerdctl/name"));
                });
              });
  return out;
}

Result<std::vector<std::string>> groups_of_container(const std::string& name) {
  std::map<std::string, std::set<std::string>> containers;
  for (const pid_t pid : kernel::processes()) {
    const std::string text = kernel::proc_text(pid, "cgroup");
    for (const std::string& label : containers_in(text)) containers[label].merge(groups_in(text, label));
  }
  const auto names = container_names("/");
  std::set<std::string> meant;
  std::vector<std::string> known;
  for (const auto& [label, groups] : containers) {
    known.push_back(label.size() == kIdDigits ? label.substr(0, kShownDigits) : label);
    if (label == name ||
        (name.size() >= kLeastDigits && label.size() == kIdDigits && label.starts_with(name)))
      meant.insert(label);
    const auto [first, last] = names.equal_range(label);
    for (auto one = first; one != last; ++one) {
      known.push_back(one->second);
      if (one->second == name) meant.insert(label);
    }
  }
  if (meant.empty())
    return Error{fmt::format("no container is called {}, and no running one has such an id{}", name,
                             containers.empty() ? ": no process is in a container that is known here"
                                                : focus::did_you_mean(name, known))};
  if (meant.size() > 1) {
    std::vector<std::string> all;
    for (const std::string& label : meant) all.push_back(shown(label, names));
    return Error{fmt::format("{} containers are called {}, or have ids that begin so: {}", meant.size(), name,
                             fmt::join(all, ", "))};
  }
  const std::set<std::string>& groups = containers.at(*meant.begin());
  return std::vector<std::string>(groups.begin(), groups.end());
}

}  // namespace mdl::inject
