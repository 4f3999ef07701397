// JSON to manifest, from bytes that nobody vouches for.
//
// A Node is a value and the way to it from the root; its accessors check presence, type,
// range and enumerators. The first thing that is wrong is kept in Errors and names the way
// (`metrics[2].cells[0].kind`); after it the accessors yield harmless defaults, so that the
// functions below read straight down without a test a line. References are checked in a
// second step (manifest_references.cpp), when everything they may refer to is known.
//
// The JSON parser does not recurse; ours do, and stop at kMaxDepth.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/json.h"
#include "format/manifest_references.h"
#include "format/manifest_tables.h"

namespace mdl::format {
namespace {

using Json = nlohmann::json;

struct Errors {
  std::string first;
};

class Node {
 public:
  Node(const Json& root, Errors& errors) : value_(&root), errors_(errors) {}

  Node key(const char* name) const {
    if (!value_) return Node(nullptr, this, name, 0);
    if (!value_->is_object()) return fail("is not an object"), Node(nullptr, this, name, 0);
    auto found = value_->find(name);
    Node result(found == value_->end() ? nullptr : &*found, this, name, 0);
    if (!result.value_) result.fail("is missing");
    return result;
  }

  bool has(const char* name) const { return value_ && value_->is_object() && value_->contains(name); }

  template <typename Function>
  auto list(Function function, size_t most = SIZE_MAX) const {
    std::vector<decltype(function(*this))> result;
    if (!expect(value_ && value_->is_array(), "an array")) return result;
    if (value_->size() > most) return fail(fmt::format("has more than {} items", most)), result;
    for (size_t i = 0; i < value_->size() && ok(); i++) result.push_back(function(item(i)));
    return result;
  }

  std::string text() const {
    if (!expect(value_ && value_->is_string(), "a string")) return {};
    const std::string& string = value_->get_ref<const std::string&>();
    if (string.find('\0') != std::string::npos) return fail("contains a NUL"), std::string();
    return string;
  }
  std::string name() const {
    std::string result = text();
    if (result.empty()) fail("is empty");
    return result;
  }
  // A name that is also an ELF symbol or a register.
  std::string symbol() const {
    std::string result = name();
    for (char c : result)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '$')
        return fail(fmt::format("is no symbol: \"{}\"", result)), result;
    return result;
  }
  std::vector<std::string> names() const {
    return list([](const Node& node) { return node.name(); });
  }

  bool boolean() const {
    return expect(value_ && value_->is_boolean(), "true or false") && value_->get<bool>();
  }
  int64_t integer() const {
    if (!expect(value_ && value_->is_number_integer(), "an integer")) return 0;
    if (value_->is_number_unsigned() && value_->get<uint64_t>() > std::numeric_limits<int64_t>::max())
      return fail("is out of range"), 0;
    return value_->get<int64_t>();
  }
  int64_t integer(int64_t low, int64_t high) const {
    int64_t result = integer();
    if (result < low || result > high) return fail(fmt::format("is not in {}..{}", low, high)), low;
    return result;
  }
  double real() const {
    return expect(value_ && value_->is_number(), "a number") ? value_->get<double>() : 0;
  }
  uint32_t number() const { return static_cast<uint32_t>(integer(0, std::numeric_limits<uint32_t>::max())); }

  // One of `table`: its index, or 0 and an error.
  size_t one_of(std::span<const std::string_view> table) const {
    std::string word = text();
    for (size_t i = 0; i < table.size(); i++)
      if (table[i] == word) return i;
    return unknown(word), 0;
  }
  std::string word(std::span<const std::string_view> table) const {
    return std::string(table[one_of(table)]);
  }
  template <typename Kind>
  Kind kind(std::optional<Kind> (*find)(std::string_view)) const {
    std::string word = text();
    if (std::optional<Kind> found = find(word)) return *found;
    return unknown(word), Kind{};
  }

  bool ok() const { return errors_.first.empty(); }
  size_t size() const { return value_ && value_->is_array() ? value_->size() : 0; }
  Node item(size_t index) const { return Node(&(*value_)[index], this, nullptr, index); }
  void fail(std::string_view what) const {
    if (ok()) errors_.first = fmt::format("{} {}", where(), what);
  }

