#include "tests/unit/runtime/plan/plan_builder.h"

#include <elf.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/SHA256.h>

#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>

namespace mdl::plan::test {
namespace {

Hole hole(const std::string& text, uint32_t offset) {
  Hole result;
  result.offset = offset;
  const auto colon = text.find(':');
  const std::string what = text.substr(0, colon);
  if (colon != std::string::npos) result.size = static_cast<uint8_t>(std::stoi(text.substr(colon + 1)));
  if (what.starts_with("cell")) {
    result.index = static_cast<uint32_t>(std::stoul(what.substr(4)));
  } else if (what.starts_with("symbol")) {
    result.kind = HoleKind::symbol;
    result.index = static_cast<uint32_t>(std::stoul(what.substr(6)));
  } else if (what.starts_with("left")) {
    result.kind = HoleKind::symbol_left;
    result.index = static_cast<uint32_t>(std::stoul(what.substr(4)));
  } else if (what.starts_with("right")) {
    result.kind = HoleKind::symbol_right;
    result.index = static_cast<uint32_t>(std::stoul(what.substr(5)));
  } else if (const auto routine = format::routine(what)) {
    result.kind = HoleKind::routine;
    result.index = static_cast<uint32_t>(*routine);
    result.addend = -4;
  } else if (what == "thread") {
    result.kind = HoleKind::thread;
  } else if (what.starts_with("const")) {
    result.kind = HoleKind::constant;
    result.index = static_cast<uint32_t>(std::stoul(what.substr(5)));
  } else if (what == "guard") {
    result.kind = HoleKind::guard;
  } else if (what == "anomalies") {
    result.kind = HoleKind::anomalies;
  } else if (what == "next") {
    result.kind = HoleKind::next;
    result.addend = -4;
  } else {
    throw std::invalid_argument(text);
  }
  return result;
}

std::string symbol_of(const Hole& hole) {
  switch (hole.kind) {
    case HoleKind::cell:
      return format::kCellSymbol + std::to_string(hole.index);
    case HoleKind::constant:
      return format::kConstSymbol + std::to_string(hole.index);
    case HoleKind::symbol:
      return format::kSymbolSymbol + std::to_string(hole.index);
    case HoleKind::symbol_left:
      return format::kSymbolLeft + std::to_string(hole.index);
    case HoleKind::symbol_right:
      return format::kSymbolRight + std::to_string(hole.index);
    case HoleKind::routine:
      return format::kRoutineSymbol +
             std::string(format::info(static_cast<format::Routine>(hole.index)).name);
    case HoleKind::thread:
      return format::kThreadSymbol;
    case HoleKind::guard:
      return format::kGuardSymbol;
    case HoleKind::anomalies:
      return format::kAnomalySymbol;
    case HoleKind::next:
      return format::kNextSymbol;
  }
  return {};
}

class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof(T));
  }
  void align(size_t to) { out.resize((out.size() + to - 1) / to * to); }
  std::vector<std::byte> out;
};

// A string table under construction.
struct Strings {
  std::string bytes = std::string(1, '\0');
  uint32_t add(const std::string& text) {
    const auto at = static_cast<uint32_t>(bytes.size());
    bytes += text + '\0';
    return at;
  }
};

std::string raw(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

enum Index : uint16_t { null, text, rela, manifest, checksum, symtab, strtab, shstrtab, count };

Elf64_Ehdr file_header(const Object& object) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = object.type;
  header.e_machine = object.machine;
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof(Elf64_Ehdr);
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = count;
  header.e_shstrndx = shstrtab;
  return header;
}

std::string symbol_table(const Object& object, std::map<std::string, uint32_t>& numbers, Strings& names) {
  Writer symbols;
  symbols.put(Elf64_Sym{});
  uint32_t next = 1;
  for (const Object::Symbol& symbol : object.symbols) {
    Elf64_Sym entry{};
    entry.st_name = names.add(symbol.name);
    entry.st_info = ELF64_ST_INFO(STB_GLOBAL, symbol.type);
    entry.st_shndx = symbol.section;
    entry.st_value = symbol.offset;
    entry.st_size = symbol.size;
    symbols.put(entry);
    numbers.emplace(symbol.name, next++);
  }
  for (const Relocation& relocation : object.relocations) {
    if (!numbers.emplace(relocation.symbol, next).second) continue;
    Elf64_Sym entry{};
    entry.st_name = names.add(relocation.symbol);
    entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE);
    symbols.put(entry);
    ++next;
  }
  return raw(symbols.out);
}

}  // namespace

