#include "runtime/session/anomalies.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/say.h"

namespace mdl::inject {
namespace {

// One function, or those that share a flag or timer.
std::string name_of(const resident::Journal& journal, std::span<const uint32_t> functions) {
  const std::string& first = journal.functions[functions[0]].name;
  if (functions.size() == 1) return first;
  return fmt::format("{} or {} other{}", first, functions.size() - 1, functions.size() == 2 ? "" : "s");
}

std::vector<output::Anomaly> of_cell(const resident::Journal& journal, const resident::RaisedCell& cell,
                                     std::span<const uint64_t> words) {
  std::vector<output::Anomaly> out;
  if (cell.functions.empty() || cell.cell >= journal.layout.cells.size()) return out;
  const size_t pair = journal.layout.anomaly_word(journal.layout.cells[cell.cell]);
  if (pair + 1 < words.size() && (words[pair] || words[pair + 1]))
    out.push_back({name_of(journal, cell.functions), words[pair], words[pair + 1]});
  for (size_t i = 0; i < cell.functions.size() && cell.words + i < cell.words_end; i++)
    if (const size_t word = cell.words + i; word < words.size() && words[word])
      out.push_back({journal.functions[cell.functions[i]].name, 0, words[word]});
  return out;
}

}  // namespace

std::map<uint32_t, std::vector<output::Anomaly>> anomalies_of(const resident::Journal& journal,
                                                              std::span<const uint64_t> words) {
  std::map<uint32_t, std::vector<output::Anomaly>> out;
  if (std::ranges::all_of(words, [](uint64_t word) { return word == 0; })) return out;
  for (const resident::RaisedCell& cell : journal.raised) {
    const std::vector<output::Anomaly> found = of_cell(journal, cell, words);
    for (uint32_t request : cell.requests)
      out[request].insert(out[request].end(), found.begin(), found.end());
  }
  return out;
}

void say_anomalies(pid_t pid, const resident::Journal& journal, std::span<const uint64_t> words) {
  constexpr size_t kMost = 5;
  struct Said {
    output::Anomaly what;
    const resident::RaisedCell* cell;
  };
  std::vector<Said> all;
  for (const resident::RaisedCell& cell : journal.raised)
    for (output::Anomaly& one : of_cell(journal, cell, words)) all.push_back({std::move(one), &cell});
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const Said& one) { return one.what.vanished + one.what.unmatched; });
  for (size_t i = 0; i < std::min(all.size(), kMost); i++) {
    const auto& [what, cell] = all[i];
    std::string text;
    if (what.vanished) text = fmt::format("frames that vanished: {}", what.vanished);
    if (what.unmatched)
      text += fmt::format("{}exits without an entry: {}", text.empty() ? "" : ", ", what.unmatched);
    std::string request;
    if (!cell->requests.empty() && cell->requests[0] < journal.requests.size()) {
      const resident::JournalRequest& first = journal.requests[cell->requests[0]];
      request = fmt::format(
          " ({}{})", focus::request_text(first.metric, first.focus),
          cell->requests.size() > 1 ? fmt::format(" and {} more", cell->requests.size() - 1) : "");
    }
    say(stderr, "anomalies in process {}: {}: {}{}\n", pid, what.function, text, request);
  }
  if (all.size() > kMost)
    say(stderr, "anomalies in process {}: {} more functions\n", pid, all.size() - kMost);
}

}  // namespace mdl::inject