 private:
  Node(const Json* value, const Node* parent, const char* key, size_t index)
      : value_(value), parent_(parent), key_(key), index_(index), errors_(parent->errors_) {}

  bool expect(bool right, std::string_view type) const {
    if (!right) fail(fmt::format("is not {}", type));
    return right && ok();
  }
  void unknown(const std::string& word) const { fail(fmt::format("is \"{}\", which is not known", word)); }
  std::string where() const {
    if (!parent_) return "the manifest";
    std::string before = parent_->parent_ ? parent_->where() : std::string();
    if (!key_) return fmt::format("{}[{}]", before, index_);
    return before.empty() ? key_ : fmt::format("{}.{}", before, key_);
  }

  const Json* value_ = nullptr;  // null: missing, reported already
  const Node* parent_ = nullptr;
  const char* key_ = nullptr;  // null: an element, at index_
  size_t index_ = 0;
  Errors& errors_;
};

Position read_position(const Node& node) {
  if (node.ok() && node.size() != 3) node.fail("is not [file, line, column]");
  if (!node.ok()) return {};
  return {node.item(0).number(), node.item(1).number(), node.item(2).number()};
}

ExprKind read_expr_kind(const Node& node) {
  std::string word = node.text();
  for (size_t i = 0; i < std::size(kExprShapes); i++)
    if (kExprShapes[i].name == word) return static_cast<ExprKind>(i);
  node.fail(fmt::format("is \"{}\", which is not known", word));
  return ExprKind::integer;
}

std::span<const std::string_view> fields() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> out(std::begin(kOtherFields), std::end(kOtherFields));
    for (size_t i = 0; i < kPointKinds; i++)
      if (const PointKindInfo& point = info(static_cast<PointKind>(i)); point.owner != PointOwner::none)
        out.push_back(point.field);
    return out;
  }();
  return all;
}

std::string read_expr_text(const Node& node, ExprKind kind) {
  switch (kind) {
    case ExprKind::field:
      return node.word(fields());
    case ExprKind::binary:
      return node.word(kBinaryOperators);
    case ExprKind::unary:
      return node.word(kUnaryOperators);
    case ExprKind::value_type:
      return node.word(kRegisterValues);
    case ExprKind::string:
      return node.text();
    default:
      return node.name();
  }
}

Expr read_expr(const Node& node, uint32_t depth) {
  Expr result;
  if (depth >= kMaxDepth) return node.fail(fmt::format("nests deeper than {}", kMaxDepth)), result;
  result.kind = read_expr_kind(node.key("kind"));
  if (!node.ok()) return result;
  const ExprShape& has = shape(result.kind);
  if (has.text) result.text = read_expr_text(node.key("text"), result.kind);
  if (has.number) {
    const Node number = node.key("number");
    result.number = result.kind == ExprKind::selected    ? number.integer(0, kMaxSelected)
                    : result.kind == ExprKind::parameter ? number.integer(0, kParameterFacts - 1)
                    : result.kind == ExprKind::value_type
                        ? number.integer(static_cast<int64_t>(ParameterFact::mask), kParameterFacts - 1)
                        : number.integer();
  }
  if (has.operands) {
    Node operands = node.key("operands");
    result.operands = operands.list([&](const Node& n) { return read_expr(n, depth + 1); });
    if (result.operands.size() != has.operands)
      operands.fail(
          fmt::format("has {} elements, \"{}\" takes {}", result.operands.size(), has.name, has.operands));
  }
  result.position = read_position(node.key("position"));
  return result;
}

std::vector<Placement> read_placements(const Node& list, uint32_t depth);

Placement read_placement(const Node& node, uint32_t depth) {
  Placement result;
  if (depth >= kMaxDepth) return node.fail(fmt::format("nests deeper than {}", kMaxDepth)), result;
  result.kind = static_cast<PlacementKind>(node.key("kind").one_of(kPlacementKinds));
  if (!node.ok()) return result;
  if (result.kind == PlacementKind::foreach_) result.variable = node.key("variable").name();
  if (result.kind != PlacementKind::block) result.expr = read_expr(node.key("expr"), 0);
  if (result.kind == PlacementKind::insert) {
    result.order = static_cast<Order>(node.key("order").one_of(kOrders));
    result.when = static_cast<When>(node.key("when").one_of(kWhens));
    result.constrained = node.key("constrained").boolean();
    result.stencil = node.key("stencil").number();
  } else {
    result.body = read_placements(node.key("body"), depth + 1);
  }
  result.position = read_position(node.key("position"));
  return result;
}

