#include "base/aside.h"

#include <csignal>
#include <thread>
#include <utility>

namespace mdl {

void run_aside(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(work)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace mdl
