#include "compiler/sema/argument_variants.h"

#include <algorithm>

#include "compiler/sema/lowering.h"

namespace mdl::sema {
namespace {

bool is_place(const format::Expr& expr) {
  return expr.kind == format::ExprKind::parameter &&
         expr.number == static_cast<int64_t>(format::ParameterFact::place);
}

}  // namespace

const format::Expr& first_named(const ir::Snippet& snippet) {
  return *std::find_if(snippet.constants.begin(), snippet.constants.end(), is_place);
}

std::vector<ir::Snippet> argument_variants(const ir::Snippet& snippet) {
  std::vector<ir::Snippet> variants;
  const auto& constants = snippet.constants;
  const auto first = std::find_if(constants.begin(), constants.end(), is_place);
  if (first == constants.end()) return variants;
  const auto index = static_cast<uint32_t>(first - constants.begin());
  for (uint32_t n = 0; n < kMaxArguments; n++) {
    ir::Snippet& variant = variants.emplace_back(snippet);
    for (ir::Inst& inst : variant.insts)
      if (inst.op == ir::Op::constant && inst.index == index)
        inst = {ir::Op::arg, inst.dst, ir::Operand::none(), ir::Operand::none(), n};
  }
  return variants;
}

}  // namespace mdl::sema