std::vector<Placement> read_placements(const Node& list, uint32_t depth) {
  return list.list([&](const Node& node) { return read_placement(node, depth); });
}

Cell read_cell(const Node& node) {
  Cell result{node.key("name").name(), node.key("kind").kind(cell_kind), {}};
  if (info(result.kind).clock == CellClock::event) result.event = info(node.key("event").kind(event)).name;
  const CellGroup group = info(result.kind).group;
  if (group == CellGroup::spans || group == CellGroup::keys)
    node.key("kind").fail("is one that only the injector makes");
  return result;
}

ResourceList read_list(const Node& node) {
  ResourceList result;
  result.name = node.key("name").name();
  result.type = node.key("type").word(kListTypes);
  result.items = node.key("items").list([](const Node& item) { return item.text(); });
  result.flavors = node.key("flavors").names();
  result.library = node.key("library").boolean();
  result.position = read_position(node.key("position"));
  return result;
}

Constraint read_constraint(const Node& node) {
  Constraint result;
  result.name = node.key("name").name();
  result.path = node.key("path").names();
  result.is_default = node.key("default").boolean();
  result.replaces = node.key("replaces").boolean();
  result.cells = node.key("cells").list(read_cell, kMaxCells);
  result.placement = read_placements(node.key("placement"), 0);
  result.key_cells = node.key("key_cells").list(read_cell, kMaxCells);
  result.key_placement = read_placements(node.key("key_placement"), 0);
  result.not_keyed = node.key("not_keyed").text();
  result.position = read_position(node.key("position"));
  if (result.path.empty()) node.key("path").fail("is empty");
  return result;
}

Metric read_metric(const Node& node) {
  Metric result;
  result.id = node.key("id").name();
  result.name = node.key("name").text();
  result.units = node.key("units").text();
  result.units_type = node.key("units_type").word(kUnitsTypes);
  result.style = node.key("style").word(kStyles);
  result.mode = node.key("mode").word(kModes);
  result.aggregate = node.key("aggregate").kind(aggregate);
  result.flavors = node.key("flavors").names();
  if (node.has("focus")) result.focus = node.key("focus").name();
  if (node.has("keys")) {
    result.keys = node.key("keys").list(
        [](const Node& n) {
          return MetricKey{n.key("cell").name(), static_cast<KeyName>(n.key("name").one_of(kKeyNames))};
        },
        kMostKeysOfMetric);
    result.key_change = node.key("key_change").name();
    if (node.has("keyed")) result.keyed = node.key("keyed").kind(cell_kind);
  }
  result.constraints = node.key("constraints").names();
  result.replacements = node.key("replacements").list(read_constraint);
  result.cells = node.key("cells").list(read_cell, kMaxCells);
  result.placement = read_placements(node.key("placement"), 0);
  result.additive = node.key("additive").boolean();
  result.position = read_position(node.key("position"));
  return result;
}

Exclude read_exclude(const Node& node) {
  return {node.key("pattern").name(), node.key("regex").boolean(), node.key("no_case").boolean()};
}

ProcessDefinition read_process(const Node& node) {
  return {node.key("name").name(), node.key("command").name(), node.key("directory").text(),
          node.key("flavor").text(), read_position(node.key("position"))};
}

CellUse read_cell_use(const Node& node) {
  CellUse use{node.key("name").name(), node.key("kind").kind(cell_kind), node.key("reads").boolean(),
              node.key("writes").boolean()};
  if (is_timer(use.kind)) use.starts = node.key("starts").boolean();
  return use;
}

SymbolUse read_symbol(const Node& node) {
  return {node.key("name").name(), static_cast<SymbolKind>(node.key("kind").one_of(kSymbolKinds))};
}

