#include "mdl-inject/find_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/say.h"
#include "mdl-inject/containers.h"
#include "runtime/focus/nearest.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

constexpr size_t kMostListed = 20;
constexpr int kGenerations = 64;
constexpr const char* kGroups = "/sys/fs/cgroup";
constexpr size_t kMostCommand = 60;     // bytes of a command line that are shown
constexpr size_t kLongestOwnName = 15;  // of a thread: the kernel keeps no more (TASK_COMM_LEN)

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

struct Candidate {
  pid_t pid = 0;
  std::vector<std::string> names;
  std::string command;  // words with blanks between them
};

// Nothing in it for a thread of the kernel, and for one that has ended.
Candidate look_at(pid_t pid) {
  Candidate out{pid, {}, kernel::proc_text(pid, "cmdline")};
  if (out.command.empty()) return out;
  const std::string first = out.command.substr(0, out.command.find('\0'));
  while (!out.command.empty() && out.command.back() == '\0') out.command.pop_back();
  std::replace(out.command.begin(), out.command.end(), '\0', ' ');
  std::string own = kernel::proc_text(pid, "comm");
  while (!own.empty() && own.back() == '\n') own.pop_back();
  std::string program = kernel::proc_link(pid, "exe");
  constexpr std::string_view kDeleted = " (deleted)";
  if (program.ends_with(kDeleted)) program.resize(program.size() - kDeleted.size());
  for (const std::string_view name : {std::string_view(own), last_part(program), last_part(first)})
    if (!name.empty() && std::ranges::find(out.names, name) == out.names.end()) out.names.emplace_back(name);
  return out;
}

bool is_called(const Candidate& candidate, const std::string& name) {
  return std::ranges::any_of(candidate.names, [&](const std::string& one) {
    return one == name || (one.size() == kLongestOwnName && name.starts_with(one));
  });
}

std::string list_of(const std::vector<Candidate>& found) {
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kMostListed); ++i) {
    std::string command = found[i].command.substr(0, kMostCommand);
    text +=
        fmt::format(" {} ({}{}){}", found[i].pid, command,
                    command.size() < found[i].command.size() ? "..." : "", i + 1 < found.size() ? "," : "");
  }
  if (found.size() > kMostListed) text += fmt::format(" and {} more", found.size() - kMostListed);
  return text;
}

pid_t parent_of(pid_t pid) {
  return process::read_status(pid).parent;
}

bool descends(pid_t pid, pid_t from) {
  for (int i = 0; i < kGenerations && pid > 1; i++)
    if (pid = parent_of(pid); pid == from) return true;
  return false;
}

// From which all others descend.
std::optional<pid_t> root_of(const std::vector<Candidate>& found) {
  for (const Candidate& root : found)
    if (std::ranges::all_of(
            found, [&](const Candidate& one) { return one.pid == root.pid || descends(one.pid, root.pid); }))
      return root.pid;
  return std::nullopt;
}

Error ambiguous(const std::string& name, const std::vector<Candidate>& found) {
  const std::optional<pid_t> root = root_of(found);
  return {fmt::format(
              "{} processes are called {}; name one by its id, or measure each of them in one session with "
              "--every{}:{}",
              found.size(), name,
              root ? fmt::format(", or {} and all that descend from it with --all-children", *root) : "",
              list_of(found)),
          Status::failed};
}

std::vector<pid_t> sorted_processes() {
  std::vector<pid_t> out = kernel::processes();
  std::sort(out.begin(), out.end());
  return out;
}

// Each once, and none that is us, a thread of the kernel, or has ended.
class Chosen {
 public:
  void add(pid_t pid, Target::How how) {
    const bool needed = how == Target::How::named;
    if (!needed && (pid <= 0 || pid == getpid() || process::has_ended(pid))) return;
    if (std::ranges::find(targets, pid, &Target::pid) == targets.end())
      targets.push_back({pid, process::start_time(pid), how});
  }
  // Those that descend from them, by one look at all.
  void add_children() {
    std::map<pid_t, pid_t> parents;
    for (const pid_t pid : kernel::processes()) parents[pid] = parent_of(pid);
    for (size_t before = 0; before != targets.size();) {
      before = targets.size();
      for (const auto& [pid, parent] : parents)
        if (std::ranges::find(targets, parent, &Target::pid) != targets.end()) add(pid, Target::How::child);
    }
  }
  // Until there are no more: a process may have been forked meanwhile.
  void add_all_children() {
    for (size_t before = 0; before != targets.size();) {
      before = targets.size();
      add_children();
    }
  }
  std::vector<Target> targets;
};

