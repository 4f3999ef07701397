// For programs that know what was seen of each key: totals by key, kept by each thread and then added up, the keys that
// it draws, and signals at any instruction.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

using Totals = std::map<long, long>;

// What a thread has of its own becomes a part of all.
inline void move_to(Totals& all, Totals& own) {
  for (const auto& [key, total] : own) all[key] += total;
  own.clear();
}

// {"KEY":TOTAL,...}
inline std::string object(const Totals& totals) {
  std::string out;
  for (const auto& [key, count] : totals)
    out += (out.empty() ? "\"" : ",\"") + std::to_string(key) + "\":" + std::to_string(count);
  return "{" + out + "}";
}

// The constants of Knuth's MMIX.
struct Random {
  uint64_t state = 1;
  uint64_t next(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  }
};

// Two threads do `work(ends)` until that is true, while so many SIGUSR1 come to each.
template <typename Work>
inline void under_signals(unsigned long signals, Work work) {
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { work(ends); });
  for (unsigned long i = 0; i < signals; ++i)
    for (std::thread& thread : threads) {
      pthread_kill(thread.native_handle(), SIGUSR1);
      if (i % 16 == 0) usleep(50);
    }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
