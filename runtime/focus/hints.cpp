#include "runtime/focus/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "runtime/focus/name_pattern.h"
#include "runtime/focus/nearest.h"

namespace mdl::focus {
namespace {

// "; the compiler has inlined it into `a`, `b` and 3 more, ...", where debug information says so.
std::string say_inlined(const Names& names, const std::vector<Module>& modules, const std::string& name) {
  constexpr size_t kMost = 3;
  constexpr auto kLongest = std::chrono::seconds(3);  // somebody waits for the message
  const auto until = std::chrono::steady_clock::now() + kLongest;
  const std::string bare = name.substr(name.rfind('/') + 1);
  for (const Module& module : modules) {
    if (std::chrono::steady_clock::now() > until) break;
    const std::vector<std::string> holders = names.debug_info().holders(*module.object, bare);
    if (holders.empty()) continue;
    std::string text =
        fmt::format("; the compiler has inlined it into `{}`", image::demangle(holders[0]).plain);
    for (size_t i = 1; i < std::min(kMost, holders.size()); ++i)
      text += fmt::format(", `{}`", image::demangle(holders[i]).plain);
    if (holders.size() > kMost) text += fmt::format(" and {} more", holders.size() - kMost);
    return text + ", and calls of it cannot be counted";
  }
  return "";
}

// Those of the linker's files are no names of the program's own.
bool is_own_name(const image::Function& function) {
  return !function.unnamed && function.name != "_init" && function.name != "_fini" &&
         function.name != "_start";
}

std::string say_stripped(const std::vector<Module>& modules) {
  const auto program = std::ranges::find_if(modules, [](const Module& one) { return one.object->is_main; });
  if (program == modules.end() || std::ranges::any_of(program->object->functions.named(), is_own_name))
    return "";
  const std::string& name = program->object->name;
  if (program->object->functions.named().empty() && !program->object->frame_table)
    return fmt::format(
        "; nothing says where functions of {} begin: it has neither symbols of that type (nasm: `global "
        "f:function`) nor call frame information",
        name);
  return fmt::format(
      "; {} is stripped of its symbols, so its functions are called by their addresses, sub_1234: "
      "/Code/{}/* has all of them",
      name, name);
}

// By the beginning of the name of an object.
struct Interpreter {
  std::string_view object, language;
};
constexpr Interpreter kInterpreters[] = {
    {"libjvm.so", "Java"},  {"python", "Python"},      {"libpython", "Python"},
    {"node", "JavaScript"}, {"libnode", "JavaScript"}, {"ruby", "Ruby"},
    {"libruby", "Ruby"},    {"perl", "Perl"},          {"php", "PHP"}};

std::string say_interpreted(const std::vector<Module>& modules) {
  for (const Interpreter& row : kInterpreters)
    for (const Module& module : modules)
      if (module.object->name.starts_with(row.object))
        return fmt::format(
            "; what is written in {} is run by {} and has no functions of its own in the process: those of "
            "{} and "
            "of libraries can be measured",
            row.language, module.object->name, module.object->name);
  return "";
}

}  // namespace

std::string hint_for_object(const Names& names, const std::string& wanted) {
  const std::vector<std::string> known = names.known_objects();
  for (const std::string& one : known)
    if (one.size() > wanted.size() && one.starts_with(wanted) &&
        (one[wanted.size()] == '.' || one[wanted.size()] == '-'))
      return fmt::format("; did you mean `{}`?", one);
  return did_you_mean(wanted, known);
}

std::string hint_for_function(const Names& names, const std::vector<Module>& modules,
                              const std::string& wanted) {
  // A name that is written as in such a language, `Shop.sell`, is no function's.
  const std::string interpreted = say_interpreted(modules);
  if (!interpreted.empty() && wanted.find('.') != wanted.npos) return interpreted;
  if (std::string inlined = say_inlined(names, modules, wanted); !inlined.empty()) return inlined;
  std::vector<std::string> known;
  for (const Module& module : modules) {
    const auto functions = names.known_functions(module);
    known.insert(known.end(), functions.begin(), functions.end());
  }
  const std::string near = did_you_mean_function(wanted, known);
  return near + (interpreted.empty() ? say_stripped(modules) : interpreted);
}

bool is_there(const Names& names, const std::string& missing) {
  const size_t why = missing.find(" (");
  return why != missing.npos && !names.named(missing.substr(0, why)).empty();
}

std::string hint_for_missing(const Names& names, const std::string& missing) {
  const size_t slash = missing.rfind('/');
  std::vector<Module> modules;
  if (slash != std::string::npos) {
    const std::string object = missing.substr(0, slash);
    modules = names.modules_of(object);
    if (modules.empty())
      return fmt::format("; {} `{}`{}", is_pattern(object) ? "no object fits" : "it has no object", object,
                         hint_for_object(names, object));
  } else {
    for (const image::Object& object : names.image().objects) modules.push_back({&object, ""});
  }
  return hint_for_function(names, modules, missing.substr(slash + 1));
}

}  // namespace mdl::focus
