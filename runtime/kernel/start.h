// Starting a program that is held behind its execve, as a tracee of who makes the calls. One at a time.
//
// A small process of its own guards it: the program ends with us until it is let go, however we end. Nobody else would
// wake a program that is stopped.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>

namespace mdl::kernel {

struct Started {
  pid_t pid = 0;    // 0 when there is none
  int problem = 0;  // why, an errno; 0 also when the program ended before its first instruction
};

// `words`: the command, found on PATH; each word ends with a zero. The program gets our standard files and
// environment, and begins in `folder`, "" for ours. A broker starts the command that it was told (broker.h), and no other.
Started start_program(std::string_view words, std::string_view folder);
std::string command_words(std::span<const std::string> command);

// All of these are nothing where no program is held. Its end is its own from here on.
void let_program_go();
// It is killed and waited for.
void end_program();
// It is killed also where we end while it stands in a stop of ours.
void end_program_with_us();

}  // namespace mdl::kernel
