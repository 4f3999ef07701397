// The threads of `sleepers`, each asleep in one system call.
#pragma once

#include <atomic>
#include <list>
#include <string>

struct Sleeper {
  const char* name;
  std::atomic<bool> returned{false};
  std::atomic<long> result{0};  // of the call, or -errno
  std::atomic<unsigned> interrupted{0};
};

extern std::list<Sleeper> sleepers;

void open_everything();  // what they wait for
void start_sleepers(const std::string& only);  // "read,futex", or "" for all
void wake_all();
// Those that nothing but time or a signal wakes stay asleep.
bool can_be_woken(const std::string& name);
void close_everything();
