// Loops around two copies of one function, of which mdl-inject measures one: what a hit of any kind takes.
//
//   bench_loops
//
// Commands are lines on standard input, answers JSON lines on standard output, as in tests/programs/protocol.h:
//
//   SHAPE THREADS MS REPETITIONS KEYS SPREAD
//
// In each repetition a loop calls the copy that nobody measures, and then the one that is measured, on so many threads at
// once. A loop takes MS milliseconds where nothing else runs. The first argument goes through KEYS values, which are dense,
// or with SPREAD 1 far apart; the second is a text. SHAPE is `leaf`, eight instructions (subject.S); `within`, the same,
// called below loops_within(); or `site`, which calls a function.
//
// The answer has nanoseconds of CPU time a call, medians over the repetitions: `bare`, `measured`, their difference `more`,
// its `spread` between the quartiles, and how many `calls` of the measured copy there were in all.
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
uint64_t subject_untouched(uint64_t, const char*);
uint64_t subject_injected(uint64_t, const char*);
uint64_t site_untouched(uint64_t, const char*);
uint64_t site_injected(uint64_t, const char*);
}

#define SITE(name)                                            \
  asm("  .text\n  .p2align 8\n"                               \
      "  .globl " name "\n  .type " name ", @function\n" name \
      ":\n"                                                   \
      "  push %rbx\n"                                         \
      "  lea 1(%rdi,%rdi,2), %rbx\n"                          \
      "  mov %rbx, %rdi\n"                                    \
      "  call site_callee\n"                                  \
      "  xor %rbx, %rax\n"                                    \
      "  pop %rbx\n"                                          \
      "  ret\n"                                               \
      "  .size " name ", . - " name "\n");
SITE("site_untouched")
SITE("site_injected")
asm(R"(
    .text
    .type site_callee, @function
    .p2align 6
site_callee:
    lea 3(%rdi), %rax
    ret
    .size site_callee, . - site_callee
)");

namespace {

using Subject = uint64_t (*)(uint64_t, const char*);

struct Request {
  char shape[16] = "";
  unsigned threads = 1, ms = 1, repetitions = 1;
  uint64_t keys = 1;
  unsigned spread = 0;
};

// Where a thread is among the keys.
struct Keys {
  uint64_t count, factor, next = 0;
};

constexpr uint64_t kFarApart = 0x9e3779b97f4a7c15;
constexpr char kText[] = "/var/lib/some/file.txt";

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

__attribute__((noinline)) uint64_t run(Subject subject, Keys& keys, uint64_t calls) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < calls; ++i) {
    if (++keys.next >= keys.count) keys.next = 0;
    sum += subject(keys.next * keys.factor, kText);
  }
  return sum;
}

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t loops_within(Subject subject, Keys& keys,
                                                                 uint64_t calls) {
  const uint64_t sum = run(subject, keys, calls);
  asm volatile("" ::: "memory");  // no tail call
  return sum;
}

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double between_quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 3 / 4] - values[values.size() / 4];
}

void pin_to(unsigned cpu) {
  const unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % cpus, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // best effort
}

std::string measure(const Request& request) {
  const bool site = !std::strcmp(request.shape, "site");
  const Subject untouched = site ? site_untouched : subject_untouched;
  const Subject injected = site ? site_injected : subject_injected;
  const auto loop = std::strcmp(request.shape, "within") ? run : loops_within;

  std::vector<double> bare, measured, more;
  std::vector<double> now(2 * request.threads);
  std::atomic<uint64_t> calls{0}, sink{0};
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, request.threads);
  uint64_t times = 0;
  const auto body = [&](unsigned number) {
    pin_to(number);
    Keys keys{request.keys, request.spread ? kFarApart : 1};
    // All keys are seen before anything is timed.
    const uint64_t first = std::max<uint64_t>(request.keys, 2000);
    sink += loop(injected, keys, first);
    const double began = cpu_ns();
    sink += loop(injected, keys, 2000);
    if (number == 0)
      times =
          static_cast<uint64_t>(std::max(500.0, request.ms * 1e6 / std::max(0.5, (cpu_ns() - began) / 2000)));
    calls += first + 2000;
    pthread_barrier_wait(&barrier);
    const auto timed = [&](Subject subject) {
      pthread_barrier_wait(&barrier);
      const double start = cpu_ns();
      sink += loop(subject, keys, times);
      return (cpu_ns() - start) / static_cast<double>(times);
    };
    for (unsigned i = 0; i < request.repetitions; ++i) {
      now[2 * number] = timed(untouched);
      now[2 * number + 1] = timed(injected);
      calls += times;
      if (pthread_barrier_wait(&barrier) != PTHREAD_BARRIER_SERIAL_THREAD) continue;
      double sums[2] = {0, 0};
      for (unsigned t = 0; t < request.threads; ++t) sums[0] += now[2 * t], sums[1] += now[2 * t + 1];
      bare.push_back(sums[0] / request.threads);
      measured.push_back(sums[1] / request.threads);
      more.push_back((sums[1] - sums[0]) / request.threads);
    }
    pthread_barrier_wait(&barrier);
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < request.threads; ++i) running.emplace_back(body, i);
  for (std::thread& thread : running) thread.join();
  pthread_barrier_destroy(&barrier);

  char out[400];
  std::snprintf(out, sizeof out,
                R"({"event":"done","bare":%.3f,"measured":%.3f,"more":%.3f,"spread":%.3f,"calls":%llu})",
                median(bare), median(measured), median(more), between_quartiles(more),
                static_cast<unsigned long long>(calls));
  return out;
}

}  // namespace

int main() {
  std::puts(R"({"event":"ready"})");
  std::fflush(stdout);
  char line[256];
  while (std::fgets(line, sizeof line, stdin)) {
    Request request;
    unsigned long long keys = 1;
    if (std::sscanf(line, "%15s %u %u %u %llu %u", request.shape, &request.threads, &request.ms,
                    &request.repetitions, &keys, &request.spread) != 6 ||
        !request.threads || !request.repetitions || !keys)
      break;
    request.keys = keys;
    std::puts(measure(request).c_str());
    std::fflush(stdout);
  }
}
