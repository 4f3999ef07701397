// The functions of a process by name: what lists, foci and $procedures mean in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/focus/exclusion.h"
#include "runtime/image/debug_info.h"
#include "runtime/image/image.h"

namespace mdl::focus {

struct Procedure {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  bool operator==(const Procedure&) const = default;
};

// An object, or the part of it that comes from one source file, as debug information has it.
struct Module {
  const image::Object* object = nullptr;
  std::string source;  // the file's name; "" for the whole object
  bool operator==(const Module&) const = default;
};

// Points into the image, which must outlive it.
class Names {
 public:
  Names(const image::Image& image, Exclusions exclusions);

  const image::Image& image() const { return image_; }

  // $procedures: every function but those of ld.so, those with their own calling
  // convention, IFUNC resolvers, and what the plan excludes.
  const std::vector<Procedure>& procedures() const;
  // The same of one module (m.funcs), which may be ld.so.
  std::vector<Procedure> functions_of(const Module& module) const;
  // $modules: the objects but ld.so, Go code, and what the plan excludes.
  std::vector<Module> modules() const;

  // Every function that `name` names, in all objects, or in one when it is written
  // module/function. May hold functions that must not be instrumented: see obstacle().
  std::vector<Procedure> named(std::string_view name) const;
  std::vector<Procedure> named_in(const Module& module, std::string_view name) const;
  // Those of $procedures, or of one module, that the pattern fits: by linkage name, or demangled with parameters or
  // without. In `lib*/get*` the object is a pattern, too.
  std::vector<Procedure> fitting(std::string_view pattern) const;
  std::vector<Procedure> fitting_in(const Module& module, std::string_view pattern) const;
  // Of all patterns so far: functions that a compiler has made of those that fit, and that do not fit themselves
  // (clones.h).
  const std::vector<Procedure>& clones_of_fitting() const { return clones_of_fitting_; }
  // Those of $modules that the pattern fits.
  std::vector<Module> modules_fitting(std::string_view pattern) const;
  // Objects; where none has the name and it can be one, source files.
  std::vector<Module> modules_named(std::string_view name) const;
  // The same, or those that fit where it is a pattern and no name.
  std::vector<Module> modules_of(std::string_view object) const;
  // "db.c" may, "libm.so.7" may not: for a library's name that was typed wrong, no debug information is read.
  static bool may_be_source(std::string_view name);

  // Why a function must not be instrumented even when it is named; "" when it may be.
  std::string obstacle(const Procedure& procedure) const;
  // The same of all functions of a module.
  std::string obstacle(const Module& module) const;

  std::vector<std::string> known_objects() const;
  std::vector<std::string> known_functions(const Module& module) const;

  image::DebugInfo& debug_info() const { return debug_info_; }

 private:
  // All of a module's functions, also those that must not be instrumented.
  std::vector<const image::Function*> all_of(const Module& module) const;
  const std::vector<Procedure>& functions_named(std::string_view name) const;
  // Calls `look` for each function that has a symbol.
  void for_each(llvm::function_ref<void(const Procedure&)> look) const;
  void make_index() const;

  const image::Image& image_;
  mutable image::DebugInfo debug_info_;  // read when it is asked for
  Exclusions exclusions_;
  mutable std::optional<std::vector<Procedure>> procedures_;  // made when they are asked for
  struct Index {
    // Linkage names and aliases; several objects may have the same.
    std::unordered_multimap<std::string_view, Procedure> by_name;
    std::vector<Procedure> mangled;  // those that can match by a demangled name as well
  };
  mutable std::vector<Procedure> clones_of_fitting_;
  mutable std::optional<Index> index_;  // made when more than a few names are asked for
  mutable std::unordered_map<std::string, std::vector<Procedure>>
      found_;  // what functions_named() has answered
};

}  // namespace mdl::focus
