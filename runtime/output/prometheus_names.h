// Names and labels as Prometheus wants them (prometheus.io/docs/practices/naming): words of small letters with `_`
// between them, base units, and no word that stands for something else there, so that promtool has nothing to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/output/series.h"

namespace mdl::output {

// Of values in these units: the base unit, "" where Prometheus knows none, and how many digits of a value stand behind
// the point of that unit.
struct BaseUnit {
  std::string_view name;
  int digits = 0;
};
BaseUnit base_unit(const Series& series);
// The value in its base unit, exactly: 1500 ns as 0.0000015.
std::string in_base_unit(int64_t value, const BaseUnit& unit);

// mdl_WORDS, with its base unit, and _total where it only grows; mdl_all_WORDS of all processes together.
std::string family_name(const Series& series);

// pid="…" of one process, focus="…", and what the focus names by itself: object, function, thread; then the key.
std::string labels_of(const Series& series);
// Behind # HELP a quotation mark is itself, in a label's value it is not.
std::string escaped_text(std::string_view text, bool in_label);

}  // namespace mdl::output
