#include "base/phases.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "base/say.h"

namespace mdl::phases {
namespace {

struct Phase {
  std::string_view name;
  double wall_ms = 0;
  double cpu_ms = 0;
};

struct Times {
  double wall_ms = 0;
  double cpu_ms = 0;
};

std::vector<Phase> phases;
size_t current = 0;
Times since;

double read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void end_current() {
  const Times now{read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_PROCESS_CPUTIME_ID)};
  if (current < phases.size()) {
    phases[current].wall_ms += now.wall_ms - since.wall_ms;
    // A forked process begins to count its own at 0.
    phases[current].cpu_ms += now.cpu_ms < since.cpu_ms ? now.cpu_ms : now.cpu_ms - since.cpu_ms;
  }
  since = now;
}

}  // namespace

void begin(std::string_view name) {
  end_current();
  const auto known =
      std::find_if(phases.begin(), phases.end(), [&](const Phase& one) { return one.name == name; });
  current = static_cast<size_t>(known - phases.begin());
  if (known == phases.end()) phases.push_back({name});
}

void print(std::FILE* to) {
  end_current();
  current = phases.size();
  Phase sum{"all"};
  say(to, "timing: {:>10} {:>10}  phase\n", "wall ms", "CPU ms");
  const auto line = [&](const Phase& one) {
    say(to, "timing: {:10.1f} {:10.1f}  {}\n", one.wall_ms, one.cpu_ms, one.name);
  };
  for (const Phase& one : phases) {
    line(one);
    sum.wall_ms += one.wall_ms;
    sum.cpu_ms += one.cpu_ms;
  }
  line(sum);
}

}  // namespace mdl::phases
