#include "runtime/patch/liveness.h"

#include <algorithm>
#include <set>
#include <vector>

#include "runtime/arch/description.h"

namespace mdl::patch {
namespace {

using image::Flow;
using image::Instruction;

constexpr image::Registers kAll = ~image::Registers{0};
constexpr size_t kSteps = 400;  // instructions looked at before giving up

const Instruction* find(const image::Code& code, uint64_t address) {
  auto it = std::lower_bound(code.instructions.begin(), code.instructions.end(), address,
                             [](const Instruction& in, uint64_t a) { return in.address < a; });
  return it != code.instructions.end() && it->address == address ? &*it : nullptr;
}

}  // namespace

Liveness::Liveness(const image::Code& code) : code_(code) {
  if (!code.complete || code.unresolved_jump) return;
  for (const Instruction& in : code.instructions) {
    // Registers that a direct call changes are the callee's affair, and a caller may know that too.
    if (in.flow != Flow::call) free_at_exit_ |= in.touches & arch::kMachine.scratch;
  }
}

image::Registers Liveness::before(uint64_t address, bool at_entry) const {
  image::Registers free_at_exit = at_entry ? free_at_exit_ : 0;
  // A walk over paths: each item is an instruction and the registers not yet replaced on the way to it.
  image::Registers live = 0;
  std::vector<std::pair<uint64_t, image::Registers>> work = {{address, kAll}};
  std::set<std::pair<uint64_t, image::Registers>> seen;
  for (size_t steps = 0; !work.empty(); steps++) {
    auto [at, open] = work.back();
    work.pop_back();
    open &= ~live;  // known already
    if (open == 0 || !seen.insert({at, open}).second) continue;
    const Instruction* in = find(code_, at);
    if (!in || steps > kSteps) return kAll;
    if (in->flow != Flow::return_) live |= in->reads & open;  // a return is decoded as reading all
    open &= ~in->writes;
    switch (in->flow) {
      case Flow::next:
        work.emplace_back(at + in->size, open);
        break;
      case Flow::branch:
        work.emplace_back(at + in->size, open);
        [[fallthrough]];
      case Flow::jump:
        if (find(code_, in->target))
          work.emplace_back(in->target, open);
        else  // out of the function: a static chain may travel on
          live |= open & ~(free_at_exit & ~arch::kMachine.static_chain);
        break;
      case Flow::return_:
        live |= open & ~free_at_exit;
        break;
      case Flow::jump_indirect:
      case Flow::call:
      case Flow::call_indirect:
      case Flow::system_call:
      case Flow::stop:
        live |= open;
        break;
    }
  }
  return live;
}

}  // namespace mdl::patch
