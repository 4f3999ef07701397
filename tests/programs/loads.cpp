// Libraries that come and go: libplugin.so, which stands beside this program.
//
//   loads [SECONDS]
//
// Commands: `open N` loads the library (again) and calls its t_plugin_work N times, `outer N` its
// t_plugin_outer, `close` gives back one of these loads, the last of which unloads it; `churn N` loads, calls once
// and unloads it N times, some milliseconds each; `squat` gives back all of them and puts other memory in the place of
// the library's code, which holds the bytes that were there, patched as they were, and `look` says whether they are
// still so (1 or 0, instead of the total); `away` moves the library's code to another address, and `back` moves it
// back; `quit` ends with status 0. Answers {"event":"done","calls":TOTAL}.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "protocol.h"

extern "C" __attribute__((noinline, used)) uint64_t t_loader_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

namespace {

// The pages of the library's code.
struct Code {
  char* start = nullptr;
  size_t size = 0;
};

int find_code(dl_phdr_info* info, size_t, void* out) {
  if (!strstr(info->dlpi_name, "libplugin.so")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    uintptr_t start = (info->dlpi_addr + segment.p_vaddr) & ~uintptr_t{4095};
    uintptr_t end = (info->dlpi_addr + segment.p_vaddr + segment.p_memsz + 4095) & ~uintptr_t{4095};
    *static_cast<Code*>(out) = {reinterpret_cast<char*>(start), end - start};
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  std::string path(4096, '\0');
  ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return 1;
  path.resize(static_cast<size_t>(length));
  path.replace(path.rfind('/') + 1, std::string::npos, "libplugin.so");

  std::vector<void*> opened;
  Code code;
  void* far = nullptr;
  std::string kept;
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
    } else if (command.word == "churn") {
      for (unsigned long i = 0; i < command.number; ++i, ++calls) {
        void* library = dlopen(path.c_str(), RTLD_NOW);
        if (!library) return 1;
        auto plugin_work = reinterpret_cast<uint64_t (*)(uint64_t)>(dlsym(library, "t_plugin_work"));
        usleep(3000);
        if (plugin_work(t_loader_work(i)) != (i + 1) * 2 || dlclose(library) != 0) return 1;
        usleep(3000);
      }
    } else if (command.word == "outer") {
      auto outer = reinterpret_cast<uint64_t (*)(uint64_t)>(dlsym(opened.back(), "t_plugin_outer"));
      for (unsigned long i = 0; i < command.number; ++i, calls += 2)
        if (outer(i) != 4 * i + 2) return 1;
    } else if (command.word == "squat") {
      if (!dl_iterate_phdr(find_code, &code)) return 1;
      kept.assign(code.start, code.size);
      for (void* library : opened) dlclose(library);
      opened.clear();
      void* place = mmap(code.start, code.size, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (place != code.start) return 1;
      memcpy(place, kept.data(), kept.size());
    } else if (command.word == "away") {
      if (!dl_iterate_phdr(find_code, &code)) return 1;
      far = mmap(nullptr, code.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      far = mremap(code.start, code.size, code.size, MREMAP_MAYMOVE | MREMAP_FIXED, far);
      if (far == MAP_FAILED) return 1;
    } else if (command.word == "back") {
      if (mremap(far, code.size, code.size, MREMAP_MAYMOVE | MREMAP_FIXED, code.start) == MAP_FAILED)
        return 1;
    } else if (command.word == "look") {
      protocol::say_event("done",
                          protocol::field("calls", memcmp(code.start, kept.data(), kept.size()) == 0));
      continue;
    } else if (command.word == "close") {
      if (opened.empty() || dlclose(opened.back()) != 0) return 1;
      opened.pop_back();
    } else {
      return 0;
    }
    protocol::say_event("done", protocol::field("calls", calls));
  }
}
