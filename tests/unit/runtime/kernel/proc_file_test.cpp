// Files below a process's root: only regular ones are opened, and links do not lead out.
#include "runtime/kernel/proc_file.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mdl::kernel {
namespace {

namespace fs = std::filesystem;

class BelowRoot : public testing::Test {
 protected:
  BelowRoot() {
    char name[] = "/tmp/mdl-below-XXXXXX";
    folder_ = fs::canonical(mkdtemp(name));
    std::ofstream(folder_ / "file") << "text";
  }
  ~BelowRoot() override { fs::remove_all(folder_); }

  // What is in the file; "" where it is not opened.
  static std::string text(const fs::path& path, int failure = 0) {
    const int file = open_below_root(getpid(), path.native());
    if (file < 0) {
      EXPECT_EQ(errno, failure) << path;
      return "";
    }
    char buffer[8] = {};
    EXPECT_GE(read(file, buffer, sizeof buffer - 1), 0);
    close(file);
    return buffer;
  }

  fs::path folder_;
};

TEST_F(BelowRoot, OpensARegularFile) {
  EXPECT_EQ(text(folder_ / "file"), "text");
  fs::create_symlink(folder_ / "file", folder_ / "link");
  EXPECT_EQ(text(folder_ / "link"), "text");
  EXPECT_EQ(text(folder_ / "none", ENOENT), "");
}

TEST_F(BelowRoot, OpensNothingElse) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(text(folder_ / "fifo", EACCES), "");
  EXPECT_EQ(text("/dev/null", EACCES), "");
  EXPECT_EQ(text(folder_, EACCES), "");
  fs::create_symlink("/dev/tty", folder_ / "device");
  EXPECT_EQ(text(folder_ / "device", EACCES), "");
}

TEST_F(BelowRoot, FollowsNoLinkOfProc) {
  EXPECT_EQ(text("/proc/self/exe", ELOOP), "");
  EXPECT_EQ(text(fs::path("/proc/self/root") / folder_.relative_path() / "file", ELOOP), "");
}

// A process without openat2(2), as on an old kernel.
void lose_openat2() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(99);
}

TEST_F(BelowRoot, OpensFilesWithoutLinksOnOldKernels) {
  fs::create_directory(folder_ / "folder");
  fs::create_symlink("folder", folder_ / "link");
  std::ofstream(folder_ / "folder" / "file") << "text";
  const pid_t child = fork();
  if (child == 0) {
    lose_openat2();
    const int file = open_below_root(getpid(), (folder_ / "folder//./file").native());
    if (file < 0) _exit(1);
    if (open_below_root(getpid(), (folder_ / "link" / "file").native()) >= 0 || errno != ELOOP) _exit(2);
    if (open_below_root(getpid(), (folder_ / "folder/../file").native()) >= 0 || errno != ELOOP) _exit(3);
    if (open_below_root(getpid(), "/dev/null") >= 0 || errno != EACCES) _exit(4);
    if (open_below_root(getpid(), (folder_ / "none").native()) >= 0 || errno != ENOENT) _exit(5);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace mdl::kernel
