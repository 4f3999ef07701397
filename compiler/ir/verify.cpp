// One walk forward. Because control flow goes forward only, when a label is reached every
// jump to it has been seen: what is defined there is what is defined on all those jumps
// and, if the instruction before falls through, behind it.
#include "compiler/ir/verify.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <unordered_set>

#include "compiler/ir/op_info.h"
#include "compiler/ir/text.h"

namespace mdl::ir {
namespace {

using Defined = std::vector<bool>;  // by temporary

// Each check returns what is wrong, "" for nothing.
class Verifier {
 public:
  explicit Verifier(const Snippet& snippet) : snippet_(snippet) {}

  Result<void> run() {
    if (std::string wrong = check_frame(); !wrong.empty())
      return Error{fmt::format("IR of \"{}\": {}", snippet_.name, wrong)};
    for (size_t at = 0; at < snippet_.insts.size(); at++)
      if (std::string wrong = check(snippet_.insts[at]); !wrong.empty())
        return Error{fmt::format("IR of \"{}\", instruction {} ({}): {}", snippet_.name, at,
                                 print(snippet_.insts[at], snippet_), wrong)};
    for (uint32_t label = 0; label < snippet_.labels; label++)
      if (wanted_[label] && !seen_[label])
        return Error{
            fmt::format("IR of \"{}\": a jump to L{} has no label further on", snippet_.name, label)};
    return {};
  }

 private:
  std::string check_frame() {
    if (snippet_.name.empty()) return "it has no name";
    if (snippet_.temps > kMaxTemps) return fmt::format("more than {} temporaries", kMaxTemps);
    if (snippet_.labels > kMaxLabels) return fmt::format("more than {} labels", kMaxLabels);
    std::unordered_set<std::string_view> names;
    for (const format::Cell& cell : snippet_.cells) {
      if (cell.name.empty()) return "a cell has no name";
      if (!names.insert(cell.name).second) return fmt::format("two cells are called \"{}\"", cell.name);
    }
    defined_.assign(snippet_.temps, false);
    at_label_.resize(snippet_.labels);
    wanted_.assign(snippet_.labels, false);
    seen_.assign(snippet_.labels, false);
    return "";
  }

  std::string check(const Inst& inst) {
    std::string wrong = check_shape(inst);
    if (wrong.empty()) wrong = check_point(inst);
    if (wrong.empty()) wrong = check_flow(inst);
    return wrong;
  }

  std::string check_shape(const Inst& inst) {
    const OpInfo& rule = info(inst.op);
    if (rule.defines && inst.dst >= snippet_.temps) return "the destination is no temporary";
    if (!rule.defines && inst.dst != kNoTemp) return "it has no destination";
    for (auto [operand, wanted] : {std::pair(&inst.a, rule.a), std::pair(&inst.b, rule.b)}) {
      if ((operand->kind == Operand::Kind::none) != (wanted == OperandRule::N))
        return "wrong number of operands";
      bool is_temp = operand->kind == Operand::Kind::temp;
      if (is_temp && wanted == OperandRule::I) return "the operand must be a number";
      if (is_temp && (operand->value < 0 || operand->value >= snippet_.temps)) return "no such temporary";
    }
    if (inst.op == Op::extend && !is_width(inst.b.value)) return "no such width";
    switch (rule.field) {
      case FieldRule::NONE:
        return inst.index == 0 ? "" : "it has no field";
      case FieldRule::CELL:
        return inst.index < snippet_.cells.size() ? check_cell(inst) : "no such cell";
      case FieldRule::NUMBER:
        return inst.index <= kMaxNumber ? "" : "the number is too large";
      case FieldRule::CONST:
        return inst.index < snippet_.constants.size() ? "" : "no such constant";
      case FieldRule::SYMBOL:
        return inst.index < snippet_.symbols.size() ? "" : "no such symbol";
      case FieldRule::LABEL:
        return inst.index < snippet_.labels ? "" : "no such label";
    }
    return "";
  }

