// A program that tells the kernel another auxiliary vector than it was given (prctl(2), PR_SET_MM_MAP).
//
//   forger SECONDS
//
//   work N     calls t_work N times. Answers {"event":"done"}
//   forge      its vector has another value of AT_CLKTCK. Answers {"forged":1}, or 0 where it may not
//   empty      its vector has nothing but AT_CLKTCK: no random bytes of the kernel's. The same answer
//   execute    executes sleep(1) for a minute, with its vector as it is
//   quit       ends with status 0
#include <elf.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "protocol.h"

extern "C" __attribute__((noipa, used)) void t_work() {
  asm volatile("");
}

namespace {

// The fields of /proc/self/stat behind the name, of which the first is the third (proc(5)).
std::vector<uint64_t> own_stat() {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 4));
  std::vector<uint64_t> out = {0, 0, 0, 0};
  for (std::string field; fields >> field;) out.push_back(strtoull(field.c_str(), nullptr, 10));
  return out;
}

std::vector<Elf64_auxv_t> own_vector() {
  std::ifstream file("/proc/self/auxv", std::ios::binary);
  std::vector<Elf64_auxv_t> out;
  for (Elf64_auxv_t one; file.read(reinterpret_cast<char*>(&one), sizeof one);) out.push_back(one);
  return out;
}

bool tell(const std::vector<Elf64_auxv_t>& vector) {
  const std::vector<uint64_t> stat = own_stat();
  prctl_mm_map map{};
  map.start_code = stat[26], map.end_code = stat[27];
  map.start_data = stat[45], map.end_data = stat[46];
  map.start_brk = stat[47], map.brk = reinterpret_cast<uintptr_t>(sbrk(0));
  map.start_stack = stat[28];
  map.arg_start = stat[48], map.arg_end = stat[49];
  map.env_start = stat[50], map.env_end = stat[51];
  map.auxv = reinterpret_cast<__u64*>(const_cast<Elf64_auxv_t*>(vector.data()));
  map.auxv_size = static_cast<__u32>(vector.size() * sizeof vector[0]);
  map.exe_fd = static_cast<__u32>(-1);
  return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0;
}

bool forge(bool all) {
  std::vector<Elf64_auxv_t> vector = own_vector();
  if (all)
    std::erase_if(vector,
                  [](const Elf64_auxv_t& one) { return one.a_type != AT_CLKTCK && one.a_type != AT_NULL; });
  for (Elf64_auxv_t& one : vector)
    if (one.a_type == AT_CLKTCK) one.a_un.a_val++;
  return tell(vector);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  protocol::say_event("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "work") {
      for (size_t i = 0; i < command.number; i++) t_work();
      protocol::say_event("done");
    } else if (command.word == "forge" || command.word == "empty") {
      protocol::say_event("vector", protocol::field("forged", forge(command.word == "empty")));
    } else if (command.word == "execute") {
      execlp("sleep", "sleep", "60", nullptr);
      return 1;
    } else {
      return 0;
    }
  }
}
