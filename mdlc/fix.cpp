#include "mdlc/fix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/say.h"
#include "mdlc/output.h"

namespace mdl::mdlc {
namespace {

bool touch(Span a, Span b) {
  if (a.begin == a.end && b.begin == b.end) return a.begin == b.begin;
  return a.begin < b.end && b.begin < a.end;
}

bool fits(const Diagnostic& d, const std::vector<SourceEdit>& accepted) {
  return std::all_of(d.edits.begin(), d.edits.end(), [&](const SourceEdit& edit) {
    return edit.span.file == d.span.file &&
           std::none_of(accepted.begin(), accepted.end(),
                        [&](const SourceEdit& a) { return touch(a.span, edit.span); });
  });
}

std::string edited(std::string_view text, std::vector<SourceEdit> edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const SourceEdit& a, const SourceEdit& b) { return a.span.begin < b.span.begin; });
  std::string result;
  uint32_t at = 0;
  for (const SourceEdit& edit : edits) {
    result += text.substr(at, edit.span.begin - at);
    result += edit.text;
    at = edit.span.end;
  }
  return result.append(text.substr(at));
}

}  // namespace

std::vector<FixedFile> fixed_files(const Diagnostics& diagnostics, const Sources& sources) {
  struct Changes {
    std::vector<SourceEdit> edits;
    size_t fixes = 0;
  };
  std::map<uint32_t, Changes> by_file;
  for (const Diagnostic& d : diagnostics.sorted()) {
    if (d.edits.empty() || d.span.file >= sources.size()) continue;
    Changes& changes = by_file[d.span.file];
    if (!fits(d, changes.edits)) continue;
    changes.edits.insert(changes.edits.end(), d.edits.begin(), d.edits.end());
    changes.fixes++;
  }
  std::vector<FixedFile> files;
  for (const auto& [file, changes] : by_file)
    files.push_back({sources[file].path(), edited(sources[file].text(), changes.edits), changes.fixes});
  return files;
}

Result<void> apply_fixes(const Diagnostics& diagnostics, const Sources& sources) {
  for (const FixedFile& file : fixed_files(diagnostics, sources)) {
    if (auto written = write_output(file.path, file.text); !written) return written;
    say(stderr, "mdlc: {}: {} fixed\n", file.path, file.fixes);
  }
  return {};
}

}  // namespace mdl::mdlc
