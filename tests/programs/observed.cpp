// Values of many sizes are passed to t_size(long), and for all of them the truth.
//
//   observed [SECONDS]
//
//   go N       four new threads, N times each; a signal that is sent to them now and then calls it, too.
//              Answers {"event":"done",...} with totals since the start: count, sum, the values that p50,
//              p90, p99, p999 and p1000 are (the least that this part of all are not above; negative ones as
//              0), min and max (as they are), above (the least above 5000),
//              and "powers": how many values are below 1, 2, 4, 8, ... and not below the one before
//   quit       ends with status 0
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol.h"

extern "C" __attribute__((noinline, used)) void t_size(long size) {
  asm volatile("" : : "r"(size) : "memory");
}

namespace {

std::mutex mutex;
std::vector<long> all;
thread_local long from_handlers[1 << 16];
thread_local volatile unsigned handled = 0;

void handle(int) {
  if (handled == std::size(from_handlers)) return;
  const long size = 1000 + handled;
  t_size(size);
  from_handlers[handled] = size;
  handled = handled + 1;
}

void work(unsigned long n, uint64_t random) {
  std::vector<long> sizes;
  sizes.reserve(n);
  for (unsigned long i = 0; i < n; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    const auto bits = static_cast<int>(random >> 58) % 52;
    long size = static_cast<long>((random >> 8) & ((uint64_t{1} << bits) - 1));
    if ((random & 0xf00) == 0) size = -size;
    t_size(size);
    sizes.push_back(size);
    if (i % 16 == 0) raise(SIGUSR1);
  }
  std::lock_guard lock(mutex);
  all.insert(all.end(), sizes.begin(), sizes.end());
  all.insert(all.end(), from_handlers, from_handlers + handled);
}

void tell() {
  std::vector<long> sorted = all;
  unsigned long sum = 0;
  const auto [least, largest] = std::minmax_element(sorted.begin(), sorted.end());
  const std::string extremes = ",\"min\":" + std::to_string(*least) + ",\"max\":" + std::to_string(*largest);
  long above = 0;
  for (const long size : sorted)
    if (size > 5000 && (above == 0 || size < above)) above = size;
  for (long& size : sorted) {
    sum += static_cast<unsigned long>(size);
    size = std::max(size, 0l);
  }
  std::sort(sorted.begin(), sorted.end());
  std::string text = protocol::field("count", sorted.size()) +
                     ",\"sum\":" + std::to_string(static_cast<long>(sum)) + extremes +
                     ",\"above\":" + std::to_string(above);
  for (int part : {500, 900, 990, 999, 1000}) {
    const auto rank = static_cast<size_t>(std::ceil(part / 1000.0 * static_cast<double>(sorted.size())));
    text += "," + protocol::field(("p" + std::to_string(part)).c_str(),
                                  static_cast<unsigned long>(sorted[rank - 1]));
  }
  std::vector<unsigned long> powers(64);
  for (long size : sorted) powers[static_cast<size_t>(std::bit_width(static_cast<unsigned long>(size)))]++;
  text += ",\"powers\":[";
  for (size_t i = 0; i < powers.size(); i++) text += (i ? "," : "") + std::to_string(powers[i]);
  protocol::say_event("done", text + "]");
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  std::signal(SIGUSR1, handle);
  protocol::say_event("ready");
  uint64_t seed = 1;
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(work, command.number, seed++);
    for (std::thread& thread : threads) thread.join();
    tell();
  }
  return 0;
}
