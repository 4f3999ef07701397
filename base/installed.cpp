#include "base/installed.h"

#include <filesystem>

namespace mdl {

std::string installed(const std::string& name) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  return (program.parent_path().parent_path() / "share" / "mdl" / name).string();
}

std::string beside(const std::string& name) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : (program.parent_path() / name).string();
}

}  // namespace mdl
