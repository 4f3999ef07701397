// Libraries that come and go: libplugin.so, which stands beside this program.
//
//   loads [SECONDS]
//
// Commands: `open N` loads the library (again) and calls its t_plugin_work N times, `close` gives
// back one of these loads, the last of which unloads it, `quit` ends with status 0. Answers
// {"event":"done","calls":TOTAL}.
#include <dlfcn.h>
#include <unistd.h>

#include <vector>

#include "protocol.h"

extern "C" __attribute__((noinline, used)) uint64_t t_loader_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  std::string path(4096, '\0');
  ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return 1;
  path.resize(static_cast<size_t>(length));
  path.replace(path.rfind('/') + 1, std::string::npos, "libplugin.so");

  std::vector<void*> opened;
  unsigned long calls = 0;
  protocol::say_event("ready", protocol::field("calls", calls));
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "open") {
      void* library = dlopen(path.c_str(), RTLD_NOW);
      if (!library) return 1;
      opened.push_back(library);
      auto plugin_work = reinterpret_cast<uint64_t (*)(uint64_t)>(dlsym(library, "t_plugin_work"));
      for (unsigned long i = 0; i < command.number; ++i, ++calls) {
        if (plugin_work(t_loader_work(i)) != (i + 1) * 2) return 1;
      }
    } else if (command.word == "close") {
      if (opened.empty() || dlclose(opened.back()) != 0) return 1;
      opened.pop_back();
    } else {
      return 0;
    }
    protocol::say_event("done", protocol::field("calls", calls));
  }
}
