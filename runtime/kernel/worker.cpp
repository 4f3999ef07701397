// The worker's half, and the moment in which there come to be two.
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "base/aside.h"
#include "runtime/kernel/broker.h"
#include "runtime/kernel/calls.h"
#include "runtime/kernel/confine.h"
#include "runtime/kernel/judgement.h"
#include "runtime/kernel/rights.h"

namespace mdl::kernel {
namespace {

constexpr const char* kGone = "the process that has its privileges has ended";

class Worker final : public Asking {
 public:
  explicit Worker(Channel channel) : channel_(std::move(channel)) { channel_.asks(); }
  std::span<std::byte> begin() override {
    turn_.lock();
    return channel_.room();
  }
  Channel::Answer end(const wire::Writer& question) override {
    if (!question.fits()) give_up("a question is too long");
    auto answer = channel_.ask(question.used());
    if (!answer) give_up(kGone);
    return *answer;
  }
  void done() override { turn_.unlock(); }
  // A measurement may have no question for a long time.
  void end_with_broker() {
    run_aside([this] {
      channel_.wait_gone();
      give_up(kGone);
    });
  }

 private:
  std::mutex turn_;
  Channel channel_;
};

Worker* worker_side = nullptr;  // for good: a thread looks at it to the end

}  // namespace

Asking* asking() {
  return worker_side;
}

// The broker ends with us, and what it has stopped goes on.
void give_up(const char* why) {
  std::fputs(
      has_changed_target()
          ? "mdl-inject: it cannot go on, and has left what it did not take out (see mdl-inject --status): "
          : "mdl-inject: it cannot go on, and has changed nothing: ",
      stderr);
  std::fputs(why, stderr);
  std::fputs("\n", stderr);
  std::_Exit(static_cast<int>(has_changed_target() ? Status::left_inert : Status::failed));
}

bool has_privileges() {
  return geteuid() == 0 || own_capabilities() != 0;
}

Result<void> separate(Trust trust) {
  kernel::trust(std::move(trust));
  tzset();  // of the log's lines, while files can be opened
  auto channel = Channel::make();
  const pid_t parent = getpid();
  const pid_t broker = channel ? fork() : -1;
  const auto failed = [](const char* what) {
    return Error{std::string("cannot ") + what + ": " + std::strerror(errno) +
                 ": nothing was read; --no-separate reads it with all privileges (docs/security.md)"};
  };
  if (broker < 0) return failed("separate its privileges");
  if (broker == 0) be_broker(*channel, parent);
  worker_side = new Worker(std::move(*channel));
#ifndef MDL_SANITIZED
  if (!confine_worker()) return failed("confine the process that reads");
#endif
  worker_side->end_with_broker();
  return {};
}

}  // namespace mdl::kernel
