// The functions of an ELF file that have symbols: of .symtab, of its separate debug file, and of .dynsym,
// merged by address.
//
// A compiler that splits a function leaves `f` and `f.cold` (GCC before 9: `f.cold.N`). The
// second is a part of the first, found by name. Several local functions may have one name;
// the STT_FILE symbol before them tells which `f` and `f.cold` belong together, and where that
// does not, `f.cold` stays a function of its own, and read_code finds out by its jumps.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "llvm/BinaryFormat/ELF.h"
#include "runtime/arch/decoder.h"
#include "runtime/image/frames.h"
#include "runtime/image/object.h"
#include "runtime/image/versions.h"

namespace mdl::image {
namespace {

namespace elf = llvm::ELF;

constexpr std::string_view kCold = ".cold";

struct Symbol {
  uint64_t address = 0, size = 0;
  std::string_view name;
  uint32_t file = 0;  // number of the STT_FILE symbol before a local one, 0 for others
  uint32_t order = 0;
  bool is_local = false, is_ifunc = false;
  std::string_view version = {};
};

// Where code is, in virtual addresses, with what bounds a symbol that has no size.
class CodeRanges {
 public:
  explicit CodeRanges(const ElfFile& file) : sections_(file.sections()) {
    for (const Segment& segment : file.segments())
      if (segment.type == elf::PT_LOAD && (segment.flags & elf::PF_X))
        segments_.push_back({segment.address, segment.address + segment.memory_size});
  }

  // The end of the section, or else of the segment; 0 when the symbol is not in code, or names a stub of the
  // linkage table (`f@plt`): it is not f. Without the suffix it is an indirect function's only name.
  uint64_t end_for(const ElfSymbol& symbol) const {
    uint64_t segment_end = 0;
    for (const Range& range : segments_)
      if (range.contains(symbol.address)) segment_end = range.end;
    if (symbol.section >= sections_.size() || symbol.section >= elf::SHN_LORESERVE) return segment_end;
    const Section& section = sections_[symbol.section];
    if (!(section.flags & elf::SHF_EXECINSTR)) return 0;
    if (section.is_linkage_table() && symbol.name.find('@', 1) != symbol.name.npos) return 0;
    uint64_t end = section.address + section.size;
    return symbol.address < end ? std::min(segment_end, end) : segment_end;
  }

