#include "runtime/image/chosen.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "llvm/BinaryFormat/ELF.h"
#include "runtime/arch/description.h"
#include "runtime/image/object.h"

namespace mdl::image {
namespace {

namespace elf = llvm::ELF;

// Names by the address of what was chosen for them.
using Chosen = std::map<uint64_t, std::set<std::string>>;

uint64_t slot_value(const Object& object, const Relocation& relocation, const Memory& memory) {
  uint64_t value = 0;
  if (!memory.read(object.bias + relocation.address, std::as_writable_bytes(std::span(&value, 1)))) return 0;
  return value;
}

Function* starting_at(Object& object, uint64_t address) {
  std::vector<Function>& functions = object.functions.list();
  auto found =
      std::lower_bound(functions.begin(), functions.end(), address,
                       [](const Function& function, uint64_t value) { return function.address < value; });
  return found != functions.end() && found->address == address ? &*found : nullptr;
}

void add_names(const Function& resolver, std::set<std::string>& names) {
  names.insert(resolver.name);
  names.insert(resolver.aliases.begin(), resolver.aliases.end());
}

// By the object's own slots: their relocation holds the resolver's address.
void choose_by_resolver(Object& object, const std::vector<Relocation>& relocations, const Memory& memory,
                        Chosen& chosen) {
  for (const Relocation& relocation : relocations) {
    if (relocation.type != arch::kMachine.relocations.irelative) continue;
    const Function* resolver = starting_at(object, object.bias + relocation.addend);
    if (resolver && resolver->is_ifunc) add_names(*resolver, chosen[slot_value(object, relocation, memory)]);
  }
}

// By the slots of whoever calls it by name.
void choose_by_name(const Object& user, const ElfFile& file, const std::vector<Relocation>& relocations,
                    const std::unordered_set<std::string_view>& wanted, const Memory& memory,
                    Chosen& chosen) {
  const SymbolTable symbols = file.symbols(elf::SHT_DYNSYM);
  const auto& types = arch::kMachine.relocations;
  for (const Relocation& relocation : relocations) {
    if (relocation.type != types.jump_slot && relocation.type != types.glob_dat) continue;
    if (relocation.symbol >= symbols.symbols.size()) continue;
    const std::string_view name = symbols.symbols[relocation.symbol].name;
    if (wanted.contains(name)) chosen[slot_value(user, relocation, memory)].emplace(name);
  }
}

void name_functions(Object& object, const std::set<std::string_view>& own, const Chosen& chosen) {
  for (const auto& [address, names] : chosen) {
    Function* function = starting_at(object, address);
    if (!function || function->is_ifunc) continue;
    for (const std::string& name : names) {
      if (!own.contains(name) || name == function->name) continue;
      if (function->unnamed) {
        function->name = name;
        function->unnamed = false;
      } else {
        function->aliases.push_back(name);
      }
    }
    std::sort(function->aliases.begin(), function->aliases.end());
    function->aliases.erase(std::unique(function->aliases.begin(), function->aliases.end()),
                            function->aliases.end());
  }
}

}  // namespace

void name_chosen_implementations(Image& image, const Memory& memory) {
  std::vector<std::set<std::string_view>> own(image.objects.size());
  std::unordered_set<std::string_view> wanted;
  // Copies: the names of functions change below.
  std::set<std::string> texts;
  for (size_t i = 0; i < image.objects.size(); ++i)
    for (const Function& function : image.objects[i].functions.named()) {
      if (!function.is_ifunc) continue;
      std::set<std::string> names;
      add_names(function, names);
      for (const std::string& name : names) {
        const std::string_view kept = *texts.insert(name).first;
        own[i].insert(kept);
        wanted.insert(kept);
      }
    }
  if (wanted.empty()) return;
  Chosen chosen;
  for (Object& object : image.objects.own()) {
    if (!object.problem.empty()) continue;
    auto file = open_object(image, object);
    if (!file) continue;
    const std::vector<Relocation> relocations = file->relocations();
    choose_by_resolver(object, relocations, memory, chosen);
    choose_by_name(object, *file, relocations, wanted, memory, chosen);
  }
  for (size_t i = 0; i < image.objects.size(); ++i)
    if (!own[i].empty()) name_functions(image.objects.own()[i], own[i], chosen);
}

}  // namespace mdl::image