bool is_id(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos;
}

// One with a typing error, or else those that the name is a part of: redis is redis-server.
std::string nearest_name(const std::string& name, const std::set<std::string>& known) {
  constexpr size_t kMost = 3;
  const std::string near = focus::did_you_mean(name, std::vector<std::string>(known.begin(), known.end()));
  if (!near.empty()) return near;
  std::vector<std::string> longer;
  for (const std::string& one : known)
    if (one.find(name) != one.npos && one.find(' ') == one.npos && longer.size() < kMost)
      longer.push_back(fmt::format("`{}`", one));
  return longer.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(longer, " or "));
}

Result<void> add_named(const Options& options, const std::string& name, Chosen& chosen) {
  if (name.empty()) return Error{fmt::format("'{}' has an empty name", options.process), Status::usage};
  if (is_id(name)) {
    const long pid = name.size() > 9 ? INT32_MAX : std::strtol(name.c_str(), nullptr, 10);
    chosen.add(static_cast<pid_t>(pid), Target::How::named);
    return {};
  }
  std::vector<Candidate> found;
  std::set<std::string> known;
  for (const pid_t pid : sorted_processes()) {
    if (pid == getpid()) continue;
    Candidate one = look_at(pid);
    known.insert(one.names.begin(), one.names.end());
    if (is_called(one, name)) found.push_back(std::move(one));
  }
  if (found.empty()) {
    const std::string near =
        name.ends_with(".service")
            ? fmt::format(
                  "; a service is asked for by its main process: mdl-inject $(systemctl show --property "
                  "MainPID --value {})",
                  name)
            : nearest_name(name, known);
    if (!options.follow) return Error{fmt::format("no process is called {}{}", name, near)};
    say(stderr, "no process is called {} yet: the first one is waited for{}\n", name, near);
    return {};
  }
  if (options.every || options.follow) {
    for (const Candidate& one : found) chosen.add(one.pid, Target::How::found);
    return {};
  }
  const std::optional<pid_t> root =
      found.size() == 1 || options.all_children ? root_of(found) : std::optional<pid_t>();
  if (!root) return ambiguous(name, found);
  chosen.add(*root, Target::How::named);
  return {};
}

// The folder of a control group: as it is mounted, or as /proc/PID/cgroup names it where there is one hierarchy.
Result<std::string> group_folder(const std::string& path) {
  for (const std::string& folder : {path, std::string(kGroups) + "/" + path}) {
    struct statfs file {};
    if (statfs(folder.c_str(), &file) == 0 &&
        (file.f_type == CGROUP_SUPER_MAGIC || file.f_type == CGROUP2_SUPER_MAGIC))
      return folder;
  }
  return Error{
      fmt::format("{} is no control group: neither that folder nor {}/{} is one (see /proc/PID/cgroup)", path,
                  kGroups, path)};
}

Result<void> add_group(const std::string& path, Chosen& chosen) {
  auto folder = group_folder(path);
  if (!folder) return folder.error();
  const auto add = [&](const std::filesystem::path& group) {
    std::ifstream file(group / "cgroup.procs");
    for (pid_t pid = 0; file >> pid;) chosen.add(pid, Target::How::found);
  };
  add(*folder);
  std::error_code problem;
  for (std::filesystem::recursive_directory_iterator one(*folder, problem), end; !problem && one != end;
       one.increment(problem))
    if (one->is_directory(problem)) add(one->path());
  return {};
}

void add_container(const std::vector<std::string>& groups, Chosen& chosen) {
  for (const pid_t pid : sorted_processes())
    if (is_in_groups(kernel::proc_text(pid, "cgroup"), groups)) chosen.add(pid, Target::How::found);
}