std::vector<std::byte> filled(const Stencil& stencil, const std::vector<int64_t>& values) {
  std::vector<std::byte> code = stencil.code;
  for (size_t i = 0; i < stencil.holes.size(); ++i)
    std::memcpy(code.data() + stencil.holes[i].offset, &values[i], stencil.holes[i].size);
  return code;
}

const TargetRules& rules() {
  return *rules_for("x86_64");
}

Stencil stencil(const std::string& name, const std::string& code) {
  Stencil result;
  result.info.name = name;
  result.info.cells = {{"value", format::CellKind::counter, true, true}};
  result.info.writes_flags = true;
  result.info.constants.resize(2);
  std::istringstream words(code);
  for (std::string word; words >> word;) {
    if (word.front() == '[') {
      result.holes.push_back(
          hole(word.substr(1, word.size() - 2), static_cast<uint32_t>(result.code.size())));
      result.code.resize(result.code.size() + result.holes.back().size);
    } else {
      result.code.push_back(static_cast<std::byte>(std::stoul(word, nullptr, 16)));
    }
  }
  return result;
}

Object object_of(format::Manifest manifest, const std::vector<Stencil>& stencils) {
  Object object;
  manifest.stencils.clear();
  for (const Stencil& s : stencils) {
    if (s.info.name != format::kGuardStencil) manifest.stencils.push_back(s.info);
    const uint64_t start = object.text.size();
    object.text.insert(object.text.end(), s.code.begin(), s.code.end());
    object.symbols.push_back({s.info.name, start, s.code.size()});
    for (const Hole& h : s.holes) {
      const uint32_t type = is_pc_relative(h.kind) ? R_X86_64_PLT32
                            : h.size == 8          ? R_X86_64_64
                            : h.size == 1          ? R_X86_64_8
                                                   : R_X86_64_32S;
      object.relocations.push_back({start + h.offset, type, symbol_of(h), h.addend});
    }
  }
  object.manifest = format::write_manifest(manifest);
  return object;
}

std::vector<std::byte> write(const Object& object) {
  Strings names, section_names;
  std::map<std::string, uint32_t> numbers;
  std::string contents[count];
  contents[text] = raw(object.text);
  contents[symtab] = symbol_table(object, numbers, names);
  Writer relocations;
  for (const Relocation& r : object.relocations)
    relocations.put(Elf64_Rela{r.offset, ELF64_R_INFO(uint64_t{numbers.at(r.symbol)}, r.type), r.addend});
  contents[rela] = raw(relocations.out);
  contents[manifest] = object.manifest;
  contents[checksum] = std::string(32, '\0');
  contents[strtab] = names.bytes;
  const char* const kNames[count] = {
      "",        ".text",   ".rela.text", format::kManifestSection, format::kChecksumSection,
      ".symtab", ".strtab", ".shstrtab"};
  Elf64_Shdr headers[count] = {};
  for (int i = text; i < count; ++i) headers[i].sh_name = section_names.add(kNames[i]);
  contents[shstrtab] = section_names.bytes;
  constexpr uint32_t kTypes[count] = {SHT_NULL,     SHT_PROGBITS, SHT_RELA,   SHT_PROGBITS,
                                      SHT_PROGBITS, SHT_SYMTAB,   SHT_STRTAB, SHT_STRTAB};
  Writer out;
  out.put(file_header(object));
  out.out.resize(sizeof(Elf64_Ehdr) + sizeof headers);
  for (int i = text; i < count; ++i) {
    out.align(16);
    headers[i].sh_type = kTypes[i];
    headers[i].sh_offset = out.out.size();
    headers[i].sh_size = contents[i].size();
    headers[i].sh_addralign = 1;
    for (const char c : contents[i]) out.put(c);
  }
  headers[rela].sh_entsize = sizeof(Elf64_Rela);
  headers[rela].sh_link = symtab;
  headers[rela].sh_info = text;
  headers[symtab].sh_entsize = sizeof(Elf64_Sym);
  headers[symtab].sh_link = strtab;
  headers[symtab].sh_info = 1;
  std::memcpy(out.out.data() + sizeof(Elf64_Ehdr), headers, sizeof headers);
  seal(out.out);
  return out.out;
}

