// A program that a test builds from tests/unit/runtime/image/samples, runs and traces.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/image/unwind.h"

namespace mdl::image::testing {

// A folder that goes away with its owner.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Runs a command through the shell; its output is in the failure message.
void run(const std::string& command);
bool have(const std::string& tool);

// Compiles samples/NAME with `compiler` and options into `folder`; the path of the program.
std::string build(const Folder& folder, const std::string& compiler, const std::string& name,
                  const std::string& options);

// A traced child. It stops itself with SIGSTOP; it is killed when this goes away.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // Continues until the next stop by `signal` and takes that signal away. False when it ended.
  bool continue_to(int signal);
  // One instruction; 0, or the signal that it was stopped by instead of the step.
  int step();
  RegisterFile registers() const;

 private:
  pid_t pid_;
};

}  // namespace mdl::image::testing
