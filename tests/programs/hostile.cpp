// A process whose owner attacks the injector that looks at it: everything that the injector reads of it may be forged.
//
//   hostile [SECONDS] [WHAT ARGUMENT]...
//
// Does these in their order, then answers commands:
//   memfd NAME       the next file is mapped from a memfd of this name, privately and for reading, as a journal is
//   writable NAME    the same, but so that it can be written
//   file PATH        maps the bytes of the file as `memfd` or `writable` said last
//   later PATH       the same when it is told to, below everything else
//   code PATH        maps the file itself as code, as the dynamic linker does with a library
//   same PATH,N      N mappings of two pages of the file, which the kernel cannot join
//   ranges N         N mappings more, which the kernel cannot join
//   name TEXT        the name of the thread, in which %b stands for a backslash and %n for a new line
//
// `work N` calls t_work N times; `map` does what was to be done later. They answer {"event":"done","work":TOTAL}. `quit` ends.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <string_view>

#include "protocol.h"

namespace {

unsigned long work;
const char* name = "mdl-session";
bool is_writable;

void check(bool done, const char* what) {
  if (done) return;
  perror(what);
  _exit(98);
}

void map_copy(const char* path, void* place = nullptr) {
  const int from = open(path, O_RDONLY), to = memfd_create(name, 0);
  check(from >= 0 && to >= 0, path);
  char buffer[65536];
  ssize_t got = 0;
  size_t size = 0;
  for (; (got = read(from, buffer, sizeof buffer)) > 0; size += static_cast<size_t>(got))
    check(write(to, buffer, static_cast<size_t>(got)) == got, "write");
  const int access = PROT_READ | (is_writable ? PROT_WRITE : 0);
  check(mmap(place, size, access, MAP_PRIVATE, to, 0) != MAP_FAILED, "mmap");
  close(from), close(to);
}

void map_code(const char* path) {
  const int file = open(path, O_RDONLY);
  struct stat status {};
  check(file >= 0 && fstat(file, &status) == 0, path);
  const bool is_usual = S_ISREG(status.st_mode) && status.st_size < (1 << 20);
  const size_t size = is_usual ? static_cast<size_t>(status.st_size) : 1 << 20;
  check(mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED, "mmap");
  close(file);
}

void map_same(const char* text) {
  constexpr size_t kPage = 4096;
  const std::string_view all = text;
  const size_t comma = all.rfind(',');
  const int file = open(std::string(all.substr(0, comma)).c_str(), O_RDONLY);
  check(file >= 0, "open");
  for (int i = 0, count = atoi(text + comma + 1); i < count; i++)
    check(mmap(nullptr, kPage, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE, file,
               static_cast<off_t>(i % 2 * kPage)) != MAP_FAILED,
          "mmap");
  close(file);
}

void map_ranges(unsigned long count) {
  constexpr size_t kPage = 4096;
  auto* at = static_cast<char*>(mmap(nullptr, count * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  check(at != MAP_FAILED, "mmap");
  for (unsigned long i = 0; i < count; i += 2)
    check(mprotect(at + i * kPage, kPage, PROT_NONE) == 0, "mprotect");
}

void set_name(const char* text) {
  std::string out;
  for (; *text; ++text) {
    if (*text == '%' && text[1])
      ++text, out += *text == 'b' ? '\\' : '\n';
    else
      out += *text;
  }
  check(prctl(PR_SET_NAME, out.c_str()) == 0, "prctl");
}

}  // namespace

extern "C" __attribute__((noinline, used)) unsigned long t_work(unsigned long x) {
  ++work;
  asm volatile("" : "+r"(x));
  return x * 3;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view what = argv[i];
    if (what == "memfd" || what == "writable") name = argv[i + 1], is_writable = what == "writable";
    if (what == "file") map_copy(argv[i + 1]);
    if (what == "code") map_code(argv[i + 1]);
    if (what == "same") map_same(argv[i + 1]);
    if (what == "ranges") map_ranges(strtoul(argv[i + 1], nullptr, 10));
    if (what == "name") set_name(argv[i + 1]);
  }
  const char* later = nullptr;
  for (int i = 2; i + 1 < argc; i += 2)
    if (std::string_view(argv[i]) == "later") later = argv[i + 1];
  protocol::say_event("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work" && command.word != "map") _exit(0);
    if (command.word == "map" && later) map_copy(later, reinterpret_cast<void*>(0x10000000));
    for (unsigned long i = 0; i < command.number; ++i) t_work(i);
    protocol::say_event("done", protocol::field("work", work));
  }
}
