#include "base/guarded_path.h"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace mdl {
namespace {

namespace fs = std::filesystem;

Result<void> check(const fs::path& one, uid_t user) {
  struct stat about {};
  if (lstat(one.c_str(), &about) != 0)
    return Error{fmt::format("cannot look at {}: {}", one.native(), std::strerror(errno))};
  if (about.st_uid != 0 && about.st_uid != user)
    return Error{fmt::format("{0} belongs to user {1}, who could change it: chown {2} {0}", one.native(),
                             about.st_uid, user)};
  const bool sticky = S_ISDIR(about.st_mode) && (about.st_mode & S_ISVTX);
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) && !sticky)
    return Error{fmt::format("others may write to {0}: chmod go-w {0}", one.native())};
  return {};
}

Result<std::string> guarded(const std::string& path, uid_t user) {
  std::error_code problem;
  const fs::path real = fs::canonical(path, problem);
  if (problem) return Error{fmt::format("cannot read {}: {}", path, problem.message())};
  fs::path so_far;
  for (const fs::path& part : real) {
    so_far /= part;
    if (auto ok = check(so_far, user); !ok) return ok.error();
  }
  return real.string();
}

}  // namespace

Result<std::string> guarded_path(const std::string& path) {
  return guarded(path, getauxval(AT_SECURE) ? 0 : geteuid());
}

Result<std::string> path_of_root(const std::string& path) {
  return guarded(path, 0);
}

}  // namespace mdl
