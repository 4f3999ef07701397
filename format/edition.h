// The edition of a signed plan: what its maker says of it besides its contents (`mdlc --edition`,
// `--not-after`). It is in the manifest, so the signature covers it. Plans that were made before there were
// editions have none, and their signatures stay what they were; a plan that has one says so by a feature, so
// readers from before refuse it and do not miss that it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mdl::format {

struct Edition {
  std::string name;       // "" = the plan has no edition
  uint64_t version = 0;   // rises with each
  std::string not_after;  // the last day on which it may be used, in UTC: 2027-01-31; "" = for ever
  bool operator==(const Edition&) const = default;
};
inline constexpr std::string_view kEditionFeature = "editions";

// NAME=VERSION, as the command line has it.
Result<Edition> parse_edition(const std::string& text);
// The reason why it is none, "" where it is one.
std::string wrong_edition(const Edition& edition);
// True for a day of the calendar, as 2027-01-31.
bool is_day(const std::string& text);
// Today, in UTC; days compare as texts.
std::string today();

}  // namespace mdl::format
