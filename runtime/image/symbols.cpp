#include "runtime/image/symbols.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "runtime/image/object.h"

namespace mdl::image {
namespace {

// OBJECT/NAME, or NAME in any object. Names of C++ may hold a slash only in operator/.
struct Wanted {
  std::string object, name;
};
Wanted split(const std::string& text) {
  size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || text.compare(0, slash, "operator") == 0 ||
      text.find("::operator") < slash)
    return {"", text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

bool is_named(const Object& object, const std::string& name) {
  return object.name == name ||
         std::find(object.aliases.begin(), object.aliases.end(), name) != object.aliases.end();
}

bool names_symbol(std::string_view symbol, const std::string& wanted) {
  if (symbol == wanted) return true;
  if (!symbol.starts_with("_Z")) return false;
  return demangle(std::string(symbol)).full == wanted;
}

struct Found {
  const Object* object = nullptr;
  uint64_t address = 0;
  uint64_t size = 0;
  uint8_t type = 0;
};

std::vector<Found> variables_in(const ElfFile& file, const Object& object, const std::string& name) {
  std::map<uint64_t, Found> found;  // by address: one variable may have several names and tables
  for (uint32_t table : {SHT_SYMTAB, SHT_DYNSYM}) {
    SymbolTable symbols = file.symbols(table);
    for (const ElfSymbol& symbol : symbols.symbols) {
      bool variable = symbol.type == STT_OBJECT || symbol.type == STT_TLS || symbol.type == STT_NOTYPE;
      if (!variable || symbol.section == SHN_UNDEF || symbol.section == SHN_ABS) continue;
      if (names_symbol(symbol.name, name))
        found.try_emplace(symbol.address,
                          Found{&object, object.bias + symbol.address, symbol.size, symbol.type});
    }
  }
  std::vector<Found> out;
  for (const auto& [address, one] : found) out.push_back(one);
  return out;
}

Error cannot(const std::string& name, const std::string& why) {
  return {fmt::format("cannot use `{}` of the application: {}", name, why)};
}

// The one of several definitions that is meant.
Result<Found> choose(const std::string& name, const std::vector<Found>& found) {
  if (found.empty()) return cannot(name, "no object of the process has such a symbol");
  if (found.size() == 1 || (found[0].object->is_main && !found[1].object->is_main)) return found[0];
  std::vector<std::string> places;
  for (const Found& one : found) places.push_back(fmt::format("{} at {:#x}", one.object->name, one.address));
  return cannot(name, fmt::format("it is defined {} times ({}); name one as OBJECT/{}", found.size(),
                                  fmt::join(places, ", "), name));
}

// Libraries that the program needs, and those that these need, are there as long as the program is. Any other
// was loaded by dlopen, and may be unloaded at any moment: its memory would be gone under the code that reads
// it.
bool stays(const Image& image, const Object& wanted) {
  std::set<const Object*> known;
  std::vector<const Object*> open;
  const auto add = [&](const Object& object) {
    if (known.insert(&object).second) open.push_back(&object);
  };
  for (const Object& object : image.objects)
    if (object.is_main || object.is_loader) add(object);
  while (!open.empty() && !known.contains(&wanted)) {
    const Object& object = *open.back();
    open.pop_back();
    auto file = open_object(image, object);
    if (!file) continue;
    for (const std::string& needed : file->needed()) {  // by a path where the library has no soname
      const std::string name = needed.substr(needed.rfind('/') + 1);
      for (const Object& other : image.objects)
        if (is_named(other, name)) add(other);
    }
  }
  return known.contains(&wanted);
}

Error may_go(const std::string& name, const Object& object) {
  return cannot(name, fmt::format("the program has loaded {} while it ran, and may unload it at any moment",
                                  object.name));
}

bool is_readable(const Image& image, uint64_t address) {
  return std::any_of(image.mappings.begin(), image.mappings.end(), [&](const Mapping& mapping) {
    return mapping.read && address >= mapping.start && address < mapping.end;
  });
}

}  // namespace

Result<Variable> find_variable(const Image& image, const std::string& name) {
  Wanted wanted = split(name);
  std::vector<Found> found;
  for (const Object& object : image.objects) {
    if (!object.problem.empty() || (!wanted.object.empty() && !is_named(object, wanted.object))) continue;
    auto file = open_object(image, object);
    if (!file) continue;
    for (const Found& one : variables_in(*file, object, wanted.name)) found.push_back(one);
    if (object.is_main && !found.empty()) break;  // that one is meant
  }
  auto one = choose(name, found);
  if (!one) return one.error();
  if (one->type == STT_TLS) return cannot(name, "it is a variable of each thread (thread-local)");
  if (one->size != 1 && one->size != 2 && one->size != 4 && one->size != 8)
    return cannot(name, fmt::format("it has {} bytes; an integer has 1, 2, 4 or 8", one->size));
  if (one->address % 8 + one->size > 8)
    return cannot(name, fmt::format("at {:#x} it does not lie in 8 aligned bytes", one->address));
  if (!is_readable(image, one->address)) return cannot(name, "its memory cannot be read");
  if (!stays(image, *one->object)) return may_go(name, *one->object);
  return Variable{one->address, one->size};
}

Result<uint64_t> find_callee(const Image& image, const std::string& name) {
  const Wanted wanted = split(name);
  const NameTest is_wanted(wanted.name);
  std::vector<Found> found;
  bool chosen_late = false;
  for (const Object& object : image.objects) {
    if (object.is_loader || (!wanted.object.empty() && !is_named(object, wanted.object))) continue;
    for (const Function& function : object.functions.named()) {
      if (!is_wanted(function)) continue;
      chosen_late |= function.is_ifunc;
      if (!function.is_ifunc) found.push_back({&object, function.address, function.size, STT_FUNC});
    }
    if (object.is_main && !found.empty()) break;
  }
  if (found.empty() && chosen_late)
    return cannot(name, "its implementation is chosen when the process starts (IFUNC): name that one");
  auto one = choose(name, found);
  if (!one) return one.error();
  if (!stays(image, *one->object)) return may_go(name, *one->object);
  return one->address;
}

}  // namespace mdl::image
