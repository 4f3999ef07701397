#include "mdl-inject/other_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "mdl-inject/wrong_words.h"

namespace mdl::inject {
namespace {

constexpr std::string_view kPlaceholder = "PID";

// As typed behind `mdl-inject`, for what most processes have; docs/one-liners.md has the same, and a test compares.
struct Tool {
  std::string_view name, words;
};
constexpr Tool kTools[] = {
    {"argdist", "PID 'hist $arg[0] at malloc'"},
    {"bpftrace", "PID 'count malloc by $arg[0]'"},
    {"execsnoop", "PID --follow-fork 'count execve by str($arg[0])'"},
    {"fileslower", "PID 'hist elapsed at read, write if elapsed > 10000000 by file($arg[0])'"},
    {"filetop", "PID 'bytes by file'"},
    {"funccount", "PID 'count mem*'"},
    {"funclatency", "PID 'latency malloc'"},
    {"funcslower", "PID 'hist elapsed at malloc if elapsed > 1000000'"},
    {"gethostlatency", "PID 'latency getaddrinfo by str($arg[0])'"},
    {"killsnoop", "PID 'count kill by int($arg[0]), int($arg[1])'"},
    {"lockstat", "--list PID /SyncObject"},
    {"ltrace", "PID 'calls /Code/libc.so.6/*'"},
    {"memleak", "PID 'sum $arg[0] at malloc by caller'"},
    {"offcputime", "PID 'latency poll, epoll_wait, nanosleep, pthread_cond_wait by function'"},
    {"opensnoop", "PID 'count open by str($arg[0])' 'count openat by str($arg[1])'"},
    {"perf", "top PID"},
    {"profile", "top PID"},
    {"stackcount", "PID 'count malloc by caller'"},
    {"statsnoop", "PID 'count stat by str($arg[0])'"},
    {"strace", "PID 'latency open, read, write, poll, epoll_wait by function'"},
    {"syscount", "PID 'latency open, read, write, poll, epoll_wait by function'"},
    {"tcpaccept", "PID 'count accept, accept4 if int($return) >= 0 by socket($return)'"},
    {"tcpconnect", "PID 'latency connect by socket($arg[0])'"},
    {"tcptop", "PID 'bytes by socket'"},
    {"threadsnoop", "PID 'count pthread_create by symbol($arg[2])'"},
    {"trace", "PID 'count open by str($arg[0]), caller'"},
    {"uftrace", "top PID"},
};
constexpr std::string_view kOfTheKernel[] = {"biolatency", "biosnoop",  "cachestat",  "runqlat",    "runqlen",
                                             "softirqs",   "hardirqs",  "tcpdrop",    "tcpretrans", "vfsstat",
                                             "dcstat",     "xfsslower", "ext4slower", "btrfsslower"};

// What stands in front of the process where such a tool is asked: perf record -p PID.
struct Subcommand {
  std::string_view word, tool;
};
constexpr Subcommand kSubcommands[] = {
    {"annotate", "perf"}, {"live", "uftrace"}, {"probe", "bpftrace"}, {"record", "perf"},
    {"report", "perf"},   {"script", "perf"},  {"stat", "perf"},
};

// Whose probes a word is about, as bpftrace calls them: PROVIDER:...
struct Provider {
  std::string_view name, why;
};
constexpr std::string_view kKernels =
    "the kernel is not measured, but functions of processes that call it: 'count read', 'latency read'";
constexpr std::string_view kCompiledIn =
    "probes that are compiled in (USDT) are not read; `mdl-inject --list PID` has the functions around them";
constexpr std::string_view kSampled = "samples say what to measure, and no more: `mdl-inject top PID`";
constexpr Provider kProviders[] = {
    {"kprobe", kKernels},
    {"kretprobe", kKernels},
    {"kfunc", kKernels},
    {"kretfunc", kKernels},
    {"fentry", kKernels},
    {"fexit", kKernels},
    {"k", kKernels},
    {"kr", kKernels},
    {"tracepoint", kKernels},
    {"t", kKernels},
    {"rawtracepoint", kKernels},
    {"rt", kKernels},
    {"usdt", kCompiledIn},
    {"U", kCompiledIn},
    {"profile", kSampled},
    {"hardware", kSampled},
    {"software", kSampled},
};
// A system call's tracepoint, behind which its name stands.
constexpr std::string_view kSystemCalls[] = {"syscalls:sys_enter_", "syscalls:sys_exit_"};

// The process of another tool's options: -p 12, -p12, -fp 12, --pid 12, --pid=12. A number without one may be anything.
std::string process_of(std::span<const char* const> words) {
  constexpr std::string_view kLong = "--pid";
  for (size_t i = 0; i < words.size(); i++) {
    const std::string_view word = words[i];
    const bool is_long = word.starts_with(kLong), is_short = !is_long && word.starts_with('-');
    const size_t end = is_long ? kLong.size() : is_short ? word.find('p') + 1 : 0;
    if (end == 0) continue;
    std::string_view value = word.substr(end);
    if (value.starts_with('=')) value.remove_prefix(1);
    if (value.empty() && i + 1 < words.size()) value = words[i + 1];
    if (is_number(value)) return std::string(value);
  }
  return std::string(kPlaceholder);
}

std::string as_queries(std::string_view function) {
  return fmt::format("what other tools write as a probe is a query here: 'count {0}', 'latency {0}'",
                     function);
}

}  // namespace

bool is_identifier(std::string_view word) {
  return !word.empty() &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == ':'; });
}

std::string instead_of_command(std::span<const char* const> words) {
  if (words.empty()) return "";
  const std::string process = process_of(words.subspan(1));
  if (std::string instead = instead_of_tool(words[0], process); !instead.empty()) return instead;
  const auto* const found = std::ranges::find(kSubcommands, std::string_view(words[0]), &Subcommand::word);
  return found == std::end(kSubcommands) ? "" : instead_of_tool(found->tool, process);
}

std::string instead_of_probe(std::string_view word) {
  word = word.substr(0, word.find_first_of(" {/", word.find(':') == word.npos ? 0 : word.rfind(':')));
  const size_t first = word.find(':'), last = word.rfind(':');
  if (first == word.npos || word.substr(first).starts_with("::")) return "";
  for (const std::string_view begin : kSystemCalls)
    if (const size_t at = word.find(begin); at != word.npos && is_identifier(word.substr(at + begin.size())))
      return as_queries(word.substr(at + begin.size()));
  const auto* const provider = std::ranges::find(kProviders, word.substr(0, first), &Provider::name);
  if (provider != std::end(kProviders)) return std::string(provider->why);
  const std::string_view function = word.substr(last + 1);
  return is_identifier(function) ? as_queries(function) : "";
}

std::string instead_of_tool(std::string_view word, std::string_view process) {
  constexpr std::string_view kSuffix = "-bpfcc";  // as Debian calls them
  if (word.ends_with(kSuffix)) word.remove_suffix(kSuffix.size());
  if (std::ranges::find(kOfTheKernel, word) != std::end(kOfTheKernel))
    return fmt::format("{} is about the kernel, and mdl-inject measures functions of processes", word);
  const auto* const tool = std::ranges::find(kTools, word, &Tool::name);
  if (tool == std::end(kTools)) return "";
  std::string words(tool->words);
  if (const size_t at = words.find(kPlaceholder); at != words.npos)
    words.replace(at, kPlaceholder.size(), process);
  return fmt::format("what {} is asked is `mdl-inject {}` here; docs/one-liners.md has more", word, words);
}

}  // namespace mdl::inject
