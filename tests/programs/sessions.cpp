// A server that limits the addresses of the processes that serve its clients, as vsftpd does.
//
//   sessions SECONDS
//
//   session N  a child whose limit is 200 MB of addresses, of which the server's 30 MB are a part, allocates N MB.
//              Answers {"served":1}, or 0 where there is no memory for it
//   allocate N allocates N blocks of different sizes here
//   quit       ends with status 0
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "protocol.h"

namespace {

constexpr size_t kImage = 30 << 20, kLimit = 200 << 20;

extern "C" __attribute__((noipa, used)) bool t_serve(size_t bytes) {
  void* block = malloc(bytes);
  free(block);
  return block != nullptr;
}

unsigned served(size_t megabytes) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{kLimit, kLimit};
    _exit(setrlimit(RLIMIT_AS, &limit) == 0 && t_serve(megabytes << 20) ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  if (mmap(nullptr, kImage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
      MAP_FAILED)
    return 1;
  protocol::say_event("ready", protocol::field("pid", static_cast<unsigned long long>(getpid())));
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "session") {
      protocol::say_event("session", protocol::field("served", served(command.number)));
    } else if (command.word == "allocate") {
      for (size_t i = 0; i < command.number; i++) t_serve(i + 1);
      protocol::say_event("done");
    } else {
      return 0;
    }
  }
}
