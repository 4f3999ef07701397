// From the bytes of a plan to verified stencils.
//
// Order: the object and its checksum, the manifest, then for each stencil that the
// manifest names its code (the symbol) and its holes (the relocations), and last the
// verifier, which decides by decoding. A relocation outside of every stencil, or against
// a symbol that is not reserved, rejects the plan: nothing in it is ignored.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/read_text.h"
#include "runtime/plan/object_file.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/verify.h"

namespace mdl::plan {
namespace {

constexpr size_t kMaxStencils = 65536;
constexpr size_t kMaxStencilBytes = 65536;
// A branch's distance counts from the end of its 4-byte field, the relocation from its start.
constexpr int64_t kNextAddend = -4;

// Where a stencil's code is in .text.
struct Placed {
  uint64_t start = 0;
  uint64_t end = 0;
  Stencil* stencil = nullptr;
};

using SymbolTable = std::unordered_map<std::string, const ObjectSymbol*>;

Result<SymbolTable> index_symbols(const ObjectFile& object) {
  SymbolTable table;
  for (const ObjectSymbol& symbol : object.symbols)
    if (symbol.function && !table.emplace(symbol.name, &symbol).second)
      return reject(fmt::format("it has two functions `{}`", symbol.name));
  return table;
}

Result<Placed> place(const ObjectFile& object, const SymbolTable& symbols, Stencil& stencil) {
  const std::string& name = stencil.info.name;
  const auto found = symbols.find(name);
  if (found == symbols.end() || !found->second->defined)
    return reject(fmt::format("stencil `{}` has no code", name));
  const ObjectSymbol& symbol = *found->second;
  if (!symbol.in_text) return reject(fmt::format("stencil `{}` is not in `.text`", name));
  if (symbol.size > kMaxStencilBytes)
    return reject(fmt::format("stencil `{}` has {} bytes, more than the limit of {}", name, symbol.size,
                              kMaxStencilBytes));
  if (symbol.offset > object.text.size() || symbol.size > object.text.size() - symbol.offset)
    return reject(fmt::format("stencil `{}` reaches out of `.text`", name));
  const auto code = std::span(object.text).subspan(symbol.offset, symbol.size);
  stencil.code.assign(code.begin(), code.end());
  return Placed{symbol.offset, symbol.offset + symbol.size, &stencil};
}

Result<std::vector<Placed>> place_all(const ObjectFile& object, Plan& plan) {
  auto symbols = index_symbols(object);
  if (!symbols) return symbols.error();
  std::vector<Placed> placed;
  for (Stencil& stencil : plan.stencils) {
    auto one = place(object, *symbols, stencil);
    if (!one) return one.error();
    placed.push_back(*one);
  }
  auto guard = place(object, *symbols, plan.guard);
  if (!guard) return guard.error();
  placed.push_back(*guard);
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  for (size_t i = 1; i < placed.size(); ++i)
    if (placed[i].start < placed[i - 1].end)
      return reject(fmt::format("stencils `{}` and `{}` overlap", placed[i - 1].stencil->info.name,
                                placed[i].stencil->info.name));
  return placed;
}

// The decimal index behind a reserved prefix: canonical, so that each index has one name.
std::optional<uint32_t> index_after(const std::string& name, const char* prefix) {
  const size_t length = std::strlen(prefix);
  if (name.compare(0, length, prefix) != 0) return std::nullopt;
  const char *begin = name.data() + length, *end = name.data() + name.size();
  uint32_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || fmt::format("{}", value).size() != size_t(end - begin))
    return std::nullopt;
  return value;
}

std::optional<std::string_view> name_after(std::string_view symbol, std::string_view prefix) {
  if (!symbol.starts_with(prefix)) return std::nullopt;
  return symbol.substr(prefix.size());
}

bool is_symbol(HoleKind kind) {
  return kind == HoleKind::symbol || kind == HoleKind::symbol_left || kind == HoleKind::symbol_right;
}

// The sizes that a hole's field may have.
bool fits(HoleKind kind, uint8_t size) {
  switch (kind) {
    case HoleKind::constant:
      return size == 4 || size == 8;
    case HoleKind::symbol:
      return size == 8;
    case HoleKind::symbol_left:
    case HoleKind::symbol_right:
      return size == 1;
    default:
      return size == 4;
  }
}

std::optional<Hole> hole_of(const std::string& symbol) {
  Hole hole;
  const auto routine = name_after(symbol, format::kRoutineSymbol);
  if (symbol == format::kGuardSymbol) {
    hole.kind = HoleKind::guard;
  } else if (symbol == format::kNextSymbol) {
    hole.kind = HoleKind::next;
  } else if (symbol == format::kAnomalySymbol) {
    hole.kind = HoleKind::anomalies;
  } else if (const auto cell = index_after(symbol, format::kCellSymbol)) {
    hole.kind = HoleKind::cell;
    hole.index = *cell;
  } else if (const auto constant = index_after(symbol, format::kConstSymbol)) {
    hole.kind = HoleKind::constant;
    hole.index = *constant;
  } else if (symbol == format::kThreadSymbol) {
    hole.kind = HoleKind::thread;
  } else if (const auto left = index_after(symbol, format::kSymbolLeft)) {
    hole.kind = HoleKind::symbol_left;
    hole.index = *left;
  } else if (const auto right = index_after(symbol, format::kSymbolRight)) {
    hole.kind = HoleKind::symbol_right;
    hole.index = *right;
  } else if (const auto address = index_after(symbol, format::kSymbolSymbol)) {
    hole.kind = HoleKind::symbol;
    hole.index = *address;
  } else if (const auto known = routine ? format::routine(*routine) : std::nullopt) {
    hole.kind = HoleKind::routine;
    hole.index = static_cast<uint32_t>(*known);
  } else {
    return std::nullopt;
  }
  return hole;
}

// Checks all of a hole that does not depend on the instruction around it.
Result<void> check_hole(const Stencil& stencil, const Hole& hole, const FieldShape& shape, bool is_guard) {
  const auto wrong = [&](const std::string& what) {
    return reject(
        fmt::format("stencil `{}`, relocation at +{:#x}: {}", stencil.info.name, hole.offset, what));
  };
  if (hole.kind == HoleKind::cell && hole.index >= stencil.info.cells.size())
    return wrong(fmt::format("cell {} is not declared", hole.index));
  if (hole.kind == HoleKind::constant && hole.index >= stencil.info.constants.size())
    return wrong(fmt::format("constant {} is not declared", hole.index));
  if (is_symbol(hole.kind) && hole.index >= stencil.info.symbols.size())
    return wrong(fmt::format("symbol {} is not declared", hole.index));
  if (hole.kind == HoleKind::routine) {
    const auto routine = static_cast<format::Routine>(hole.index);
    const auto& declared = stencil.info.routines;
    if (std::find(declared.begin(), declared.end(), routine) == declared.end())
      return wrong(fmt::format("routine `{}` is not declared", format::info(routine).name));
  }
  if (is_guard != (hole.kind == HoleKind::guard) && hole.kind != HoleKind::next)
    return wrong(is_guard ? "the guard may refer to its flag and to `mdl_next` only"
                          : "only the guard may refer to `mdl_guard`");
  if (shape.pc_relative != is_pc_relative(hole.kind)) return wrong("its type does not fit its symbol");
  if (!fits(hole.kind, shape.size)) return wrong("its field has the wrong size for its symbol");
  if (is_pc_relative(hole.kind) && hole.addend != kNextAddend)
    return wrong(fmt::format("its addend must be {}", kNextAddend));
  const bool may_add = hole.kind == HoleKind::cell || hole.kind == HoleKind::constant;
  if (!is_pc_relative(hole.kind) && !may_add && hole.addend != 0) return wrong("its addend must be 0");
  return {};
}

Result<void> add_hole(const ObjectFile& object, const TargetRules& rules, const std::vector<Placed>& placed,
                      const ObjectRelocation& relocation, const Stencil* guard) {
  const ObjectSymbol& symbol = object.symbols[relocation.symbol];
  auto hole = hole_of(symbol.name);
  if (!hole || symbol.defined)
    return reject(fmt::format("a relocation refers to `{}`, which is not a reserved symbol", symbol.name));
  const auto shape = rules.field(relocation.type);
  if (!shape) return reject(fmt::format("a relocation has type {}, which no plan may use", relocation.type));
  auto after = std::upper_bound(placed.begin(), placed.end(), relocation.offset,
                                [](uint64_t offset, const Placed& p) { return offset < p.start; });
  if (after == placed.begin() || relocation.offset >= (after - 1)->end ||
      (after - 1)->end - relocation.offset < shape->size)
    return reject(fmt::format("a relocation at .text+{:#x} is not inside a stencil", relocation.offset));
  Stencil& stencil = *(after - 1)->stencil;
  hole->offset = static_cast<uint32_t>(relocation.offset - (after - 1)->start);
  hole->size = shape->size;
  hole->addend = relocation.addend;
  if (auto checked = check_hole(stencil, *hole, *shape, &stencil == guard); !checked) return checked;
  stencil.holes.push_back(*hole);
  return {};
}

Result<void> order_holes(Stencil& stencil) {
  std::sort(stencil.holes.begin(), stencil.holes.end(),
            [](const Hole& a, const Hole& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < stencil.holes.size(); ++i)
    if (stencil.holes[i].offset < stencil.holes[i - 1].offset + stencil.holes[i - 1].size)
      return reject(fmt::format("stencil `{}`: two relocations overlap at +{:#x}", stencil.info.name,
                                stencil.holes[i].offset));
  return {};
}

}  // namespace

Result<Plan> read_plan(std::span<const std::byte> bytes) {
  auto object = read_object(bytes);
  if (!object) return object.error();
  auto manifest = format::read_manifest(object->manifest);
  if (!manifest) return manifest.error();
  const TargetRules* rules = rules_for(manifest->target);
  if (!rules)
    return Error{
        fmt::format("not a usable plan: it is for {}, and this mdl-inject is for {}; compile it again "
                    "with mdlc --target={}",
                    manifest->target, fmt::join(known_targets(), ", "), known_targets().front()),
        Status::plan_rejected};
  if (rules->machine != object->machine)
    return reject(fmt::format("its manifest is for `{}`, its code for ELF machine {}", manifest->target,
                              object->machine));
  if (manifest->stencils.size() > kMaxStencils)
    return reject(fmt::format("it has {} stencils, more than the limit of {}", manifest->stencils.size(),
                              kMaxStencils));
  Plan plan;
  plan.checksum = object->checksum;
  plan.signer = object->signer;
  plan.manifest = std::move(*manifest);
  for (const format::StencilInfo& info : plan.manifest.stencils) plan.stencils.push_back({info, {}, {}});
  plan.guard.info.name = format::kGuardStencil;
  plan.guard.info.writes_flags = true;

  auto placed = place_all(*object, plan);
  if (!placed) return placed.error();
  for (const ObjectRelocation& relocation : object->relocations)
    if (auto added = add_hole(*object, *rules, *placed, relocation, &plan.guard); !added)
      return added.error();
  for (const Placed& p : *placed) {
    if (auto ordered = order_holes(*p.stencil); !ordered) return ordered.error();
    if (auto verified = verify(*rules, *p.stencil); !verified) return verified.error();
    Stencil& stencil = *p.stencil;
    rules->note(stencil);
    stencil.cost = {std::max<uint64_t>(stencil.cost.cycles, stencil.info.cycles),
                    std::max<uint64_t>(stencil.cost.routine_ns, stencil.info.routine_ns)};
  }
  if (plan.guard.holes.size() != 2 || plan.guard.holes[0].kind == plan.guard.holes[1].kind)
    return reject("its guard must test one flag and branch to `mdl_next` once");
  return plan;
}

Result<std::string> read_plan_bytes(const std::string& path) {
  auto bytes = read_file(path, kMaxPlanBytes);
  if (!bytes) return Error{fmt::format("cannot read the plan {}: {}", path, bytes.error().text)};
  return bytes;
}

Result<Plan> read_plan_file(const std::string& path) {
  auto bytes = read_plan_bytes(path);
  if (!bytes) return bytes.error();
  auto plan = read_plan(std::as_bytes(std::span(*bytes)));
  if (!plan) return Error{fmt::format("{}: {}", path, plan.error().text), plan.error().status};
  return plan;
}

}  // namespace mdl::plan
