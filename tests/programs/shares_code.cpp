// Code that is shared with its file: what is written there is written to the disk, and to every process that has it
// mapped.
//
//   shares_code PLUGIN COPY
//
// Maps COPY, a copy of the library PLUGIN (plugin.cpp), readable, writable and executable. Commands: `work N` calls its
// t_plugin_work N times; `quit` ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol.h"

int main(int argc, char** argv) {
  alarm(60);
  if (argc != 3) return 2;
  // Where the function is in the file: the first segments of a library are where they are in memory.
  void* library = dlopen(argv[1], RTLD_NOW);
  void* function = library ? dlsym(library, "t_plugin_work") : nullptr;
  Dl_info info;
  if (!function || !dladdr(function, &info)) return 2;
  const auto offset = static_cast<char*>(function) - static_cast<char*>(info.dli_fbase);
  dlclose(library);

  const int file = open(argv[2], O_RDWR);
  const off_t size = lseek(file, 0, SEEK_END);
  void* copy =
      mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, file, 0);
  if (copy == MAP_FAILED) return 2;
  const auto work = reinterpret_cast<uint64_t (*)(uint64_t)>(static_cast<char*>(copy) + offset);

  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 0;
    uint64_t sum = 0;
    for (unsigned long i = 0; i < command.number; i++) sum += work(i);
    protocol::say_event("done", protocol::field("sum", sum));
  }
}
