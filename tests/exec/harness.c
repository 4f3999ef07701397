/* Runs the cases of a blob (tests/exec/batch.h) on the machine that this is compiled for: natively or under
 * qemu-user. The blob is a file that is mapped, shared, where it wants to lie; so the results are in the
 * file when this ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct header {
  uint64_t base;         /* where it is mapped */
  uint64_t enter;        /* offset of void enter(void *registers, const void *code) */
  uint64_t cases;        /* offset of the table: {registers, code}, offsets */
  uint64_t count;
};

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  int file = open(argv[1], O_RDWR);
  struct stat about;
  struct header head;
  if (file < 0 || fstat(file, &about) != 0 || pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head) {
    perror(argv[1]);
    return 1;
  }
  char *blob = mmap((void *)(uintptr_t)head.base, (size_t)about.st_size, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
  if (blob != (char *)(uintptr_t)head.base) {
    perror("mmap");
    return 1;
  }
  __builtin___clear_cache(blob, blob + about.st_size);
  void (*enter)(void *, const void *) = (void (*)(void *, const void *))(uintptr_t)(head.base + head.enter);
  const uint64_t *table = (const uint64_t *)(blob + head.cases);
  for (uint64_t i = 0; i < head.count; i++) enter(blob + table[2 * i], blob + table[2 * i + 1]);
  return munmap(blob, (size_t)about.st_size) != 0;
}
