#include "mdl-inject/other_tools.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::inject {
namespace {

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

}  // namespace

std::string instead_of_tool(std::string_view word) {
  constexpr std::string_view kSuffix = "-bpfcc";  // as Debian calls them
  if (word.ends_with(kSuffix)) word.remove_suffix(kSuffix.size());
  if (std::ranges::find(kOfTheKernel, word) != std::end(kOfTheKernel))
    return fmt::format("{} is about the kernel, and mdl-inject measures functions of processes", word);
  const auto* const tool = std::ranges::find(kTools, word, &Tool::name);
  if (tool == std::end(kTools)) return "";
  return fmt::format("what {} is asked is `mdl-inject {}` here; docs/one-liners.md has more", word,
                     tool->words);
}

}  // namespace mdl::inject
