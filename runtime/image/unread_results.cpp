#include "runtime/image/unread_results.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/arch/code_search.h"
#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"
#include "runtime/image/incoming_jumps.h"
#include "runtime/image/instruction.h"
#include "runtime/image/references.h"

namespace mdl::image {
namespace {

// What code does with the result of a call, by the first instruction that decides it.
enum class Use : uint8_t { ignores, hands_on, reads };

class AfterCall {
 public:
  AfterCall(const Function& caller, const Memory& memory)
      : caller_{caller.address, caller.address + caller.size}, memory_(memory) {}

  // Of the call at an address.
  Use of(uint64_t address) {
    Instruction call;
    return decode(address, call) ? follow(address + call.size, kMostBranches) : Use::ignores;
  }

 private:
  static constexpr int kMostBranches = 6;       // one behind the other
  static constexpr int kMostInstructions = 64;  // between two branches
  static Registers result() { return register_bit(arch::kMachine.result); }

  Use follow(uint64_t address, int branches) {
    for (int i = 0; i < kMostInstructions; i++) {
      Instruction one;
      if (!decode(address, one)) return Use::ignores;
      // To the decoder, these read whatever registers the convention may pass something in.
      if (one.flow == Flow::return_) return Use::hands_on;
      if (one.flow != Flow::next && one.flow != Flow::jump && one.flow != Flow::branch) return Use::ignores;
      // A register that is pushed only makes room.
      const bool keeps_room = arch::stores_on_top(one) && one.flow == Flow::next &&
                              (one.touches & register_bit(arch::kMachine.stack_pointer)) != 0;
      if ((one.reads & result()) != 0 && !keeps_room) return Use::reads;
      if ((one.touches & result()) != 0) return Use::ignores;
      address += one.size;
      if (one.flow == Flow::next) continue;
      if (!caller_.contains(one.target)) return Use::ignores;
      if (one.flow == Flow::branch) {
        if (branches == 0) return Use::ignores;
        return std::max(follow(one.target, branches - 1), follow(address, branches - 1));
      }
      address = one.target;
    }
    return Use::ignores;
  }

  bool decode(uint64_t address, Instruction& one) const {
    std::vector<std::byte> bytes(InstructionBytes::kMost);
    while (!bytes.empty() && !memory_.read(address, bytes)) bytes.resize(bytes.size() / 2);
    Detail detail;
    return arch::decode_instruction(bytes, address, one, detail);
  }

  Range caller_;
  const Memory& memory_;
};

// No other object can call it by name.
bool is_closed(const Function& function) {
  return function.is_local || function.unnamed;
}

class Search {
 public:
  Search(const Image& image, const Object& object, const Memory& memory)
      : image_(image), object_(object), memory_(memory) {}

  std::set<const Function*> unread(const std::set<const Function*>& functions) {
    constexpr int kMostRounds = 4;  // of callers that hand on what others return
    std::set<const Function*> next = functions;
    for (int round = 0; round < kMostRounds && !next.empty(); round++) next = look_for_callers(next);
    spread();
    std::set<const Function*> out;
    for (const Function* function : functions)
      if (!read_.contains(function) && !is_taken(*function)) out.insert(function);
    return out;
  }

 private:
  // Those that hand the results of `functions` on, and were not looked for before.
  std::set<const Function*> look_for_callers(const std::set<const Function*>& functions) {
    std::unordered_map<uint64_t, const Function*> by_address;
    Range span{UINT64_MAX, 0};
    for (const Function* one : functions) {
      by_address[one->address] = one;
      span = {std::min(span.start, one->address), std::max(span.end, one->address + 1)};
    }
    seen_.insert(functions.begin(), functions.end());
    std::set<const Function*> next;
    for (const Range& text : object_.text) {
      std::vector<std::byte> bytes(text.end - text.start);
      if (!memory_.read(text.start, bytes)) continue;
      arch::find_far_branches(bytes, text.start, span, [&](const arch::FarBranch& branch) {
        const auto called = by_address.find(branch.target);
        if (called == by_address.end() || branch.is_formed) return;
        if (const Function* through = note(*called->second, branch)) next.insert(through);
      });
    }
    for (const Function* one : functions)
      for (const IncomingJump& jump : near_jumps_within(object_, {one->address, one->address + 1}, memory_))
        if (const Function* through = note(*one, {.source = jump.source, .target = jump.target}))
          next.insert(through);
    return next;
  }

  // The caller, where it hands the result on and has to be looked at for that.
  const Function* note(const Function& called, const arch::FarBranch& branch) {
    const Function* caller = function_at(object_, branch.source);
    if (caller == nullptr || caller == &called) return nullptr;
    Use use = Use::hands_on;
    if (branch.is_call) use = AfterCall(*caller, memory_).of(branch.source);
    if (use == Use::reads) read_.insert(&called);
    if (use != Use::hands_on || !is_closed(*caller)) return nullptr;
    handed_on_by_[caller].push_back(&called);
    return seen_.contains(caller) ? nullptr : caller;
  }

  // A result that is read is also that of whatever hands it on.
  void spread() {
    for (const auto& [caller, called] : handed_on_by_)
      if (is_taken(*caller)) read_.insert(caller);
    std::vector<const Function*> rest(read_.begin(), read_.end());
    while (!rest.empty()) {
      const Function* one = rest.back();
      rest.pop_back();
      for (const Function* called : handed_on_by_[one])
        if (read_.insert(called).second) rest.push_back(called);
    }
  }

  bool is_taken(const Function& function) const {
    return !object_.references || object_.references->has(image_, object_, function.address, memory_);
  }

  const Image& image_;
  const Object& object_;
  const Memory& memory_;
  std::set<const Function*> seen_, read_;
  std::map<const Function*, std::vector<const Function*>> handed_on_by_;
};

}  // namespace

std::set<const Function*> with_unread_results(const Image& image, const Object& object,
                                              const std::set<const Function*>& functions,
                                              const Memory& memory) {
  if (!object.is_trimmed) return {};
  std::set<const Function*> closed = functions;
  std::erase_if(closed, [](const Function* one) { return !is_closed(*one); });
  return closed.empty() ? closed : Search(image, object, memory).unread(closed);
}

}  // namespace mdl::image
