// One program for many images: C alone, so that musl's compiler takes it, too.
//
//   images [SECONDS]
//
// Commands: `work N` calls t_image_work and t_image_switch, and by pointers memcpy and strlen, N times; `quit`
// ends with status 0. Answers {"event":"done","work":TOTAL}. Nothing counted runs between an answer and the next
// command.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef MARKED_AS_GO
// What Go's linker writes into its programs, and by which they are known.
__asm__(
    ".pushsection .note.go.buildid,\"a\",@note\n"
    ".long 4, 4, 4\n.ascii \"Go\\0\\0none\"\n"
    ".popsection\n");
#endif

static char source[256], target[256];

__attribute__((noinline, used)) unsigned long t_image_inner(unsigned long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

// Local: a stripped file has no name for it.
__attribute__((noinline, used)) static unsigned long t_image_local(unsigned long x) {
  __asm__ volatile("" : "+r"(x));
  return t_image_inner(x) + 1;
}

__attribute__((noinline, used)) unsigned long t_image_work(unsigned long x) {
  __asm__ volatile("" : "+r"(x));
  return t_image_local(x) + 7;
}

__attribute__((noinline, cold, noreturn)) static void never(int line) {
  printf("line %d\n", line);
  exit(3);
}

// Its table of labels begins with one that leads to the function's cold part. That has no frame of its own, and
// nothing but this function's missing symbol tells it from another function.
__attribute__((noinline, used)) unsigned long t_image_switch(const char* bytes, unsigned kind) {
  switch (kind) {
    case 1:
      return (unsigned long)(bytes[55] >> 5 ^ 1);
    case 2:
      return ~(unsigned long)bytes[6] & 1;
    case 3:
      return (unsigned long)bytes[5] * 3;
    case 4:
      return (unsigned long)bytes[8] >> 6 & 1;
    case 5:
      return (unsigned long)(bytes[9] ^ bytes[7]);
    case 6:
      return (unsigned long)(bytes[13] - bytes[12]);
    default:
      never(__LINE__);
  }
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? (unsigned)atoi(argv[1]) : 120);
  void* (*volatile copy)(void*, const void*, size_t) = memcpy;
  size_t (*volatile length_of)(const char*) = strlen;
  unsigned long total = 0, sum = 0;
  printf("{\"event\":\"ready\"}\n");
  fflush(stdout);
  for (;;) {
    char line[64];
    size_t length = 0;
    while (length + 1 < sizeof line && read(STDIN_FILENO, line + length, 1) == 1 && line[length] != '\n')
      length++;
    line[length] = 0;
    if (strncmp(line, "work ", 5) != 0) return 0;
    unsigned long count = strtoul(line + 5, NULL, 10);
    for (unsigned long i = 0; i < count; i++, total++) {
      sum += t_image_work(i);
      sum += t_image_switch(source, (unsigned)(i % 6) + 1);
      copy(target, source, (size_t)(sum % sizeof target));
      sum += length_of(target);
    }
    char answer[64];
    int size = snprintf(answer, sizeof answer, "{\"event\":\"done\",\"work\":%lu}\n", total);
    if (write(STDOUT_FILENO, answer, (size_t)size) != size) return 1;
  }
}
