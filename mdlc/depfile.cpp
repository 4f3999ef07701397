#include "mdlc/depfile.h"

namespace mdl::mdlc {
namespace {

// As compilers do: `$` is doubled, a blank or `#` has a backslash before it, and so have the
// backslashes right before a blank. A line end cannot be written at all.
std::string escaped(const std::string& path) {
  std::string text;
  size_t backslashes = 0;
  for (char c : path) {
    if (c == ' ' || c == '\t') text.append(backslashes + 1, '\\');
    if (c == '#') text += '\\';
    if (c == '$') text += '$';
    text += c;
    backslashes = c == '\\' ? backslashes + 1 : 0;
  }
  return text;
}

}  // namespace

std::string dependencies(const std::string& output, const std::vector<std::string>& files) {
  std::string text = escaped(output) + ":";
  for (const std::string& file : files) text += " \\\n  " + escaped(file);
  return text + "\n";
}

}  // namespace mdl::mdlc
