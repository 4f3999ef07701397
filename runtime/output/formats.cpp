#include "runtime/output/formats.h"

#include <fmt/format.h>

namespace mdl::output {
namespace {

constexpr Format kFormats[] = {
#define MDL_OUTPUT_FORMAT(name) {#name, make_##name},
#include "runtime/output/formats.def"
#undef MDL_OUTPUT_FORMAT
};

}  // namespace

std::span<const Format> formats() {
  return kFormats;
}

Result<Format> format_named(std::string_view name, bool terminal) {
  if (name.empty()) name = terminal ? "table" : "ndjson";
  for (const Format& format : kFormats)
    if (format.name == name) return format;
  return Error{fmt::format("there is no output format `{}`; there are {}", name, format_names("and")),
               Status::usage};
}

std::string format_names(std::string_view last) {
  std::string out;
  for (const Format& format : kFormats) out += fmt::format("{}{}", out.empty() ? "" : ", ", format.name);
  return out.replace(out.rfind(", "), 2, fmt::format(" {} ", last));
}

}  // namespace mdl::output
