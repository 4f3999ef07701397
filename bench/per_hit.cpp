// The cost of a counter at a function's entry, against a patch written by hand.
//
//   bench_per_hit --inject MDL_INJECT --plan PLAN [--calls N] [--repetitions N] [--check]
//
// In one process and one run, interleaved: a function of eight instructions untouched (a);
// with a hand-written jump, per-thread count and jump back (b); with the counter that
// mdl-inject puts there (c), started as a child that attaches to this process. All three are
// called by the same loop through a pointer. DEP: each call waits for the last one's result;
// IND: calls overlap. With one thread, and with two at once, pinned where there are two CPUs.
//
// At the end the counts must equal the calls made, exactly, or the status is 1. --check also
// makes it 1 when the injected counter costs more than 1.5 times the hand-written one (c - a
// against b - a, less what is noise), or when two threads slow each other by more than a quarter.
#include <fcntl.h>
#include <fmt/format.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/hand_patch.h"

extern "C" {
uint64_t subject_untouched(uint64_t);
uint64_t subject_by_hand(uint64_t);
uint64_t subject_injected(uint64_t);
}

namespace {

using Subject = uint64_t (*)(uint64_t);

struct Variant {
  const char* name;
  Subject subject;
};

constexpr std::array<Variant, 3> kVariants = {{
    {"a untouched", subject_untouched},
    {"b by hand", subject_by_hand},
    {"c mdl-inject", subject_injected},
}};
enum { kUntouched, kByHand, kInjected };

constexpr double kMostCost = 1.5;
constexpr double kMostSlowing = 1.25;

struct Options {
  std::string inject, plan;
  uint64_t calls = 2'000'000;
  unsigned repetitions = 31;
  bool check = false;
};

__attribute__((noinline)) uint64_t run_dependent(Subject subject, uint64_t calls) {
  uint64_t x = 1;
  for (uint64_t i = 0; i < calls; ++i) x = subject(x);
  return x;
}

__attribute__((noinline)) uint64_t run_independent(Subject subject, uint64_t calls) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < calls; ++i) sum += subject(i);
  return sum;
}

using Loop = uint64_t (*)(Subject, uint64_t);

double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

void pin_to(unsigned cpu) {
  if (std::thread::hardware_concurrency() < 2) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // best effort: a measure of quiet, not of truth
}

struct Spread {
  double median = 0;
  double quartiles = 0;  // the distance between the two
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return {values[n / 2], values[n * 3 / 4] - values[n / 4]};
}

// Nanoseconds per call, by variant. `threads` threads call the same variant at once; a
// repetition's figure is their mean.
std::array<Spread, kVariants.size()> measure(Loop loop, unsigned threads, const Options& options) {
  std::array<std::vector<double>, kVariants.size()> figures;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, threads);
  std::vector<double> mine(threads);
  std::atomic<uint64_t> sink{0};
  auto body = [&](unsigned number) {
    pin_to(number);
    bench::claim_hand_slot();
    for (unsigned repetition = 0; repetition <= options.repetitions; ++repetition) {
      for (size_t v = 0; v < kVariants.size(); ++v) {
        pthread_barrier_wait(&barrier);
        double start = now_ns();
        sink += loop(kVariants[v].subject, options.calls);
        mine[number] = (now_ns() - start) / static_cast<double>(options.calls);
        if (pthread_barrier_wait(&barrier) != PTHREAD_BARRIER_SERIAL_THREAD || repetition == 0) continue;
        double sum = 0;
        for (double figure : mine) sum += figure;
        figures[v].push_back(sum / threads);  // repetition 0 warms up
      }
    }
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i) running.emplace_back(body, i);
  for (std::thread& thread : running) thread.join();
  pthread_barrier_destroy(&barrier);
  std::array<Spread, kVariants.size()> result;
  for (size_t v = 0; v < kVariants.size(); ++v) result[v] = spread(figures[v]);
  return result;
}

// mdl-inject as a child, attached to this process until finish().
class Injection {
 public:
  explicit Injection(const Options& options) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::string pid = std::to_string(getpid());
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(options.inject.c_str(), "mdl-inject", pid.c_str(), options.plan.c_str(), "--format", "ndjson",
            "-i", "3600", nullptr);
      perror(options.inject.c_str());
      _exit(127);
    }
    prctl(PR_SET_PTRACER, child_, 0, 0, 0);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
    read_line();  // the first sample says that everything is inserted
  }

  // Ends it; the final value.
  uint64_t finish() {
    kill(child_, SIGINT);
    nlohmann::json line;
    do {
      line = read_line();
    } while (!line.at("final").get<bool>());
    while (fgetc(output_) != EOF) {
    }
    fclose(output_);
    int status = 0;
    waitpid(child_, &status, 0);
    if (status != 0) throw std::runtime_error(fmt::format("mdl-inject ended with wait status {:#x}", status));
    return line.at("value").get<uint64_t>();
  }

 private:
  nlohmann::json read_line() {
    char line[4096];
    if (!fgets(line, sizeof line, output_)) throw std::runtime_error("mdl-inject ended without a sample");
    return nlohmann::json::parse(line);
  }

  pid_t child_ = -1;
  FILE* output_ = nullptr;
};

