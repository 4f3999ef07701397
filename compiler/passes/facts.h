// The facts that a walk forward knows of temporaries, and those that hold at labels. Control flow goes
// forward only: when a label is reached, every jump to it has been seen, and a fact holds there when it
// holds, equal, on each of them and on the way that falls into it.
#pragma once

#include <map>
#include <optional>

#include "compiler/ir/op_info.h"

namespace mdl::passes {

template <typename Key, typename Value>
class Facts {
 public:
  using Map = std::map<Key, Value>;  // ordered: results do not depend on hashing

  bool reached() const { return now_.has_value(); }
  Map& now() { return *now_; }

  const Value* find(const Key& key) const {
    if (!now_) return nullptr;
    auto found = now_->find(key);
    return found == now_->end() ? nullptr : &found->second;
  }

  // To be called for each instruction: labels before it is looked at, jumps behind.
  void enter(const ir::Inst& inst) {
    if (inst.op != ir::Op::label) return;
    auto there = arriving_.find(inst.index);
    if (there == arriving_.end()) return;
    if (now_)
      meet(*now_, there->second);
    else
      now_ = std::move(there->second);
  }
  void leave(const ir::Inst& inst) {
    if (!now_ || (inst.op != ir::Op::jump && inst.op != ir::Op::jump_zero)) return;
    auto [there, fresh] = arriving_.try_emplace(inst.index, *now_);
    if (!fresh) meet(there->second, *now_);
    if (inst.op == ir::Op::jump) now_.reset();
  }

 private:
  static void meet(Map& into, const Map& other) {
    std::erase_if(into, [&](const auto& entry) {
      auto found = other.find(entry.first);
      return found == other.end() || !(found->second == entry.second);
    });
  }

  std::optional<Map> now_ = Map{};  // nothing: not reached
  std::map<uint32_t, Map> arriving_;
};

// Facts are dropped beyond this many, so that no input makes a pass quadratic.
inline constexpr size_t kMaxFacts = 128;

}  // namespace mdl::passes
