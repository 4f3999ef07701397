#include "runtime/inject/key_rows.h"

#include <fmt/format.h>

#include "runtime/patch/key_table.h"

namespace mdl::inject {
namespace {

constexpr double kShortest = 0.001;  // seconds: over less than that a rate says nothing

}  // namespace

KeyRows::KeyRows(const patch::Journal& journal, const values::BlockLayout& layout) {
  for (const patch::JournalTable& table : journal.tables)
    tables_.push_back(
        {table.request,
         values::KeyReader(layout, {table.at.start, table.most, patch::KeyTableShape{table.most}.totals(),
                                    table.keys, table.base}),
         {}});
}

void KeyRows::read(const image::Memory& memory) {
  for (Table& table : tables_) (void)table.reader.read(memory).operator bool();
}

void KeyRows::append(size_t request, const output::Row& like, double elapsed_s,
                     std::vector<output::Row>& rows) {
  for (Table& table : tables_) {
    if (table.request != request) continue;
    const double interval = elapsed_s - table.written_at;
    const std::string stem = like.focus.substr(0, like.focus.rfind('*'));
    const auto add = [&](const std::string& key, int64_t total, int64_t& written) {
      output::Row row = like;
      row.focus = stem + key + like.focus.substr(stem.size() + 1);
      row.value = total;
      row.delta = static_cast<int64_t>(static_cast<uint64_t>(total) - static_cast<uint64_t>(written));
      row.rate = interval >= kShortest ? static_cast<double>(row.delta) / interval : 0;
      row.family = static_cast<uint32_t>(request) + 1;
      written = total;
      rows.push_back(std::move(row));
    };
    const values::KeyValues& now = table.reader.last();
    for (const auto& [key, total] : now.totals) add(fmt::format("{}", key), total, table.written[key]);
    if (now.others) add("?", now.others_total, table.others_written);
    table.written_at = elapsed_s;
  }
}

uint64_t KeyRows::more() const {
  uint64_t more = 0;
  for (const Table& table : tables_) more += table.reader.last().more;
  return more;
}

}  // namespace mdl::inject