Result<void> choose(Options& options, Chosen& chosen) {
  if (!options.cgroup.empty()) return add_group(options.cgroup, chosen);
  if (!options.container.empty()) {
    auto groups = groups_of_container(options.container);
    if (!groups) return groups.error();
    options.container_groups = std::move(*groups);
    add_container(options.container_groups, chosen);
    return {};
  }
  if (options.process.empty()) chosen.add(options.pid, Target::How::named);
  std::istringstream names(options.process);
  for (std::string name; std::getline(names, name, ',');)
    if (auto ok = add_named(options, name, chosen); !ok) return ok;
  return {};
}

const std::string& wanted(const Options& options) {
  return !options.container.empty() ? options.container
         : options.cgroup.empty()   ? options.process
                                    : options.cgroup;
}

}  // namespace

Result<void> find_processes(Options& options) {
  Chosen chosen;
  if (auto ok = choose(options, chosen); !ok) return ok;
  if (options.all_children) chosen.add_all_children();
  if (chosen.targets.empty() && !options.follow)
    return Error{fmt::format("{} has no process that could be measured", wanted(options))};
  if (chosen.targets.empty() && options.names_group())
    say(stderr, "{} has no process yet: the first one is waited for\n", wanted(options));
  options.targets = std::move(chosen.targets);
  options.pid = options.targets.empty() ? 0 : options.targets.front().pid;
  options.several = options.names_several();
  options.others.clear();
  for (size_t i = 1; i < options.targets.size(); i++) options.others.push_back(options.targets[i].pid);
  return {};
}

void tell_of_children(const Options& options) {
  if (!options.follow_fork || options.all_children || options.pid == 0) return;
  Chosen chosen;
  for (const pid_t pid : options.pids()) chosen.add(pid, Target::How::named);
  const size_t measured = chosen.targets.size();
  chosen.add_children();
  if (const size_t children = chosen.targets.size() - measured; children != 0)
    say(stderr,
        "note: {} there already and not measured; --follow-fork measures later ones, --all-children these, "
        "too\n",
        children == 1 ? "a child is" : fmt::format("{} children are", children));
}

Choice::Choice(const Options& options) : options_(options), own_(kernel::proc_text(getpid(), "auxv")) {
  std::istringstream names(options.process);
  for (std::string name; std::getline(names, name, ',');)
    if (!is_id(name)) names_.push_back(name);
  for (const Target& one : options.targets) known_[one.pid] = {one.start, kernel::proc_text(one.pid, "auxv")};
}

std::vector<Target> Choice::chosen() {
  Chosen out;
  if (!options_.cgroup.empty()) (void)add_group(options_.cgroup, out);
  if (!options_.container.empty()) add_container(options_.container_groups, out);
  if (!names_.empty()) {
    std::map<pid_t, std::string> others;
    for (const pid_t pid : sorted_processes()) {
      std::string own = kernel::proc_text(pid, "comm");
      const auto before = others_.find(pid);
      const bool is_other = before != others_.end() && before->second == own;
      const Candidate one = is_other ? Candidate{} : look_at(pid);
      if (std::ranges::any_of(names_, [&](const std::string& name) { return is_called(one, name); }))
        out.add(pid, Target::How::found);
      else if (is_other || !one.names.empty())  // of one that begins its program, not all is there yet
        others.emplace(pid, std::move(own));
    }
    others_ = std::move(others);
  }
  if (!options_.all_children) return out.targets;
  for (const auto& [pid, known] : known_) out.add(pid, Target::How::child);
  out.add_children();
  return out.targets;
}

std::vector<Target> Choice::look() {
  constexpr size_t kMostAtOnce = 64;
  std::erase_if(known_, [](const auto& one) { return !process::is_running(one.first, one.second.start); });
  std::vector<Target> out;
  for (const Target& one : chosen()) {
    Known now{one.start, kernel::proc_text(one.pid, "auxv")};
    const bool is_meant =
        now.program.empty() ? process::read_status(one.pid).has_memory : now.program != own_;
    if (now.start == 0 || !is_meant) continue;
    const auto [known, is_new] = known_.try_emplace(one.pid, now);
    if (!is_new && known->second == now) continue;
    known->second = std::move(now);
    out.push_back(one);
    if (out.size() == kMostAtOnce) break;
  }
  return out;
}

}  // namespace mdl::inject