StencilInfo read_stencil(const Node& node) {
  StencilInfo result;
  result.name = node.key("name").symbol();
  result.point = node.key("point").kind(point_kind);
  result.cells = node.key("cells").list(read_cell_use, kMaxCells);
  result.clobbers = node.key("clobbers").list([](const Node& item) { return item.symbol(); });
  result.writes_flags = node.key("writes_flags").boolean();
  result.uses_result = node.key("uses_result").boolean();
  result.only_notes = node.has("only_notes") && node.key("only_notes").boolean();
  result.constants = node.key("constants").list([](const Node& n) { return read_expr(n, 0); });
  result.symbols = node.key("symbols").list(read_symbol);
  result.routines = node.key("routines").list([](const Node& n) { return n.kind(routine); });
  result.instructions = node.key("instructions").number();
  result.cycles = node.key("cycles").number();
  result.routine_ns = node.key("routine_ns").number();
  result.position = read_position(node.key("position"));
  return result;
}

Edition read_edition(const Node& node) {
  Edition out{node.key("name").name(),
              static_cast<uint64_t>(node.key("version").integer(0, std::numeric_limits<int64_t>::max())),
              node.key("not_after").text()};
  if (const std::string wrong = wrong_edition(out); !wrong.empty()) node.fail("cannot be: " + wrong);
  return out;
}

// The header decides whether this reader may read the rest at all.
void read_header(const Node& root, Manifest& manifest) {
  root.key("format").integer(1, std::numeric_limits<int32_t>::max());
  int64_t min_reader = root.key("min_reader").integer(1, std::numeric_limits<int32_t>::max());
  if (min_reader > kFormat)
    root.key("min_reader")
        .fail(fmt::format("is {}, but this program reads plans up to {}: use a newer one", min_reader,
                          kFormat));
  Node features = root.key("features");
  manifest.features = features.names();
  for (const std::string& feature : manifest.features) {
    if (!is_known_feature(feature))
      features.fail(fmt::format("has \"{}\", which this program does not know: use a newer one", feature));
  }
  manifest.target = root.key("target").name();
  manifest.cpu = root.key("cpu").text();
}

// The tree that a parser makes of a text takes some 30 times its size when the text is nothing but brackets:
// what is deeper than any manifest or has more values is not parsed.
bool is_of_sane_shape(const std::string& text) {
  constexpr size_t kMostLevels = 1024, kMostValues = 4'000'000;
  size_t levels = 0, values = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (in_string && c == '\\') {
      i++;  // whatever it escapes
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') levels++;
    if ((c == ']' || c == '}') && levels > 0) levels--;
    if (c == ',' || c == '[' || c == '{') values++;
    if (levels > kMostLevels || values > kMostValues) return false;
  }
  return true;
}

Error rejected(const std::string& what) {
  return {fmt::format("the plan's manifest cannot be used: {} (compile the plan again)", what),
          Status::plan_rejected};
}

}  // namespace

Result<Expr> read_expr(const std::string& text) {
  Json json = read_json(text);
  if (json.is_discarded()) return Error{"the expression is not JSON"};
  Errors errors;
  Expr result = read_expr(Node(json, errors), 0);
  if (!errors.first.empty()) return Error{fmt::format("the expression cannot be used: {}", errors.first)};
  return result;
}

Result<Manifest> read_manifest(const std::string& text) {
  if (!is_of_sane_shape(text)) return rejected("it is nested too deep or has too many values");
  Json json = read_json(text);
  if (json.is_discarded()) return rejected("it is not JSON");
  Errors errors;
  Manifest manifest;
  Node root(json, errors);
  read_header(root, manifest);
  if (!root.ok()) return rejected(errors.first);
  manifest.lists = root.key("lists").list(read_list);
  manifest.constraints = root.key("constraints").list(read_constraint);
  manifest.metrics = root.key("metrics").list(read_metric);
  manifest.statements = read_placements(root.key("statements"), 0);
  manifest.statement_cells = root.key("statement_cells").list(read_cell);
  manifest.excludes = root.key("excludes").list(read_exclude);
  manifest.processes = root.key("processes").list(read_process);
  manifest.tunables = root.key("tunables").list([](const Node& n) {
    return Tunable{n.key("name").name(), n.key("value").real()};
  });
  manifest.stencils = root.key("stencils").list(read_stencil);
  if (std::ranges::find(manifest.features, kEditionFeature) != manifest.features.end())
    manifest.edition = read_edition(root.key("edition"));
  if (!root.ok()) return rejected(errors.first);
  if (std::string wrong = check_references(manifest); !wrong.empty()) return rejected(wrong);
  return manifest;
}

}  // namespace mdl::format
