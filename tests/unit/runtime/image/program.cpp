#include "tests/unit/runtime/image/program.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace mdl::image::testing {

Folder::Folder() {
  std::string text = (std::filesystem::temp_directory_path() / "mdl-image-XXXXXX").string();
  if (mkdtemp(text.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = text;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, count);
  ASSERT_EQ(pclose(pipe), 0) << command << "\n" << output;
}

bool have(const std::string& tool) {
  return std::system(("command -v " + tool + " >/dev/null").c_str()) == 0;
}

std::string build(const Folder& folder, const std::string& compiler, const std::string& name,
                  const std::string& options) {
  std::string program = folder.path() / std::filesystem::path(name).stem();
  std::string source = std::string(MDL_SOURCE_DIR) + "/tests/unit/runtime/image/samples/" + name;
  run(compiler + " -std=c++17 " + options + " -o " + program + " " + source);
  return program;
}

Program::Program(const std::vector<std::string>& arguments) : pid_(fork()) {
  if (pid_ != 0) {
    int status;
    waitpid(pid_, &status, 0);  // the stop at exec
    ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL);
    return;
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

Program::~Program() {
  kill(pid_, SIGKILL);
  int status;
  waitpid(pid_, &status, 0);
}

bool Program::continue_to(int signal) {
  int deliver = 0;
  while (true) {
    int status;
    if (ptrace(PTRACE_CONT, pid_, nullptr, deliver) != 0 || waitpid(pid_, &status, 0) != pid_) return false;
    if (!WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == signal) return true;
    deliver = WSTOPSIG(status);
  }
}

int Program::step() {
  int status;
  if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0 || waitpid(pid_, &status, 0) != pid_)
    return SIGKILL;
  if (!WIFSTOPPED(status)) return SIGKILL;
  return WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
}

RegisterFile Program::registers() const {
  user_regs_struct r{};
  ptrace(PTRACE_GETREGS, pid_, nullptr, &r);
  return {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
          r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
}

}  // namespace mdl::image::testing
