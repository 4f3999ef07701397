// A coroutine that is made once for each command, and resumed as often as that says.
//
//   coroutines [SECONDS]
//
//   go N       one session, resumed N times
//   quit       ends with status 0
#include <unistd.h>

#include <coroutine>

#include "protocol.h"

namespace co {

struct Task {
  struct promise_type {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> handle;
};

__attribute__((noinline)) Task t_session() {
  while (true) co_await std::suspend_always{};
}

}  // namespace co

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  protocol::say_event("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "go") return command.word == "quit" ? 0 : 1;
    const co::Task task = co::t_session();
    for (unsigned long i = 0; i < command.number; ++i) task.handle.resume();
    task.handle.destroy();
    protocol::say_event("done");
  }
}
