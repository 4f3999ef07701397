// Calls of fibers, which wait in the middle and go on in another order, and in other threads: what the program's own
// clock says of each.
//
//   fibers [SECONDS]
//
//   one N      250 fibers in one new thread; each calls N times f_waits, which yields some times; f_throws, which
//              yields, and now and then throws; f_nests, which calls itself and yields at the bottom
//   many N     the same in four new threads: after each yield a fiber goes on in any of them
// Both answer {"event":"done",...} with totals since the start: for each function FUNCTION_count (its returns),
// FUNCTION_least and FUNCTION_most (bounds of the sum in ns: by clocks inside and outside of it), FUNCTION_longest (of
// the single calls' upper bounds), and with "moved", how many calls returned in another thread than they were entered.
//   quit       ends with status 0
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "protocol.h"
#include "truth.h"

namespace {

constexpr size_t kFibers = 250;
constexpr size_t kStack = 64 << 10;

enum Function { kWaits, kThrows, kNests, kFunctions };
constexpr const char* kNames[] = {"f_waits", "f_throws", "f_nests"};

struct Worker {
  ucontext_t context = {};
};

// Its worker is whoever runs it: a fiber asks nothing of its thread, which may be another one behind each yield.
struct Fiber {
  ucontext_t context = {};
  char* stack = nullptr;
  Worker* volatile worker = nullptr;
  long n = 0;
  bool is_done = false;
  unsigned long moved = 0;
  Truth truth[kFunctions];
};

std::mutex mutex;
std::vector<Fiber*> ready;
size_t running = 0;
Truth all[kFunctions];
unsigned long all_moved = 0;
std::vector<char*> stacks;

__attribute__((noinline)) void give_way(Fiber& self) {
  swapcontext(&self.context, &self.worker->context);
}

}  // namespace

// Each yields for how long it ran, as it knows itself.
extern "C" {
__attribute__((noinline, used)) long f_waits(Fiber* self, long times) {
  const long begin = now();
  const Worker* worker = self->worker;
  for (long i = 0; i < times; i++) give_way(*self);
  self->moved += worker != self->worker;
  return now() - begin;
}

__attribute__((noinline, used)) long f_throws(Fiber* self, long number) {
  const long begin = now();
  give_way(*self);
  if (number % 3 == 0) throw std::runtime_error("as it shall");
  return now() - begin;
}

__attribute__((noinline, used)) long f_nests(Fiber* self, long depth, Truth* truth) {
  const long begin = now();
  if (depth == 0) {
    give_way(*self);
  } else {
    const long outside = now();
    const long inside = f_nests(self, depth - 1, truth);
    truth->add(inside, now() - outside);
  }
  return now() - begin;
}
}

namespace {

template <typename Call>
void measure(Truth& into, Call call) {
  const long begin = now();
  const long inside = call();
  into.add(inside, now() - begin);
}

void work(Fiber& self) {
  for (long i = 0; i < self.n; i++) {
    measure(self.truth[kWaits], [&] { return f_waits(&self, i % 4); });
    try {
      measure(self.truth[kThrows], [&] { return f_throws(&self, i); });
    } catch (const std::runtime_error&) {
    }
    measure(self.truth[kNests], [&] { return f_nests(&self, i % 5, &self.truth[kNests]); });
  }
}

void fiber_main(unsigned low, unsigned high) {
  auto& self = *reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
  work(self);
  self.is_done = true;
  give_way(self);
}

// Takes any fiber that is ready, until all are done.
void run_fibers(unsigned seed) {
  Worker worker;
  std::mt19937 random(seed);
  while (true) {
    std::unique_lock lock(mutex);
    if (ready.empty()) {
      if (running == 0) return;
      lock.unlock();
      sched_yield();
      continue;
    }
    std::swap(ready[random() % ready.size()], ready.back());
    Fiber* fiber = ready.back();
    ready.pop_back();
    running++;
    lock.unlock();
    fiber->worker = &worker;
    swapcontext(&worker.context, &fiber->context);
    lock.lock();
    running--;
    if (!fiber->is_done) ready.push_back(fiber);
  }
}

void tell() {
  std::string text = protocol::field("moved", all_moved);
  for (int f = 0; f < kFunctions; f++) {
    const std::string name = kNames[f];
    text += "," + protocol::field((name + "_count").c_str(), all[f].count) + "," +
            protocol::field((name + "_least").c_str(), static_cast<unsigned long>(all[f].least)) + "," +
            protocol::field((name + "_most").c_str(), static_cast<unsigned long>(all[f].most)) + "," +
            protocol::field((name + "_longest").c_str(), static_cast<unsigned long>(all[f].longest));
  }
  protocol::say_event("done", text);
}

void make_ready(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStack;
  const auto address = reinterpret_cast<uintptr_t>(&fiber);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(fiber_main), 2, static_cast<unsigned>(address),
              static_cast<unsigned>(address >> 32));
  ready.push_back(&fiber);
}

// The stacks are used again each time.
void run(int threads, long n) {
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (char* stack : stacks) {
    fibers.push_back(std::make_unique<Fiber>());
    fibers.back()->stack = stack;
    fibers.back()->n = n;
    make_ready(*fibers.back());
  }
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; i++) workers.emplace_back(run_fibers, static_cast<unsigned>(i) + 1);
  for (std::thread& worker : workers) worker.join();
  for (const auto& fiber : fibers) {
    for (int f = 0; f < kFunctions; f++) all[f].add(fiber->truth[f]);
    all_moved += fiber->moved;
  }
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  for (size_t i = 0; i < kFibers; i++)
    stacks.push_back(static_cast<char*>(
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); command.word == "one" || command.word == "many";
       command = protocol::next_command()) {
    run(command.word == "one" ? 1 : 4, static_cast<long>(command.number));
    tell();
  }
  return 0;
}
