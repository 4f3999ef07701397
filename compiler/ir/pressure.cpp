#include "compiler/ir/pressure.h"

#include <algorithm>

#include "compiler/ir/op_info.h"

namespace mdl::ir {

size_t pressure(const Snippet& snippet) {
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> first(snippet.temps, kNever), last(snippet.temps, 0);
  std::vector<bool> input(snippet.temps, true);
  for (size_t at = 0; at < snippet.insts.size(); at++) {
    const Inst& inst = snippet.insts[at];
    each_use(inst, [&](Temp temp) { last[temp] = at; });
    if (!info(inst.op).defines) continue;
    first[inst.dst] = std::min(first[inst.dst], at);
    last[inst.dst] = std::max(last[inst.dst], at);
    if (inst.op != Op::arg && inst.op != Op::result) input[inst.dst] = false;
  }
  std::vector<int64_t> change(snippet.insts.size() + 1, 0);
  for (Temp temp = 0; temp < snippet.temps; temp++) {
    if (first[temp] == kNever || input[temp]) continue;
    change[first[temp]]++;
    change[last[temp]]--;
  }
  int64_t held = 0, most = 0;
  for (int64_t step : change) most = std::max(most, held += step);
  return static_cast<size_t>(most);
}

}  // namespace mdl::ir
