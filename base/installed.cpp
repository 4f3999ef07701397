#include "base/installed.h"

#include <filesystem>

namespace mdl {
namespace {

// The folder of this program; "" when its place is not known.
std::filesystem::path own_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

std::string installed(const std::string& name) {
  const std::filesystem::path folder = own_folder();
  return folder.empty() ? "" : (folder.parent_path() / "share" / "mdl" / name).string();
}

std::string beside(const std::string& program) {
  const std::filesystem::path folder = own_folder();
  return folder.empty() ? "" : (folder / program).string();
}

}  // namespace mdl
