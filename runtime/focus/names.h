// The functions of a process by name: what lists, foci and $procedures mean in it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "runtime/focus/exclusion.h"
#include "runtime/image/image.h"

namespace mdl::focus {

struct Procedure {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  bool operator==(const Procedure&) const = default;
};

// Points into the image, which must outlive it.
class Names {
 public:
  Names(const image::Image& image, Exclusions exclusions);

  const image::Image& image() const { return image_; }

  // $procedures: every function but those of ld.so, those with their own calling
  // convention, IFUNC resolvers, and what the plan excludes.
  const std::vector<Procedure>& procedures() const { return procedures_; }
  // The same of one object (m.funcs), which may be ld.so.
  std::vector<Procedure> functions_of(const image::Object& object) const;
  // $modules: the objects but ld.so and what the plan excludes.
  std::vector<const image::Object*> modules() const;

  // Every function that `name` names, in all objects, or in one when it is written
  // object/function. May hold functions that must not be instrumented: see obstacle().
  std::vector<Procedure> named(std::string_view name) const;
  std::vector<Procedure> named_in(const image::Object& object, std::string_view name) const;
  std::vector<const image::Object*> objects_named(std::string_view name) const;

  // Why a function must not be instrumented even when it is named; "" when it may be.
  std::string obstacle(const Procedure& procedure) const;

  std::vector<std::string> known_objects() const;
  std::vector<std::string> known_functions(const image::Object& object) const;

 private:
  const std::vector<Procedure>& functions_named(std::string_view name) const;

  const image::Image& image_;
  Exclusions exclusions_;
  std::vector<Procedure> procedures_;
  // Linkage names and aliases; several objects may have the same.
  std::unordered_multimap<std::string_view, Procedure> by_name_;
  mutable std::unordered_map<std::string, std::vector<Procedure>>
      found_;                       // what functions_named() has answered
  std::vector<Procedure> mangled_;  // those that can match by a demangled name as well
};

}  // namespace mdl::focus
