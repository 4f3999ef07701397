#include "mdl-inject/find_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/focus/nearest.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::inject {
namespace {

constexpr size_t kMostListed = 20;
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

Error several(const std::string& name, const std::vector<Candidate>& found) {
  std::string text = fmt::format("{} processes are called {}; name one by its id:", found.size(), name);
  for (size_t i = 0; i < std::min(found.size(), kMostListed); ++i) {
    std::string command = found[i].command.substr(0, kMostCommand);
    text +=
        fmt::format(" {} ({}{}){}", found[i].pid, command,
                    command.size() < found[i].command.size() ? "..." : "", i + 1 < found.size() ? "," : "");
  }
  if (found.size() > kMostListed) text += fmt::format(" and {} more", found.size() - kMostListed);
  return {text, Status::failed};
}

}  // namespace

Result<pid_t> find_process(const std::string& name) {
  std::vector<Candidate> found;
  std::set<std::string> known;
  std::vector<pid_t> all = kernel::processes();
  std::sort(all.begin(), all.end());
  for (const pid_t pid : all) {
    if (pid == getpid()) continue;
    Candidate one = look_at(pid);
    known.insert(one.names.begin(), one.names.end());
    if (is_called(one, name)) found.push_back(std::move(one));
  }
  if (found.size() == 1) return found[0].pid;
  if (!found.empty()) return several(name, found);
  return Error{fmt::format("no process is called {}{}", name,
                           focus::did_you_mean(name, std::vector<std::string>(known.begin(), known.end())))};
}

}  // namespace mdl::inject
