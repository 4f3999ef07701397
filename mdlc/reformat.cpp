#include "mdlc/reformat.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/say.h"
#include "compiler/reformat/reformat.h"
#include "mdlc/output.h"

namespace mdl::mdlc {
namespace {

// Says which file would change, or was changed.
Result<void> take(const Options& options, const Source& source, const std::string& text, bool& differs) {
  bool same = text == source.text();
  differs = differs || !same;
  if (options.check_only) {
    if (!same) say(stderr, "mdlc: {}: would be reformatted\n", source.path());
    return {};
  }
  if (!options.in_place) return write_output(options.output.empty() ? "-" : options.output, text);
  return same ? Result<void>() : write_output(source.path(), text);
}

}  // namespace

int reformat_files(const Options& options, Diagnostics& diagnostics, const Sources& sources) {
  bool differs = false;
  for (uint32_t i = 0; i < sources.size(); i++) {
    std::optional<std::string> text = reformat(sources[i], options.standard, diagnostics);
    if (!text) continue;
    if (auto taken = take(options, sources[i], *text, differs); !taken) {
      say(stderr, "mdlc: {}\n", taken.error().text);
      return static_cast<int>(taken.error().status);
    }
  }
  bool failed = diagnostics.has_failed() || (options.check_only && differs);
  return static_cast<int>(failed ? Status::failed : Status::done);
}

}  // namespace mdl::mdlc