struct Row {
  const char* loop_name;
  Loop loop;
  unsigned threads;
  std::array<Spread, kVariants.size()> figures;
};

// Differences smaller than this say nothing: the spread of the untouched function in this run, or a
// tenth of its time, which is what the placement of the same code in memory changes.
double noise(const Row& row) {
  const Spread& untouched = row.figures[kUntouched];
  return std::max(untouched.quartiles, untouched.median / 10);
}

double cost(const Row& row, int variant) {
  return row.figures[variant].median - row.figures[kUntouched].median;
}

void print(const std::vector<Row>& rows) {
  fmt::print("{:<5}{:>8}{:>14}{:>12}{:>14}{:>9}{:>9}{:>8}{:>9}\n", "loop", "threads", "a untouched",
             "b by hand", "c mdl-inject", "b - a", "c - a", "c / b", "spread");
  for (const Row& row : rows) {
    const auto& f = row.figures;
    fmt::print("{:<5}{:>8}{:>14.3f}{:>12.3f}{:>14.3f}{:>9.3f}{:>9.3f}{:>8.2f}{:>9.3f}\n", row.loop_name,
               row.threads, f[kUntouched].median, f[kByHand].median, f[kInjected].median, cost(row, kByHand),
               cost(row, kInjected), f[kInjected].median / f[kByHand].median, f[kUntouched].quartiles);
  }
  fmt::print("nanoseconds per call, medians; spread: between the quartiles of a\n");
}

bool within_bounds(const std::vector<Row>& rows) {
  bool good = true;
  for (const Row& row : rows) {
    double most = kMostCost * std::max(0.0, cost(row, kByHand)) + noise(row);
    if (cost(row, kInjected) > most) {
      fmt::print("TOO DEAR: {} with {} threads costs {:.3f} ns, at most {:.3f} ns are allowed\n",
                 row.loop_name, row.threads, cost(row, kInjected), most);
      good = false;
    }
    for (const Row& other : rows) {
      if (other.loop != row.loop || other.threads != 1 || row.threads == 1) continue;
      double slowing = row.figures[kInjected].median / other.figures[kInjected].median;
      double machine = row.figures[kUntouched].median / other.figures[kUntouched].median;
      if (slowing > kMostSlowing * std::max(1.0, machine)) {
        fmt::print("TOO SLOW TOGETHER: {}: {:.2f} times, and {:.2f} times untouched\n", row.loop_name,
                   slowing, machine);
        good = false;
      }
    }
  }
  return good;
}

int run(const Options& options) {
  bench::install_hand_patch();
  double start = now_ns();
  Injection injection(options);
  fmt::print("inserted {:.1f} ms after mdl-inject was started\n", (now_ns() - start) / 1e6);

  std::vector<Row> rows = {{"DEP", run_dependent, 1, {}}, {"IND", run_independent, 1, {}}};
  if (std::thread::hardware_concurrency() >= 2) {
    rows.push_back({"DEP", run_dependent, 2, {}});
    rows.push_back({"IND", run_independent, 2, {}});
  }
  uint64_t calls = 0;
  for (Row& row : rows) {
    row.figures = measure(row.loop, row.threads, options);
    calls += row.threads * options.calls * (options.repetitions + 1);
  }
  uint64_t injected = injection.finish();
  print(rows);
  fmt::print("{} calls; counted by hand {}, by mdl-inject {}\n", calls, bench::hand_count(), injected);
  bool exact = injected == calls && bench::hand_count() == calls;
  if (!exact) fmt::print("WRONG COUNT\n");
  bool good = !options.check || within_bounds(rows);
  return exact && good ? 0 : 1;
}

}  // namespace

namespace {

// Short enough not to need CLI11, which takes ten seconds to compile.
bool parse(int argc, char** argv, Options& options) {
  const option known[] = {
      {"inject", required_argument, nullptr, 'i'}, {"plan", required_argument, nullptr, 'p'},
      {"calls", required_argument, nullptr, 'c'},  {"repetitions", required_argument, nullptr, 'r'},
      {"check", no_argument, nullptr, 'k'},        {}};
  for (int found = 0; (found = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    if (found == 'i')
      options.inject = optarg;
    else if (found == 'p')
      options.plan = optarg;
    else if (found == 'c')
      options.calls = std::strtoull(optarg, nullptr, 10);
    else if (found == 'r')
      options.repetitions = static_cast<decltype(options.repetitions)>(std::strtoul(optarg, nullptr, 10));
    else if (found == 'k')
      options.check = true;
    else
      return false;
  }
  return optind == argc && !options.inject.empty() && !options.plan.empty() && options.calls > 0 &&
         options.repetitions > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(
        stderr,
        "usage: bench_per_hit --inject MDL_INJECT --plan PLAN [--calls N] [--repetitions N] [--check]\n");
    return 2;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_per_hit: {}\n", error.what());
    return 1;
  }
}