 private:
  const std::vector<Section>& sections_;
  std::vector<Range> segments_;
};

void collect(const SymbolTable& table, const CodeRanges& code, uint64_t bias, std::vector<Symbol>& symbols,
             std::vector<uint64_t>& limits, std::span<const std::string_view> versions = {}) {
  uint32_t file_number = 0;
  for (size_t i = 0; i < table.symbols.size(); ++i) {
    const ElfSymbol& entry = table.symbols[i];
    if (entry.type == elf::STT_FILE) ++file_number;
    if (entry.type != elf::STT_FUNC && entry.type != elf::STT_GNU_IFUNC) continue;
    if (entry.section == elf::SHN_UNDEF || entry.name.empty()) continue;
    uint64_t end = code.end_for(entry);
    if (end == 0) continue;
    bool is_local = entry.binding == elf::STB_LOCAL;
    // A version ("memcpy@@GLIBC_2.14" in .symtab) is not part of the name.
    std::string_view name = entry.name.substr(0, entry.name.find('@', 1));
    symbols.push_back({entry.address + bias, std::min(entry.size, end - entry.address), name,
                       is_local ? file_number : 0, static_cast<uint32_t>(symbols.size()), is_local,
                       entry.type == elf::STT_GNU_IFUNC,
                       i < versions.size() ? versions[i] : std::string_view()});
    limits.push_back(end + bias);
  }
}

// Names of entries in clang's tables of jumps become names of the code that they lead to (arch/decoder.h),
// for functions that have their own name there: `f.cfi_jt` leads to f, or out of the file. A table's own
// symbol is none.
void leave_out_cfi_entries(const ElfFile& file, uint64_t bias, std::vector<Symbol>& symbols) {
  constexpr std::string_view kCode = ".cfi", kEntry = ".cfi_jt", kTable = "_global_addr";
  std::unordered_map<std::string_view, std::vector<uint64_t>> codes;  // by the name of their entry
  bool has_entries = false;
  for (const Symbol& symbol : symbols) {
    has_entries |= symbol.name.ends_with(kEntry);
    if (symbol.name.ends_with(kCode))
      codes[symbol.name.substr(0, symbol.name.size() - kCode.size())].push_back(symbol.address);
  }
  if (codes.empty() && !has_entries) return;
  for (auto& [name, places] : codes) std::sort(places.begin(), places.end());
  std::erase_if(symbols, [&](Symbol& symbol) {
    const bool is_own = symbol.name.ends_with(kEntry) ||
                        (symbol.name.starts_with("__typeid_") && symbol.name.ends_with(kTable));
    auto code = codes.find(symbol.name);
    if (!is_own && code == codes.end()) return false;
    const std::optional<arch::CfiEntry> entry =
        arch::read_cfi_entry(file.at_address(symbol.address - bias, arch::kMostOfStub), symbol.address);
    if (!entry || is_own) return entry.has_value();
    if (!std::binary_search(code->second.begin(), code->second.end(), entry->target)) return false;
    symbol.address = entry->target;
    symbol.size = 0;  // that of the table
    return false;
  });
}

bool names(const SymbolTable& table, std::string_view name) {
  return std::any_of(table.symbols.begin(), table.symbols.end(),
                     [&](const ElfSymbol& symbol) { return symbol.name == name; });
}

// All that GHC compiles uses this part of GHC's run-time system, which is in the file, too, or, in a library, needed
// from another.
constexpr std::string_view kOfHaskell = "stg_upd_frame_info";
// Each file that Mono has compiled ahead of time has this, and no code of others.
constexpr std::string_view kOfMono = "mono_aot_file_info";
// The run-time system of Ada (GNAT), which has handlers that throw in each process.
constexpr std::string_view kOfAda = "__gnat_install_handler";

// The best name of one address is the shortest that is not local, then the first.
bool is_better_name(const Symbol& a, const Symbol& b) {
  if (a.is_local != b.is_local) return b.is_local;
  if (!a.is_local && a.name.size() != b.name.size()) return a.name.size() < b.name.size();
  if (!a.is_local && a.name != b.name) return a.name < b.name;
  return a.order < b.order;
}

// "f.x" for "f.x.12", "" for names that do not end in a number of their own.
std::string_view without_number(std::string_view name) {
  if (name.empty() || name.back() < '0' || name.back() > '9') return {};  // mostly
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot + 1 == name.size()) return {};
  return name.find_first_not_of("0123456789", dot + 1) == name.npos ? name.substr(0, dot)
                                                                    : std::string_view();
}

// "f" for "f.cold" and "f.cold.N", "" for other names.
std::string_view owner_of_cold(std::string_view name) {
  if (const std::string_view numbered = without_number(name); !numbered.empty()) name = numbered;
  return name.size() > kCold.size() && name.ends_with(kCold) ? name.substr(0, name.size() - kCold.size())
                                                             : std::string_view();
}

struct Group {
  Symbol primary;
  size_t first = 0, last = 0;  // into the sorted symbols
  uint64_t size = 0;
  size_t part_of = SIZE_MAX;
};

std::vector<Group> group_by_address(std::vector<Symbol>& symbols, const std::vector<uint64_t>& limits,
                                    const FrameTable* frames) {
  std::sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) {
    return a.address != b.address ? a.address < b.address : is_better_name(a, b);
  });
  std::vector<Group> groups;
  for (size_t i = 0; i < symbols.size();) {
    Group group{symbols[i], i, i, 0, SIZE_MAX};
    for (; group.last < symbols.size() && symbols[group.last].address == symbols[i].address; ++group.last) {
      group.size = std::max(group.size, symbols[group.last].size);
      group.primary.is_ifunc |= symbols[group.last].is_ifunc;
    }
    if (group.size == 0) {
      uint64_t end = limits[symbols[i].order];
      if (group.last < symbols.size()) end = std::min(end, symbols[group.last].address);
      const Fde* entry = frames ? frames->find(group.primary.address) : nullptr;
      if (entry) end = std::min(end, entry->end);
      group.size = end > group.primary.address ? end - group.primary.address : 0;
    }
    i = group.last;
    groups.push_back(group);
  }
  return groups;
}

// Sets part_of for the cold parts whose owner is known beyond doubt.
void assign_cold_parts(std::vector<Group>& groups, const std::vector<Symbol>& symbols) {
  std::unordered_map<std::string_view, std::vector<size_t>> wanted;
  for (size_t i = 0; i < groups.size(); ++i)
    if (std::string_view owner = owner_of_cold(groups[i].primary.name); !owner.empty())
      wanted[owner].push_back(i);
  if (wanted.empty()) return;
  std::unordered_map<std::string_view, std::vector<std::pair<size_t, const Symbol*>>> owners;
  for (size_t i = 0; i < groups.size(); ++i)
    for (size_t k = groups[i].first; k < groups[i].last; ++k)
      if (wanted.contains(symbols[k].name)) owners[symbols[k].name].push_back({i, &symbols[k]});
  for (const auto& [name, parts] : wanted) {
    std::set<size_t> all;
    std::unordered_map<uint32_t, std::set<size_t>> by_file;  // the local ones
    for (const auto& [owner, symbol] : owners[name]) {
      all.insert(owner);
      if (symbol->is_local) by_file[symbol->file].insert(owner);
    }
    for (size_t part : parts) {
      const auto same_file = by_file.find(groups[part].primary.file);
      const std::set<size_t>& choice = same_file == by_file.end() ? all : same_file->second;
      if (choice.size() == 1) groups[part].part_of = *choice.begin();
    }
  }
}

