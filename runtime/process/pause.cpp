#include "runtime/process/pause.h"

#include "base/watchdog.h"
#include "runtime/kernel/handle.h"

namespace mdl::process {

void Pause::begin() {
  if (lasts_) return;
  lasts_ = true;
  target_stands(true);
  hurried_ = kernel::hurry(true);
  sigset_t held;
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &mask_);
}

void Pause::end() {
  if (!lasts_) return;
  lasts_ = false;
  target_stands(false);
  if (hurried_) kernel::hurry(false);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

}  // namespace mdl::process
