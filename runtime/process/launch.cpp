// The program stands behind its execve (kernel/start.h). From there on it is brought to its entry as any program that
// is executed (arrival.h), and held there until it may run.
#include "runtime/process/launch.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "base/nap.h"
#include "runtime/kernel/start.h"
#include "runtime/process/arrival.h"

namespace mdl::process {
namespace {

constexpr std::chrono::seconds kLoading{60};  // libraries on a slow network, constructors that wait

Error failed(const std::string& program, std::string_view what) {
  return {fmt::format("cannot start {}: {}", program, what)};
}

Result<TargetMemory> run_to_entry(pid_t pid, const std::string& program) {
  const Error ended =
      failed(program, "it ended, or executed another program, before its entry: is a library missing?");
  auto arrival = Arrival::prepare(pid);
  if (!arrival) return failed(program, arrival.error().text);
  arrival->begin();
  for (const auto until = std::chrono::steady_clock::now() + kLoading;; nap(200)) switch (arrival->look()) {
      case Arrival::State::on_its_way:
        if (std::chrono::steady_clock::now() > until)
          return failed(program,
                        fmt::format("it has not come to its entry within {} s: what does it wait for "
                                    "while it is loaded?",
                                    kLoading.count()));
        continue;
      case Arrival::State::gone:
        return ended;
      case Arrival::State::here:
        auto memory = arrival->take();
        return memory ? std::move(memory) : ended;
    }
}

}  // namespace

Result<Launch> Launch::start(const std::vector<std::string>& command, const std::string& folder) {
  const kernel::Started started = kernel::start_program(kernel::command_words(command), folder);
  if (started.problem) return failed(command[0], std::strerror(started.problem));
  if (!started.pid) return failed(command[0], "it ended before its first instruction");
  Launch launch(started.pid);
  auto memory = run_to_entry(started.pid, command[0]);
  if (!memory) return memory.error();
  memory->kill_at_end();
  launch.memory_.emplace(std::move(*memory));
  return launch;
}

Launch::Launch(Launch&& other) noexcept
    : pid_(other.pid_), waits_(std::exchange(other.waits_, false)), memory_(std::move(other.memory_)) {}

Launch::~Launch() {
  if (!waits_) return;
  kernel::end_program();
  memory_.reset();
}

TargetMemory Launch::take_memory() {
  TargetMemory out = std::move(*memory_);
  memory_.reset();
  return out;
}

void Launch::let_go() {
  waits_ = false;
  kernel::let_program_go();
}

}  // namespace mdl::process
