#include "runtime/inject/key_rows.h"

#include <fmt/format.h>

#include <string_view>

#include "runtime/patch/key_table.h"
#include "runtime/values/fold.h"

namespace mdl::inject {
namespace {

constexpr double kShortest = 0.001;  // seconds: over less than that a rate says nothing

// The focus of one key: its number in the place of the `*` that stands for keys.
std::string of_key(const std::string& focus, const std::string& key) {
  constexpr std::string_view kThreads = "/Thread/*";
  size_t star = focus.rfind('*');
  if (const size_t threads = focus.rfind(kThreads); threads != std::string::npos)
    if (star == threads + kThreads.size() - 1) star = focus.rfind('*', star - 1);
  return focus.substr(0, star) + key + focus.substr(star + 1);
}

// What the lines of a request say: by key, or by key and thread.
std::map<values::KeyOf, int64_t> fold(const std::map<values::KeyOf, int64_t>& totals, int64_t thread,
                                      format::Aggregate aggregate, int64_t threads) {
  std::map<values::KeyOf, int64_t> out;
  if (thread == focus::kEachThread) return totals;
  std::map<int64_t, values::Fold> folds;
  for (const auto& [of, total] : totals)
    if (thread == focus::kAllThreads || static_cast<uint64_t>(thread) == of.thread) folds[of.key].add(total);
  for (auto& [key, fold] : folds) {
    // Threads that never met the key have counted nothing for it.
    if (thread == focus::kAllThreads && aggregate != format::Aggregate::sum)
      fold.add_zeros(threads - fold.count());
    out[{key, 0}] = fold.result(aggregate);
  }
  return out;
}

}  // namespace

KeyRows::KeyRows(const patch::Journal& journal, const values::BlockLayout& layout) {
  for (const patch::JournalTable& table : journal.tables) {
    const patch::JournalRequest& request = journal.requests[table.request];
    const values::KeyPlace place{table.at.start, table.most, patch::KeyTableShape{table.most}.totals(),
                                 table.keys,     table.base, table.by_thread};
    tables_.push_back(
        {table.request, values::KeyReader(layout, place), request.aggregate, request.thread, {}});
  }
}

void KeyRows::read(const image::Memory& memory) {
  for (Table& table : tables_) (void)table.reader.read(memory).operator bool();
}

void KeyRows::append(size_t request, const output::Row& like, int64_t threads, double elapsed_s,
                     std::vector<output::Row>& rows) {
  for (Table& table : tables_) {
    if (table.request != request) continue;
    const double interval = elapsed_s - table.written_at.value_or(elapsed_s);
    const auto add = [&](std::string focus, int64_t total, int64_t& written) {
      output::Row row = like;
      row.focus = std::move(focus);
      row.value = total;
      row.delta = static_cast<int64_t>(static_cast<uint64_t>(total) - static_cast<uint64_t>(written));
      row.rate.reset();
      if (!row.level && table.written_at && interval >= kShortest)
        row.rate = static_cast<double>(row.delta) / interval;
      row.family = static_cast<uint32_t>(request) + 1;
      written = total;
      rows.push_back(std::move(row));
    };
    const values::KeyValues& now = table.reader.last();
    for (const auto& [of, total] : fold(now.totals, table.thread, table.aggregate, threads)) {
      std::string focus = of_key(like.focus, fmt::format("{}", of.key));
      if (table.thread == focus::kEachThread) focus = focus::of_thread(focus, of.thread);
      add(std::move(focus), total, table.written[of]);
    }
    if (now.others) add(of_key(like.focus, "?"), now.others_total, table.others_written);
    table.written_at = elapsed_s;
  }
}

uint64_t KeyRows::more() const {
  uint64_t more = 0;
  for (const Table& table : tables_) more += table.reader.last().more;
  return more;
}

}  // namespace mdl::inject