  // Each operation is for cells of some kinds; a call's function and arguments must be there.
  std::string check_cell(const Inst& inst) {
    using format::CellKind;
    CellKind kind = snippet_.cells[inst.index].kind;
    bool right = false;
    switch (inst.op) {
      case Op::start_timer:
      case Op::stop_timer:
        right = format::is_timer(kind);
        break;
      case Op::sample_event:
        right = kind == CellKind::event_counter;
        break;
      case Op::update:
        right = format::info(kind).update.has_value();
        break;
      case Op::enter:
      case Op::kept:
      case Op::elapsed:
      case Op::stayed:
      case Op::pause:
      case Op::resume:
        right = kind == CellKind::entries;
        break;
      case Op::enter_call:
      case Op::call_arg:
      case Op::call:
      case Op::leave_call:
        right = kind == CellKind::call;
        break;
      case Op::load:
        right = kind == CellKind::counter || kind == CellKind::flag || kind == CellKind::event_counter;
        break;
      case Op::address:
        right = kind != CellKind::call && kind != CellKind::entries;
        break;
      default:
        right = kind == CellKind::counter || kind == CellKind::flag;
    }
    if (!right) return fmt::format("it cannot be used on a {}", format::info(kind).name);
    if (inst.op == Op::call_arg && (inst.b.value < 0 || inst.b.value > 5)) return "no such argument";
    if (inst.op == Op::call &&
        (inst.a.value < 0 || static_cast<uint64_t>(inst.a.value) >= snippet_.symbols.size() ||
         snippet_.symbols[static_cast<size_t>(inst.a.value)].kind != format::SymbolKind::function))
      return "no such function";
    return "";
  }

  std::string check_point(const Inst& inst) {
    const format::PointKindInfo& point = format::info(snippet_.point);
    if (inst.op == Op::symbol && snippet_.symbols[inst.index].kind != format::SymbolKind::variable)
      return "the symbol is no variable";
    if (inst.op == Op::arg && !point.args) return fmt::format("{} points have no $arg", point.name);
    if (inst.op == Op::result && !point.result) return fmt::format("{} points have no $return", point.name);
    return "";
  }

  std::string check_flow(const Inst& inst) {
    std::string wrong;
    each_use(inst, [&](Temp temp) {
      if (reached_ && !defined_[temp]) wrong = fmt::format("%{} is not written on every path to here", temp);
    });
    if (!wrong.empty()) return wrong;
    if (info(inst.op).defines) defined_[inst.dst] = true;
    if (inst.op == Op::label) return enter_label(inst.index);
    if (inst.op == Op::jump || inst.op == Op::jump_zero) return leave_to(inst.index, inst.op == Op::jump);
    return "";
  }

  std::string leave_to(uint32_t label, bool always) {
    if (seen_[label]) return "it jumps backward";
    wanted_[label] = true;
    std::optional<Defined>& there = at_label_[label];
    if (reached_ && there) merge(*there, defined_);
    if (reached_ && !there) there = defined_;
    if (always) reached_ = false;
    return "";
  }

  std::string enter_label(uint32_t label) {
    if (seen_[label]) return "the label stands twice";
    seen_[label] = true;
    const std::optional<Defined>& there = at_label_[label];
    if (there && reached_) merge(defined_, *there);
    if (there && !reached_) defined_ = *there;
    reached_ = reached_ || there;
    return "";
  }

  static void merge(Defined& into, const Defined& from) {
    for (size_t i = 0; i < into.size(); i++) into[i] = into[i] && from[i];
  }

  const Snippet& snippet_;
  Defined defined_;
  bool reached_ = true;
  std::vector<std::optional<Defined>> at_label_;  // what every reached jump to it has defined
  std::vector<bool> wanted_;                      // by a jump
  std::vector<bool> seen_;                        // passed
};

}  // namespace

Result<void> verify(const Snippet& snippet) {
  return Verifier(snippet).run();
}

}  // namespace mdl::ir
