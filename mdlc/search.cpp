#include "mdlc/search.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/installed.h"

namespace mdl::mdlc {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::string standard_library() {
  return installed("stdlib-metrics");
}

Result<std::string> find_file(const std::string& name, const std::vector<std::string>& directories) {
  fs::path wanted(name);
  if (wanted.is_absolute() || is_there(wanted)) return name;
  std::string looked;
  auto look = [&](const std::string& directory) {
    looked += fmt::format(", {}", directory);
    return is_there(fs::path(directory) / wanted);
  };
  for (const std::string& directory : directories)
    if (look(directory)) return (fs::path(directory) / wanted).string();
  std::string library = standard_library();
  if (!library.empty() && !wanted.has_parent_path() && look(library))
    return (fs::path(library) / wanted).string();
  return Error{fmt::format("cannot find '{}'; looked in the current folder{}", name, looked)};
}

}  // namespace mdl::mdlc
