#include "runtime/image/codes.h"

#include "runtime/image/object.h"

namespace mdl::image {

Code Codes::read(const Object& object, const Function& function) const {
  auto code = read_code(image_, object, function, memory_);
  const bool is_over = object.budget->is_spent();
  if (code && !is_over) return std::move(*code);
  Code out;
  out.complete = false;
  out.doubt = is_over ? over_budget(object) : code.error().text;
  return out;
}

const Code& Codes::of(const Object& object, const Function& function) {
  {
    std::lock_guard lock(mutex_);
    if (auto known = known_.find(&function); known != known_.end()) return known->second;
  }
  Code code = read(object, function);
  std::lock_guard lock(mutex_);
  return known_.try_emplace(&function, std::move(code)).first->second;
}

Code Codes::take(const Object& object, const Function& function) {
  {
    std::lock_guard lock(mutex_);
    if (auto node = known_.extract(&function)) return std::move(node.mapped());
  }
  return read(object, function);
}

}  // namespace mdl::image
