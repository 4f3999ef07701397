#include "tests/exec/world.h"

namespace mdl::exec {
namespace {

int64_t wrapping(uint64_t value) {
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t TestWorld::tick() {
  return clock_ = wrapping(static_cast<uint64_t>(clock_) + static_cast<uint64_t>(inputs_.step));
}

int64_t TestWorld::clock(const format::Cell& of) {
  if (of.kind == format::CellKind::wall_timer) return 0;
  const int64_t now = tick();
  if (of.kind == format::CellKind::process_timer) return now;
  return wrapping(static_cast<uint64_t>(now) + static_cast<uint64_t>(*format::event(of.event)));
}

size_t TestWorld::symbol(const std::string& name) const {
  for (size_t i = 0; i < snippet_.symbols.size(); i++)
    if (snippet_.symbols[i].name == name) return i;
  return 0;
}

int64_t TestWorld::variable(const std::string& name) {
  const Variable& variable = inputs_.variables.at(symbol(name));
  return wrapping(static_cast<uint64_t>(variable.word) << variable.left) >> variable.right;
}

int64_t TestWorld::call(const std::string& function, const std::array<int64_t, 6>& arguments) {
  auto sum = static_cast<uint64_t>(inputs_.functions.at(symbol(function)));
  for (int64_t argument : arguments) sum = sum * 2 + static_cast<uint64_t>(argument);
  return wrapping(sum);
}

int64_t TestWorld::address(const format::Cell& of) {
  for (size_t i = 0; i < snippet_.cells.size(); i++)
    if (snippet_.cells[i].name == of.name) return block_ + block_offset(cell_word(i));
  return 0;
}

}  // namespace mdl::exec
