#pragma once

#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

// All code but the C library's is what a program like Wine runs for others.
inline void dispatch_calls() {
  constexpr int kSetDispatch = 59, kOn = 1;  // PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON
  static char blocked = 1;                   // SYSCALL_DISPATCH_FILTER_BLOCK
  unsigned long start = 0, end = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libc.so") != line.npos && line.find(" r-xp ") != line.npos)
      sscanf(line.c_str(), "%lx-%lx", &start, &end);
  if (prctl(kSetDispatch, kOn, start, end - start, &blocked) != 0) {
    perror("prctl");
    exit(1);
  }
}
