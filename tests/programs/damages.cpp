// Writes over what an injector has put into it, as a program with a wild pointer does; and sums up its own code, as
// one does that wants to know whether anybody has changed it.
//
//   damages [SECONDS]
//
// Commands: `work N` calls t_work and t_summed N times. `data N` and `journal N` overwrite, with random bytes that N is
// the seed of, all mappings named mdl- that can be written, or the one that can only be read (it is made
// writable for it); `undo` puts back what was there before. `words N` overwrites single words of the data, a
// thousand of them. All answer {"event":"done","work":TOTAL,"mappings":HOW MANY,"sum":OF THE BYTES OF t_summed}.
// `quit` ends, without the exit handlers.
//
// Between data or words and undo nothing that is instrumented may run: it would follow wild pointers.
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "protocol.h"

namespace {

unsigned long work;

struct Saved {
  char* at;
  std::vector<char> bytes;
};
std::vector<Saved> saved;

struct Mapping {
  char *start, *end;
  bool writable, executable;
};

std::vector<Mapping> session_mappings() {
  std::vector<Mapping> out;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long start = 0, end = 0;
    char access[8];
    if (!strstr(line, "/memfd:mdl-") || sscanf(line, "%lx-%lx %7s", &start, &end, access) != 3) continue;
    out.push_back(
        {reinterpret_cast<char*>(start), reinterpret_cast<char*>(end), access[1] == 'w', access[2] == 'x'});
  }
  if (maps) fclose(maps);
  return out;
}

// The first megabytes hold what is in use; the rest would only cost memory.
constexpr long kMost = 4 << 20;

// False where it is not mapped any more.
bool copy(char* at, std::vector<char>& bytes, bool there) {
  const iovec own{bytes.data(), bytes.size()}, other{at, bytes.size()};
  const auto call = there ? process_vm_writev : process_vm_readv;
  return call(getpid(), &own, 1, &other, 1, 0) == static_cast<ssize_t>(bytes.size());
}

unsigned damage(bool data, bool words, unsigned long seed) {
  std::mt19937_64 random(seed);
  unsigned count = 0;
  for (const Mapping& mapping : session_mappings()) {
    if (mapping.executable || mapping.writable != data) continue;
    const long size = std::min<long>(mapping.end - mapping.start, kMost);
    std::vector<char> bytes(static_cast<size_t>(size));
    if (!copy(mapping.start, bytes, false)) continue;  // the injector has seen enough, and taken it away
    saved.push_back({mapping.start, bytes});
    if (!data && mprotect(mapping.start, static_cast<size_t>(size), PROT_READ | PROT_WRITE) != 0) abort();
    const long all = size / 8;
    for (long i = 0; i < (words ? 1000 : all); ++i) {
      const uint64_t word = random();
      const long at = words ? static_cast<long>(random() % static_cast<uint64_t>(all)) : i;
      memcpy(bytes.data() + at * 8, &word, sizeof word);
    }
    copy(mapping.start, bytes, true);
    ++count;
  }
  return count;
}

void undo() {
  for (size_t i = saved.size(); i-- > 0;) memcpy(saved[i].at, saved[i].bytes.data(), saved[i].bytes.size());
  saved.clear();
}

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  ++work;
  asm volatile("" : "+r"(x));
  return x * 3;
}

// Alone in a section, whose ends the linker names.
extern "C" __attribute__((noinline, used, section("summed"))) uint64_t t_summed(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 3 + 1;
}
extern "C" const unsigned char __start_summed[], __stop_summed[];

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    unsigned mappings = 0;
    if (command.word == "work")
      for (unsigned long i = 0; i < command.number; ++i) t_work(i), t_summed(i);
    else if (command.word == "data" || command.word == "words")
      mappings = damage(true, command.word == "words", command.number);
    else if (command.word == "journal")
      mappings = damage(false, false, command.number);
    else if (command.word == "undo")
      undo();
    else
      _exit(0);
    protocol::say_event("done", protocol::field("work", work) + "," + protocol::field("mappings", mappings) + "," +
                                    protocol::field("sum", std::accumulate(__start_summed, __stop_summed, 0U)));
  }
}