void seal(std::vector<std::byte>& bytes) {
  Elf64_Shdr header;
  std::memcpy(&header, bytes.data() + sizeof(Elf64_Ehdr) + checksum * sizeof header, sizeof header);
  if (header.sh_offset > bytes.size() || bytes.size() - header.sh_offset < 32) return;
  std::byte* at = bytes.data() + header.sh_offset;
  std::memset(at, 0, 32);
  const auto digest =
      llvm::SHA256::hash(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  std::memcpy(at, digest.data(), digest.size());
}

Stencil guard_stencil() {
  Stencil guard = stencil(format::kGuardStencil,
                          "49 83 bb [guard] 00 "  // cmp qword ptr [r11 + flag], 0
                          "0f 84 [next]");        // je next
  guard.info.cells.clear();
  guard.info.constants.clear();
  return guard;
}

std::vector<Stencil> small_stencils() {
  Stencil calls = stencil("calls_entry", "49 83 83 [cell0] 01");      // add qword ptr [r11 + calls], 1
  Stencil enter = stencil("procedure_entry", "49 83 83 [cell0] 01");  // add qword ptr [r11 + flag], 1
  Stencil leave = stencil("procedure_return",
                          "49 83 bb [cell0] 00 "       // cmp qword ptr [r11 + flag], 0
                          "7e 0a "                     // jle to the anomaly
                          "49 83 83 [cell0] ff "       // add qword ptr [r11 + flag], -1
                          "eb 08 "                     // jmp to the end
                          "49 83 83 [anomalies] 01");  // add qword ptr [r11 + anomalies], 1
  calls.info.cells = {{"calls", format::CellKind::counter, false, true}};
  enter.info.cells = {{"procedure", format::CellKind::flag, false, true}};
  leave.info.cells = {{"procedure", format::CellKind::flag, true, true}};
  leave.info.point = format::PointKind::return_;
  for (Stencil* s : {&calls, &enter, &leave}) s->info.constants.clear();
  return {calls, enter, leave, guard_stencil()};
}

format::Manifest small_manifest() {
  using namespace format;
  const auto insert = [](const std::string& variable, const std::string& point, uint32_t stencil) {
    Placement placement;
    placement.kind = PlacementKind::insert;
    placement.expr.kind = ExprKind::field;
    placement.expr.text = point;
    placement.expr.operands.resize(1);
    placement.expr.operands[0].kind = ExprKind::variable;
    placement.expr.operands[0].text = variable;
    placement.stencil = stencil;
    return placement;
  };
  Manifest manifest;
  manifest.target = "x86_64";
  manifest.features = {"entry-return"};

  Constraint procedure;
  procedure.name = "procedure";
  procedure.path = {"Code", "*", "*"};
  procedure.cells = {{"procedure", CellKind::flag}};
  for (uint32_t i : {1u, 2u}) {
    Placement placement = insert("", i == 1 ? "entry" : "return", i);
    placement.expr.operands[0] = Expr{ExprKind::selected, "", 0, {}, {}};
    procedure.placement.push_back(placement);
  }
  manifest.constraints = {procedure};

  Metric calls;
  calls.id = "calls";
  calls.name = "Calls";
  calls.units = "Calls";
  calls.units_type = "unnormalized";
  calls.style = "EventCounter";
  calls.mode = "normal";
  calls.flavors = {"unix"};
  calls.constraints = {"procedure"};
  calls.cells = {{"calls", CellKind::counter}};
  Placement loop;
  loop.kind = PlacementKind::foreach_;
  loop.variable = "f";
  loop.expr.kind = ExprKind::procedures;
  loop.body = {insert("f", "entry", 0)};
  loop.body[0].constrained = true;
  calls.placement = {loop};
  manifest.metrics = {calls};
  return manifest;
}

}  // namespace mdl::plan::test
