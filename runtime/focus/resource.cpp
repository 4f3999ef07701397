#include "runtime/focus/resource.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/focus/hints.h"
#include "runtime/focus/name_pattern.h"
#include "runtime/focus/nearest.h"
#include "runtime/process/target.h"

namespace mdl::focus {
namespace {

constexpr size_t kMostFoci = 262144;  // that one pattern may stand for

std::string join(const std::vector<std::string>& path) {
  std::string text;
  for (const std::string& component : path) text += '/' + component;
  return text;
}

Error cannot(const std::vector<std::string>& path, const std::string& why) {
  return {fmt::format("cannot select {}: {}", join(path), why), Status::failed};
}

Error no_module(const std::vector<std::string>& path, const Names& names) {
  const std::string& wanted = path[1];
  return cannot(
      path,
      fmt::format("the process has no object `{}`{}; if it will be loaded later, wait for it with --await{}",
                  wanted,
                  Names::may_be_source(wanted) ? " and no debug information that has such a source file" : "",
                  hint_for_object(names, wanted)));
}

Resource make(std::vector<std::string> path) {
  Resource resource;
  resource.text = join(path);
  resource.path = std::move(path);
  return resource;
}

// Why no module of a name has functions to instrument; nothing where one has. Code that is never seen is not
// code that is never called: it gets no line with a 0.
Result<void> check_modules(const std::vector<std::string>& path, const Names& names,
                           const std::vector<Module>& modules) {
  std::string why;
  for (const Module& module : modules)
    if (why = names.obstacle(module); why.empty()) return {};
  if (modules.empty()) return {};
  return cannot(path, why);
}

// Those that are named where none fits: the program and some of its libraries.
std::vector<std::string> first_objects(const Names& names) {
  constexpr size_t kMost = 8;
  std::vector<std::string> all = names.known_objects();
  const bool is_more = all.size() > kMost;
  if (is_more) all.resize(kMost);
  for (std::string& name : all) name = fmt::format("`{}`", name);
  if (is_more) all.push_back("...");
  return all;
}

// Objects of one name are one resource.
Result<std::vector<Resource>> fitting_objects(const std::vector<std::string>& path, const Names& names) {
  std::vector<Resource> found;
  for (const Module& module : names.modules_fitting(path[1])) {
    const std::string& name = module.object->name;
    auto same = std::find_if(found.begin(), found.end(),
                             [&](const Resource& resource) { return resource.path[1] == name; });
    if (same == found.end()) same = found.insert(found.end(), make({path[0], name}));
    same->modules.push_back(module);
    same->fitted = true;
  }
  if (!found.empty()) return found;
  for (const std::string& name : names.known_objects())
    if (fits(path[1], name))
      return cannot(path, fmt::format("a pattern does not stand for `{}`; name it: /Code/{}", name,
                                      path.size() == 2 ? name : name + "/" + path[2]));
  return cannot(path, fmt::format("no object of the process fits the pattern; it has {}",
                                  fmt::join(first_objects(names), ", ")));
}

Result<std::vector<Resource>> resolve_objects(const std::vector<std::string>& path, const Names& names,
                                              bool await) {
  std::vector<Resource> found;
  const std::string& wanted = path[1];
  if (auto modules = names.modules_named(wanted); !modules.empty()) {
    if (auto ok = check_modules(path, names, modules); !ok) return ok.error();
    found.push_back(make(path));
    found[0].modules = std::move(modules);
    return found;
  }
  if (!is_pattern(wanted) && await) return std::vector<Resource>{make(path)};
  if (!is_pattern(wanted)) return no_module(path, names);
  return fitting_objects(path, names);
}

Error no_function_fits(const std::vector<std::string>& path, const Names& names,
                       const std::vector<Module>& modules) {
  const std::string anywhere = "*::" + path[2];
  const bool is_qualified = std::ranges::any_of(
      modules, [&](const Module& module) { return !names.fitting_in(module, anywhere).empty(); });
  return cannot(path, "no function fits the pattern" +
                          (is_qualified ? fmt::format("; with its namespace or class: `{}`", anywhere) : ""));
}

std::vector<Resource> expand_functions(const std::vector<std::string>& path, const Names& names,
                                       const std::vector<Module>& modules) {
  std::vector<Resource> found;
  for (const Module& module : modules) {
    for (const Procedure& procedure : names.fitting_in(module, path[2])) {
      found.push_back(make({path[0], path[1], procedure.function->name}));
      found.back().modules = {module};
      found.back().procedures = {procedure};
      found.back().fitted = true;
    }
  }
  // Functions of one name are one resource.
  std::stable_sort(found.begin(), found.end(),
                   [](const Resource& a, const Resource& b) { return a.path[2] < b.path[2]; });
  std::vector<Resource> merged;
  for (Resource& resource : found) {
    if (merged.empty() || merged.back().path != resource.path) {
      merged.push_back(std::move(resource));
    } else {
      merged.back().procedures.push_back(resource.procedures[0]);
    }
  }
  return merged;
}

// What a path of a function means in objects of one name.
struct InObject {
  std::vector<Resource> resources;
  std::string obstacle;  // why a function that has the name is none of them
};

InObject look_in(const std::vector<std::string>& path, const Names& names,
                 const std::vector<Module>& modules) {
  InObject out;
  Resource resource = make(path);
  resource.modules = modules;
  for (const Module& module : modules) {
    for (const Procedure& procedure : names.named_in(module, path[2])) {
      const std::string why = names.obstacle(procedure);
      if (why.empty()) resource.procedures.push_back(procedure);
      if (!why.empty()) out.obstacle = why;
    }
  }
  if (!resource.procedures.empty())
    out.resources.push_back(std::move(resource));
  else if (out.obstacle.empty() && is_pattern(path[2]))
    out.resources = expand_functions(path, names, modules);
  return out;
}

// The functions in each object that a pattern stands for. Most objects have none, which is no error.
Result<std::vector<Resource>> resolve_in_each(const std::vector<std::string>& path, const Names& names) {
  auto objects = fitting_objects(path, names);
  if (!objects) return objects.error();
  std::vector<Resource> out;
  std::vector<Module> modules;
  std::string obstacle;
  for (const Resource& object : *objects) {
    InObject found = look_in({path[0], object.path[1], path[2]}, names, object.modules);
    for (Resource& resource : found.resources) {
      resource.fitted = true;
      out.push_back(std::move(resource));
    }
    if (!found.obstacle.empty()) obstacle = found.obstacle;
    modules.insert(modules.end(), object.modules.begin(), object.modules.end());
  }
  if (!out.empty()) return out;
  if (!obstacle.empty()) return cannot(path, obstacle);
  if (is_pattern(path[2])) return no_function_fits(path, names, modules);
  return cannot(path, fmt::format("no object that fits has a function `{}`{}", path[2],
                                  hint_for_function(names, modules, path[2])));
}

Result<std::vector<Resource>> resolve_functions(const std::vector<std::string>& path, const Names& names,
                                                bool await) {
  const auto modules = names.modules_named(path[1]);
  if (modules.empty()) {
    if (await && (is_pattern(path[1]) || is_pattern(path[2])) && names.modules_fitting(path[1]).empty())
      return cannot(path, "which functions a pattern stands for is not known before the object is there");
    if (is_pattern(path[1])) return resolve_in_each(path, names);
    if (await) return std::vector<Resource>{make(path)};
    return no_module(path, names);
  }
  if (auto ok = check_modules(path, names, modules); !ok) return ok.error();
  InObject found = look_in(path, names, modules);
  if (!found.resources.empty()) return std::move(found.resources);
  if (!found.obstacle.empty()) return cannot(path, found.obstacle);
  if (is_pattern(path[2])) return no_function_fits(path, names, modules);
  return cannot(path, fmt::format("`{}` has no function `{}`{}", path[1], path[2],
                                  hint_for_function(names, modules, path[2])));
}

constexpr const char* kEvery = "*";

Result<std::vector<Resource>> resolve_thread(const std::vector<std::string>& path, const Names& names) {
  if (path[1] == kEvery) return std::vector<Resource>{make(path)};
  const auto threads = process::live_threads(names.image().pid);
  for (const pid_t thread : threads)
    if (path[1] == fmt::format("{}", thread)) return std::vector<Resource>{make(path)};
  return cannot(path, fmt::format("process {} has no such thread; /Thread/* asks for each that it has",
                                  names.image().pid));
}

// The threads whose values a resolved resource of /Thread asks for.
int64_t thread_of(const Resource& resource) {
  if (resource.path[1] == kEvery) return kEachThread;
  return process::read_status(static_cast<pid_t>(std::stoi(resource.path[1]))).inner_pid;
}

Result<std::vector<Resource>> resolve_one(const std::vector<std::string>& path, const Names& names,
                                          bool await) {
  const std::string& hierarchy = path[0];
  if (hierarchy == "Code")
    return path.size() == 2 ? resolve_objects(path, names, await) : resolve_functions(path, names, await);
  if (hierarchy == "Process") {
    const std::string pid = fmt::format("{}", names.image().pid);
    if (!fits(path[1], pid)) return cannot(path, fmt::format("the process is {}", pid));
    return std::vector<Resource>{make({hierarchy, pid})};
  }
  if (hierarchy == "Machine") {
    const std::string host = host_name();
    if (!fits(path[1], host)) return cannot(path, fmt::format("the process runs on `{}`", host));
    return std::vector<Resource>{make({hierarchy, host})};
  }
  if (hierarchy == "Thread") return resolve_thread(path, names);
  if (path.back() == "*") {
    Resource every = make(path);
    every.every = true;
    return std::vector<Resource>{std::move(every)};
  }
  if (is_pattern(path.back()))
    return cannot(path,
                  fmt::format("the resources of /{} cannot be listed; name one, or all with *", hierarchy));
  return std::vector<Resource>{make(path)};
}

}  // namespace

std::string Resource::identity() const {
  if (path[0] != "Code" || modules.empty()) return text;
  std::string key;
  for (const Module& module : modules)
    key += fmt::format("{}{}.", static_cast<const void*>(module.object), module.source);
  for (const Procedure& p : procedures) key += fmt::format("{:x}.", p.function->address);
  return key;
}

std::string host_name() {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  return host;
}

Result<std::vector<ResolvedFocus>> resolve(const Focus& focus, const Names& names, bool await) {
  std::vector<ResolvedFocus> foci(1);
  for (const std::vector<std::string>& path : focus.resources) {
    auto choices = resolve_one(path, names, await);
    if (!choices) return choices.error();
    if (choices->size() * foci.size() > kMostFoci)
      return cannot(
          path, fmt::format("it stands for {} resources, more than the limit of {}; use a narrower pattern",
                            choices->size() * foci.size(), kMostFoci));
    std::vector<ResolvedFocus> next;
    for (const ResolvedFocus& focus_so_far : foci) {
      for (const Resource& resource : *choices) {
        ResolvedFocus longer = focus_so_far;
        longer.text += (longer.text.empty() ? "" : ",") + resource.text;
        if (path[0] == "Thread")
          longer.thread = thread_of(resource);
        else
          longer.code_text += (longer.code_text.empty() ? "" : ",") + resource.text;
        if (path[0] != "Process" && path[0] != "Machine" && path[0] != "Thread")
          longer.resources.push_back(resource);
        next.push_back(std::move(longer));
      }
    }
    foci = std::move(next);
  }
  return foci;
}

}  // namespace mdl::focus
