#include "runtime/focus/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/focus/clones.h"
#include "runtime/focus/name_pattern.h"

namespace mdl::focus {
namespace {

// A name that a function without a symbol may have (image/unnamed.h).
bool may_be_unnamed(std::string_view name) {
  return name == "_start" || name.starts_with("sub_");
}

using image::is_mangled;

bool may_be_mangled(const image::Function& function) {
  return is_mangled(function.name) || std::ranges::any_of(function.aliases, is_mangled);
}

// In the image's order, each once: the order must not depend on hashing.
void normalize(std::vector<Procedure>& found) {
  std::sort(found.begin(), found.end(), [](const Procedure& a, const Procedure& b) {
    return a.object != b.object ? std::less<>()(a.object, b.object) : std::less<>()(a.function, b.function);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
}

// "a<b<int> >" as "a<b<int>>", as we demangle it: other tools put a blank there.
std::string without_blanks(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); i++)
    if (name[i] != ' ' || !name.substr(0, i).ends_with('>') || !name.substr(i + 1).starts_with('>'))
      out += name[i];
  return out;
}

// By the linkage name, or the demangled one with its parameters or without.
bool fits_function(const std::string& pattern, const std::string& name) {
  if (fits(pattern, name)) return true;
  const image::DemangledName demangled = image::demangle(name);
  return fits(pattern, demangled.plain) || fits(pattern, demangled.full);
}

}  // namespace

Names::Names(const image::Image& image, Exclusions exclusions)
    : image_(image), debug_info_(image), exclusions_(std::move(exclusions)) {}

void Names::for_each(llvm::function_ref<void(const Procedure&)> look) const {
  for (const image::Object& object : image_.objects)
    for (const image::Function& function : object.functions.named()) look({&object, &function});
}

void Names::make_index() const {
  index_.emplace();
  size_t count = 0;
  for (const image::Object& object : image_.objects) count += object.functions.named().size();
  index_->by_name.reserve(count + count / 4);
  for_each([&](const Procedure& procedure) {
    index_->by_name.emplace(procedure.function->name, procedure);
    for (const std::string& alias : procedure.function->aliases) index_->by_name.emplace(alias, procedure);
    if (may_be_mangled(*procedure.function)) index_->mangled.push_back(procedure);
  });
}

const std::vector<Procedure>& Names::procedures() const {
  if (procedures_) return *procedures_;
  procedures_.emplace();
  for (const image::Object& object : image_.objects) {
    if (object.is_loader) continue;
    const std::vector<Procedure> own = functions_of({&object, ""});
    procedures_->insert(procedures_->end(), own.begin(), own.end());
  }
  return *procedures_;
}

std::vector<const image::Function*> Names::all_of(const Module& module) const {
  if (!module.source.empty()) return debug_info_.functions_of_source(*module.object, module.source);
  std::vector<const image::Function*> all;
  all.reserve(module.object->functions.size());
  for (const image::Function& function : module.object->functions) all.push_back(&function);
  return all;
}

std::vector<Procedure> Names::functions_of(const Module& module) const {
  const image::Object& object = *module.object;
  std::vector<Procedure> found;
  if (object.is_go) return found;
  for (const image::Function* function : all_of(module))
    if (!function->is_ifunc && own_abi(object, *function) == OwnAbi::no &&
        !exclusions_.excludes(object, *function))
      found.push_back({&object, function});
  return found;
}

std::vector<Module> Names::modules() const {
  std::vector<Module> found;
  for (const image::Object& object : image_.objects)
    if (!object.is_loader && !object.is_go && !exclusions_.excludes(object)) found.push_back({&object, ""});
  return found;
}

// A list is evaluated for each child of a focus with `*`, and looking through a large program's mangled names
// takes milliseconds: what was found is kept, and a name that is a linkage name is not demangled to.
const std::vector<Procedure>& Names::functions_named(std::string_view name) const {
  constexpr size_t kFew = 8;  // names that are found faster without an index
  const auto [known, is_new] = found_.try_emplace(without_blanks(name));
  std::vector<Procedure>& found = known->second;
  if (!is_new) return found;
  name = known->first;
  if (may_be_unnamed(name)) image::want_all(image_);
  if (!index_ && found_.size() > kFew) make_index();
  const image::NameTest is_named(name);
  const auto add_matching = [&](const Procedure& procedure) {
    if (is_named(*procedure.function)) found.push_back(procedure);
  };
  if (index_) {
    const auto [first, last] = index_->by_name.equal_range(name);
    for (auto entry = first; entry != last; ++entry) found.push_back(entry->second);
    if (found.empty() || !is_mangled(name)) std::ranges::for_each(index_->mangled, add_matching);
  } else {
    for_each(add_matching);
  }
  normalize(found);
  for (const Procedure& procedure : found) (void)procedure.object->functions.all();
  return found;
}

std::vector<Procedure> Names::fitting_in(const Module& module, std::string_view typed) const {
  const std::string pattern = without_blanks(typed);
  std::vector<Procedure> found = functions_of(module);
  std::erase_if(found, [&](const Procedure& procedure) {
    const std::string& name = procedure.function->name;
    if (fits_function(pattern, name)) return false;
    if (const std::string_view original = cloned_from(name);
        !original.empty() && fits_function(pattern, std::string(original)))
      clones_of_fitting_.push_back(procedure);
    return true;
  });
  return found;
}

std::vector<Module> Names::modules_fitting(std::string_view pattern) const {
  std::vector<Module> found = modules();
  std::erase_if(found, [&](const Module& module) { return !fits(pattern, module.object->name); });
  return found;
}

std::vector<Module> Names::modules_of(std::string_view object) const {
  std::vector<Module> named = modules_named(object);
  return named.empty() && is_pattern(object) ? modules_fitting(object) : named;
}

std::vector<Procedure> Names::fitting(std::string_view pattern) const {
  const size_t slash = pattern.find('/');
  std::vector<Module> modules = this->modules();
  if (slash != std::string_view::npos)
    if (auto named = modules_of(pattern.substr(0, slash)); !named.empty()) {
      modules = std::move(named);
      pattern.remove_prefix(slash + 1);
    }
  std::vector<Procedure> found;
  for (const Module& module : modules) {
    const std::vector<Procedure> inside =
        is_pattern(pattern) ? fitting_in(module, pattern) : named_in(module, pattern);
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

std::vector<Procedure> Names::named(std::string_view name) const {
  const size_t slash = name.find('/');
  if (slash != std::string_view::npos) {
    const auto modules = modules_named(name.substr(0, slash));
    std::vector<Procedure> found;
    for (const Module& module : modules) {
      const auto inside = named_in(module, name.substr(slash + 1));
      found.insert(found.end(), inside.begin(), inside.end());
    }
    if (!modules.empty()) return found;  // else a name with a slash in it, such as operator/
  }
  return functions_named(name);
}

std::vector<Procedure> Names::named_in(const Module& module, std::string_view name) const {
  std::vector<Procedure> found = functions_named(name);
  std::erase_if(found, [&](const Procedure& procedure) { return procedure.object != module.object; });
  if (module.source.empty() || found.empty()) return found;
  const std::vector<const image::Function*> part = all_of(module);
  std::erase_if(found, [&](const Procedure& procedure) {
    return std::find(part.begin(), part.end(), procedure.function) == part.end();
  });
  return found;
}

bool Names::may_be_source(std::string_view name) {
  return name.find('.') != name.npos && name.find(".so") == name.npos && name.find('/') == name.npos;
}

std::vector<Module> Names::modules_named(std::string_view name) const {
  std::vector<Module> found;
  for (const image::Object& object : image_.objects)
    if (object.name == name ||
        std::find(object.aliases.begin(), object.aliases.end(), name) != object.aliases.end())
      found.push_back({&object, ""});
  if (!found.empty() || !may_be_source(name)) return found;
  for (const image::Object& object : image_.objects)
    if (!debug_info_.functions_of_source(object, name).empty()) found.push_back({&object, std::string(name)});
  return found;
}

std::string Names::obstacle(const Module& module) const {
  if (module.object->is_go)
    return "it is Go code: its stacks move, and a function that needs a larger one begins again";
  if (module.object->is_mono) return "it is code of Mono, whose run-time system reads the calls in it";
  return "";
}

std::string Names::obstacle(const Procedure& procedure) const {
  if (procedure.function->is_ifunc)
    return "it is an IFUNC, and no one has called it yet: its implementation is chosen at the first call";
  if (std::string why = obstacle(Module{procedure.object, ""}); !why.empty()) return why;
  if (own_abi(*procedure.object, *procedure.function) == OwnAbi::never)
    return is_haskell(*procedure.object, *procedure.function)
               ? "it is code of GHC (Haskell): its stack is not the processor's, and data lie in it"
               : "it does not follow the calling convention";
  if (exclusions_.excludes(*procedure.object, *procedure.function)) return "the plan excludes it";
  return "";
}

std::vector<std::string> Names::known_objects() const {
  std::vector<std::string> names;
  for (const image::Object& object : image_.objects) names.push_back(object.name);
  return names;
}

std::vector<std::string> Names::known_functions(const Module& module) const {
  std::vector<std::string> names;
  for (const image::Function* function : all_of(module)) {
    names.push_back(function->name);
    if (is_mangled(function->name)) names.push_back(image::demangle(function->name).plain);
  }
  return names;
}

}  // namespace mdl::focus
