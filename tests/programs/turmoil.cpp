// A process that attacks what is put into it, at random: its owner wants mdl-inject to crash, to hang, or to write elsewhere.
//
//   turmoil SEED [PLUGIN]
//
// Threads call t_work all the time; another one does something of these every other moment, as SEED says: writes over the
// mappings of mdl-inject (cells, key tables, journal, code), makes them writable, moves them, takes them away or empties them;
// starts and ends threads, forks, loads and unloads PLUGIN, changes its user, its name and whether it may be dumped, sends its
// threads signals, exchanges the page that holds its own code, and executes itself with another seed. A thread that crashes by
// that sleeps from then on, and the others go on. {"event":"ready"} comes first; it ends within 20 seconds.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "protocol.h"

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 3;
}

namespace {

constexpr uintptr_t kPage = 4096;

struct Range {
  uintptr_t start, end;
};

std::mt19937 chance;
std::atomic<unsigned> generation = 0;  // of threads: those of others end
const char* plugin_path = nullptr;
void* plugin = nullptr;

unsigned below(unsigned limit) {
  return static_cast<unsigned>(chance() % limit);
}

std::vector<Range> mappings_with(const char* name) {
  std::vector<Range> out;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Range one{};
    if (line.find(name) != line.npos && sscanf(line.c_str(), "%lx-%lx", &one.start, &one.end) == 2)
      out.push_back(one);
  }
  return out;
}

void work(unsigned mine) {
  for (uint64_t i = 0; generation == mine; ++i) {
    t_work(i);
    if (i % 64 == 0) usleep(50);
  }
}

void start_threads() {
  for (unsigned count = 1 + below(6); count > 0; --count) std::thread(work, generation.load()).detach();
}

void scribble(const Range& at) {
  if (mprotect(reinterpret_cast<void*>(at.start), at.end - at.start,
               PROT_READ | PROT_WRITE | (below(2) ? PROT_EXEC : 0)) != 0)
    return;
  auto* words = reinterpret_cast<uint64_t*>(at.start);
  const uint64_t count = (at.end - at.start) / sizeof(uint64_t);
  constexpr uint64_t kValues[] = {0, ~uint64_t{0}, 1, uint64_t{1} << 63, 0x7fffffff, 0x4141414141414141};
  for (unsigned n = 1 + below(2000); n > 0; --n) {
    // Half of them lie in the first page, where heads and lengths are.
    const uint64_t place = below(2) ? below(512) % count : chance() % count;
    words[place] = below(3) ? kValues[below(std::size(kValues))] : words[place] + below(5) - 2;
  }
}

void attack(const Range& at) {
  auto* start = reinterpret_cast<void*>(at.start);
  const size_t size = at.end - at.start;
  switch (below(10)) {
    case 0:
      munmap(start, size);
      break;
    case 1:
      madvise(start, size, MADV_DONTNEED);
      break;
    case 2:
      mprotect(start, size, PROT_NONE);
      break;
    case 3:
      mremap(start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
             reinterpret_cast<void*>(0x20000000000 + at.start % (1ul << 30)));
      break;
    case 4:
      mmap(start, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      break;
    default:
      scribble(at);
  }
}

// A copy without the changes of anybody, or of other bytes.
void exchange_own_page() {
  const uintptr_t page = reinterpret_cast<uintptr_t>(&t_work) & ~(kPage - 1);
  void* copy = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return;
  memcpy(copy, reinterpret_cast<void*>(page), kPage);
  if (below(3) == 0)
    static_cast<unsigned char*>(copy)[reinterpret_cast<uintptr_t>(&t_work) % kPage + below(5)] ^= 1;
  mprotect(copy, kPage, PROT_READ | PROT_EXEC);
  mremap(copy, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(page));
}

void change_name() {
  char name[16] = {};
  for (size_t i = 0; i + 1 < sizeof name; ++i) name[i] = static_cast<char>(1 + below(255));
  prctl(PR_SET_NAME, name);
}

void use_plugin() {
  if (plugin)
    dlclose(plugin), plugin = nullptr;
  else if (plugin_path)
    plugin = dlopen(plugin_path, RTLD_NOW);
}

void take_other_user() {
  [[maybe_unused]] const int done = setresuid(geteuid(), getuid(), static_cast<uid_t>(-1));
}

void signal_threads() {
  for (unsigned n = below(200); n > 0; --n) {
    kill(getpid(), SIGUSR1);
    if (n % 16 == 0) usleep(20);
  }
}

void fork_some() {
  const pid_t child = fork();
  if (child != 0) return;
  alarm(5);
  for (int i = 0; i < 2000; ++i) {
    t_work(1);
    usleep(100);
  }
  _exit(0);
}

void execute_itself(char** argv) {
  std::string seed = std::to_string(chance());
  char* words[] = {argv[0], seed.data(), argv[2], nullptr};
  execv("/proc/self/exe", words);
}

void act(char** argv) {
  const std::vector<Range> ours = mappings_with("memfd:mdl-");
  const unsigned what = below(100);
  if (!ours.empty() && what < 55) return attack(ours[below(static_cast<unsigned>(ours.size()))]);
  if (what < 62) return ++generation, start_threads();
  if (what < 68) return start_threads();
  if (what < 74) return use_plugin();
  if (what < 79) return change_name();
  if (what < 84) return signal_threads();
  if (what < 88) return fork_some();
  if (what < 91) return static_cast<void>(prctl(PR_SET_DUMPABLE, below(2)));
  if (what < 94) return exchange_own_page();
  if (what < 96) return take_other_user();
  if (what < 97) return execute_itself(argv);
  usleep(below(20000));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 98;
  chance.seed(static_cast<unsigned>(strtoul(argv[1], nullptr, 10)));
  plugin_path = argc > 2 ? argv[2] : nullptr;
  alarm(20);
  signal(SIGUSR1, [](int) { t_work(2); });
  signal(SIGCHLD, SIG_IGN);
  for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT})
    signal(fault, [](int) {
      for (;;) pause();
    });
  start_threads();
  protocol::say_event("ready");
  // What comes first decides about the attach, and what comes later about the measurement.
  const unsigned patience = below(3) ? 0 : 100;
  for (unsigned waited = 0; waited < patience && mappings_with("memfd:mdl-").empty(); ++waited) usleep(5000);
  const unsigned pace = 1 + below(20000);
  for (;;) {
    usleep(below(pace));
    act(argv);
  }
}
