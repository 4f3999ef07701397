#include "base/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace mdl {

void in_parallel(size_t count, size_t batch, const std::function<void(size_t)>& work) {
  constexpr size_t kMostThreads = 8;
  size_t workers = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  workers = std::clamp<size_t>(count / std::max<size_t>(batch, 1), 1, workers);
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> failed(workers);
  const auto run = [&](size_t worker) {
    try {
      for (size_t i; (i = next++) < count;) work(i);
    } catch (...) {
      failed[worker] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(workers);
    for (size_t i = 1; i < workers; ++i) threads.emplace_back(run, i);
  } catch (const std::system_error&) {  // there are too many already
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& one : failed)
    if (one) std::rethrow_exception(one);
}

}  // namespace mdl