// Dynamic symbols of one name in several versions at different addresses: each is also NAME@VERSION.
std::unordered_set<std::string_view> names_of_several(const std::vector<Symbol>& symbols) {
  std::unordered_map<std::string_view, uint64_t> first;
  std::unordered_set<std::string_view> out;
  for (const Symbol& symbol : symbols)
    if (!symbol.version.empty() &&
        first.try_emplace(symbol.name, symbol.address).first->second != symbol.address)
      out.insert(symbol.name);
  return out;
}

// A static function that link-time optimization shares among the parts of a program gets a suffix that makes
// its name unique: ".llvm.1234" (LLVM's ThinLTO, which every optimized Rust program has), ".lto_priv.0"
// (GCC). It is what it was, not a clone. The name without the suffix; all of it when there is none.
std::string_view name_in_source(std::string_view name) {
  const std::string_view numbered = without_number(name);
  for (const std::string_view suffix : {".llvm", ".lto_priv"})
    if (numbered.size() > suffix.size() && numbered.ends_with(suffix))
      return numbered.substr(0, numbered.size() - suffix.size());
  return name;
}

Function make_function(const Group& group, const std::vector<Symbol>& symbols,
                       const std::unordered_set<std::string_view>& several) {
  Function function;
  function.name = group.primary.name;
  function.address = group.primary.address;
  function.size = group.size;
  function.is_ifunc = group.primary.is_ifunc;
  function.is_local = group.primary.is_local;  // the best name is a global one
  for (size_t k = group.first + 1; k < group.last; ++k)
    if (symbols[k].name != function.name) function.aliases.emplace_back(symbols[k].name);
  for (size_t k = group.first; k < group.last; ++k)
    if (const std::string_view name = name_in_source(symbols[k].name); name != symbols[k].name)
      function.aliases.emplace_back(name);
  for (size_t k = group.first; k < group.last; ++k)
    if (!symbols[k].version.empty() && several.contains(symbols[k].name))
      function.aliases.push_back(fmt::format("{}@{}", symbols[k].name, symbols[k].version));
  std::sort(function.aliases.begin(), function.aliases.end());
  function.aliases.erase(std::unique(function.aliases.begin(), function.aliases.end()),
                         function.aliases.end());
  return function;
}

}  // namespace

NamedFunctions read_functions(const ElfFile& file, const ElfFile* debug, uint64_t bias,
                              const FrameTable* frames) {
  const SymbolTable full = file.symbols(elf::SHT_SYMTAB);
  const SymbolTable separate = debug ? debug->symbols(elf::SHT_SYMTAB) : SymbolTable();
  const SymbolTable dynamic = file.symbols(elf::SHT_DYNSYM);
  const CodeRanges code(file);
  std::vector<Symbol> symbols;
  std::vector<uint64_t> limits;  // by Symbol::order
  collect(full, code, bias, symbols, limits);
  if (debug) collect(separate, CodeRanges(*debug), bias, symbols, limits);
  const SymbolVersions versions = symbol_versions(file);
  collect(dynamic, code, bias, symbols, limits, versions.each);
  leave_out_cfi_entries(file, bias, symbols);
  std::vector<Group> groups = group_by_address(symbols, limits, frames);
  assign_cold_parts(groups, symbols);

  NamedFunctions out;
  for (const SymbolTable* table : {&full, &separate, &dynamic}) {
    out.has_haskell |= names(*table, kOfHaskell);
    out.is_mono |= names(*table, kOfMono);
    out.catches_faults |= names(*table, kOfAda);
  }
  std::vector<Function>& functions = out.functions;
  functions.reserve(groups.size());
  const std::unordered_set<std::string_view> several = names_of_several(symbols);
  std::vector<size_t> place(groups.size(), SIZE_MAX);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].part_of != SIZE_MAX) continue;
    place[i] = functions.size();
    functions.push_back(make_function(groups[i], symbols, several));
  }
  for (const Group& group : groups) {
    if (group.part_of == SIZE_MAX || place[group.part_of] == SIZE_MAX) continue;
    uint64_t start = group.primary.address;
    functions[place[group.part_of]].parts.push_back({start, start + group.size});
  }
  return out;
}

}  // namespace mdl::image
