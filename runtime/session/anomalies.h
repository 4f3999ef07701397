// Anomalies by the functions whose flags and timers they are about (docs/events.md, "Anomalies").
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/output/series.h"
#include "runtime/resident/journal.h"

namespace mdl::inject {

// By request. `words`: Snapshot::anomaly_words.
std::map<uint32_t, std::vector<output::Anomaly>> anomalies_of(const resident::Journal& journal,
                                                              std::span<const uint64_t> words);

// At the end, on standard error: the functions that have most.
void say_anomalies(pid_t pid, const resident::Journal& journal, std::span<const uint64_t> words);

}  // namespace mdl::inject
