// Whether a program finds, at its main, the auxiliary vector that the kernel gave it, and nothing in the room
// behind its code that its file does not have. Says "as it was", or what is not.
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" void _start();

int main(int argc, char** argv, char** environment) {
  (void)argc, (void)argv;
  while (*environment) environment++;
  auto* vector = reinterpret_cast<ElfW(auxv_t)*>(environment + 1);
  while (vector->a_type != AT_ENTRY) vector++;
  if (vector->a_un.a_val != reinterpret_cast<uint64_t>(&_start)) return puts("another entry"), 1;
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  uint64_t base = 0;
  for (uint64_t i = 0; i < getauxval(AT_PHNUM); i++)
    if (headers[i].p_type == PT_PHDR) base = reinterpret_cast<uint64_t>(headers) - headers[i].p_vaddr;
  for (uint64_t i = 0; i < getauxval(AT_PHNUM); i++) {
    if (headers[i].p_type != PT_LOAD || !(headers[i].p_flags & PF_X)) continue;
    const uint64_t end = base + headers[i].p_vaddr + headers[i].p_filesz;
    const auto page = static_cast<uint64_t>(getpagesize());
    constexpr char kMark[] = "MDLSTUB1";
    for (uint64_t at = end; at + sizeof kMark < ((end + page - 1) & ~(page - 1)); at++)
      if (memcmp(reinterpret_cast<const void*>(at), kMark, 4) == 0) return puts("a stub is left"), 1;
  }
  puts("as it was");
}
