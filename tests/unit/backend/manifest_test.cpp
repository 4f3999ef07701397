// The manifest: what is written is read back equal, and every rule of the reader refuses
// a manifest that breaks it and nothing else.
#include "format/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace mdl::format {
namespace {

using Json = nlohmann::ordered_json;

Expr expr(ExprKind kind, std::string text = "", std::vector<Expr> operands = {}) {
  return {kind, std::move(text), 0, std::move(operands), {0, 3, 7}};
}

Placement insert(Expr point, uint32_t stencil) {
  Placement result;
  result.kind = PlacementKind::insert;
  result.expr = std::move(point);
  result.stencil = stencil;
  result.constrained = true;
  result.order = Order::prepend;
  return result;
}

// `foreach f in LIST { if (f.name == "main") INSERT }`, with every kind of placement.
Placement loop(Expr list, Placement inner) {
  Placement condition;
  condition.kind = PlacementKind::if_;
  condition.expr = expr(
      ExprKind::binary,
      "==", {expr(ExprKind::field, "name", {expr(ExprKind::variable, "f")}), expr(ExprKind::string, "main")});
  condition.body = {std::move(inner)};
  Placement block;
  block.body = {std::move(condition)};
  Placement result;
  result.kind = PlacementKind::foreach_;
  result.variable = "f";
  result.expr = std::move(list);
  result.body = {std::move(block)};
  return result;
}

StencilInfo stencil(std::string name, PointKind point, std::vector<CellUse> cells) {
  StencilInfo result;
  result.name = std::move(name);
  result.point = point;
  result.cells = std::move(cells);
  result.clobbers = {"rax"};
  result.writes_flags = true;
  result.uses_result = true;
  Expr selected;
  selected.kind = ExprKind::selected;
  result.constants = {selected};
  result.symbols = {{"queue_length", SymbolKind::variable}, {"flush(int, char)", SymbolKind::function}};
  result.routines = {Routine::cpu, Routine::call};
  result.cycles = 150;
  result.instructions = 3;
  result.position = {0, 9, 2};
  return result;
}

Manifest sample() {
  Manifest m;
  m.target = "x86_64";
  m.features = {"entry-return"};
  m.lists = {{"mallocs", "procedure", {"malloc", "c\\+\\+ \"x\""}, {"unix"}, true, {0, 1, 1}}};
  Expr entry = expr(ExprKind::field, "entry", {expr(ExprKind::variable, "f")});
  Expr last = expr(ExprKind::field, "return", {expr(ExprKind::selected)});
  Constraint constraint{"inside", {"Code", "*", "*"}, false, false, {{"inside", CellKind::flag}},
                        {},       {0, 2, 1}};
  constraint.placement = {insert(last, 1)};
  m.constraints = {constraint, {"message", {"SyncObject", "Message"}, true, false, {}, {}, {}}};
  Metric metric;
  metric.id = "calls";
  metric.name = "procedure calls";
  metric.units = "Calls";
  metric.units_type = "unnormalized";
  metric.style = "EventCounter";
  metric.mode = "normal";
  metric.aggregate = Aggregate::avg;
  metric.flavors = {"unix"};
  metric.constraints = {"inside", "message"};
  metric.cells = {{"calls", CellKind::counter}, {"temporary", CellKind::counter}};
  metric.placement = {loop(expr(ExprKind::list, "mallocs"), insert(entry, 0)),
                      loop(expr(ExprKind::procedures), insert(entry, 0))};
  Constraint replacement{
      "tagged", {"SyncObject", "Message", "*"}, false, true, {{"mine", CellKind::counter}}, {}, {}};
  replacement.placement = {insert(expr(ExprKind::field, "entry", {expr(ExprKind::exit)}), 2)};
  metric.replacements = {replacement};
  m.metrics = {metric};
  m.statements = {insert(expr(ExprKind::field, "entry", {expr(ExprKind::start)}), 3)};
  m.excludes = {{"/Code/libc.so.6/*", false, true}};
  m.stencils = {
      stencil("calls_entry", PointKind::entry, {{"calls", CellKind::counter, true, true}}),
      stencil("inside_return", PointKind::return_, {{"inside", CellKind::flag, false, true}}),
      stencil("calls_entry.2", PointKind::entry,
              {{"calls", CellKind::counter, false, true}, {"mine", CellKind::counter, true, false}}),
      stencil("statement_entry", PointKind::entry, {})};
  return m;
}

struct Case {
  const char* message;  // a part of it
  std::function<void(Json&)> damage;
};

std::string refusal(const std::function<void(Json&)>& damage) {
  Json json = Json::parse(write_manifest(sample()));
  damage(json);
  Result<Manifest> read = read_manifest(json.dump());
  if (read) return "accepted";
  EXPECT_EQ(read.error().status, Status::plan_rejected);
  return read.error().text;
}

void expect_refusals(const std::vector<Case>& cases) {
  for (const Case& c : cases)
    EXPECT_NE(refusal(c.damage).find(c.message), std::string::npos)
        << "wanted: " << c.message << "\n   got: " << refusal(c.damage);
}

TEST(Manifest, RoundTrip) {
  std::string text = write_manifest(sample());
  Result<Manifest> read = read_manifest(text);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, sample());
  EXPECT_EQ(write_manifest(*read), text);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(Manifest, MetricsMayHaveAFocus) {
  Manifest with = sample();
  with.metrics[0].focus = "/Code/app/*,/Thread/*";
  Result<Manifest> read = read_manifest(write_manifest(with));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, with);
  EXPECT_EQ(write_manifest(sample()).find("focus"), std::string::npos);
  EXPECT_NE(refusal([](Json& j) { j["metrics"][0]["focus"] = ""; }).find("focus is empty"),
            std::string::npos);
  EXPECT_NE(refusal([](Json& j) { j["metrics"][0]["focus"] = 1; }).find("is not a string"),
            std::string::npos);
}

TEST(Manifest, MetricsMayHaveKeys) {
  Manifest with = sample();
  Metric& metric = with.metrics[0];
  const std::vector<Cell> cells = {{"m.key", CellKind::counter, {}}, {"m.change", CellKind::counter, {}}};
  metric.cells.insert(metric.cells.end(), cells.begin(), cells.end());
  metric.keys = {{"m.key", KeyName::number}};
  metric.key_change = "m.change";
  metric.additive = false;
  metric.replacements.clear();
  Result<Manifest> read = read_manifest(write_manifest(with));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, with);
  const auto wrong = [&](auto damage) {
    Json json = Json::parse(write_manifest(with));
    damage(json["metrics"][0]);
    Result<Manifest> damaged = read_manifest(json.dump());
    return damaged ? "accepted" : damaged.error().text;
  };
  using testing::HasSubstr;
  const auto of_texts = [&](int number) {
    return wrong([number](Json& m) {
      for (int i = 1; i < number; i++) {
        const std::string cell = "m.key" + std::to_string(i + 1);
        m["cells"].push_back({{"name", cell}, {"kind", "counter"}});
        m["keys"].push_back({{"cell", cell}, {"name", "str"}});
      }
      m["keys"][0]["name"] = "str";
    });
  };
  EXPECT_EQ(of_texts(3), "accepted");
  EXPECT_THAT(of_texts(4), HasSubstr("keys"));
  EXPECT_THAT(wrong([](Json& m) { m.erase("key_change"); }), HasSubstr("key_change is missing"));
  EXPECT_THAT(wrong([](Json& m) { m["key_change"] = "m.key"; }), HasSubstr("without the counters"));
  EXPECT_THAT(wrong([](Json& m) { m["keys"][0]["cell"] = "other"; }), HasSubstr("without the counters"));
  EXPECT_THAT(wrong([](Json& m) { m["keys"][0]["name"] = "song"; }), HasSubstr("which is not known"));
  EXPECT_THAT(wrong([](Json& m) { m["keyed"] = "wall_timer"; }), HasSubstr("keeps by keys what cannot be"));
  EXPECT_THAT(wrong([](Json& m) { m["keyed"] = "minimum"; }), HasSubstr("keeps by keys what cannot be"));
  EXPECT_THAT(wrong([](Json& m) { m["keyed"] = "song"; }), HasSubstr("keyed"));
  EXPECT_THAT(wrong([](Json& m) { m["additive"] = true; }), HasSubstr("and as one value, too"));
}

TEST(Manifest, EmptyRoundTrip) {
  Manifest empty;
  empty.target = "x86_64";
  Result<Manifest> read = read_manifest(write_manifest(empty));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, empty);
}

TEST(Manifest, UnknownKeysAreIgnored) {
  Json json = Json::parse(write_manifest(sample()));
  json["invented"] = {{"later", 1}};
  json["metrics"][0]["invented"] = "later";
  Result<Manifest> read = read_manifest(json.dump());
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, sample());
}

TEST(Manifest, RefusesWhatIsNotAManifest) {
  EXPECT_NE(read_manifest("{").error().text.find("is not JSON"), std::string::npos);
  EXPECT_NE(read_manifest("").error().text.find("is not JSON"), std::string::npos);
  EXPECT_NE(read_manifest("[1]").error().text.find("the manifest is not an object"), std::string::npos);
  EXPECT_NE(read_manifest("{}").error().text.find("format is missing"), std::string::npos);
}

TEST(Manifest, RefusesNewerPlans) {
  expect_refusals({
      {"min_reader is 2, but this program reads plans up to 1", [](Json& j) { j["min_reader"] = 2; }},
      {"features has \"telepathy\"", [](Json& j) { j["features"].push_back("telepathy"); }},
  });
  EXPECT_EQ(refusal([](Json& j) { j["format"] = 2; }), "accepted");  // newer, but readable by us
}

// Each key of each object is needed: take one away at a time, everywhere in the tree.
void remove_each_key(const Json& whole, const Json::json_pointer& at, int& count) {
  const Json& here = whole[at];
  if (here.is_array())
    for (size_t i = 0; i < here.size(); i++) remove_each_key(whole, at / i, count);
  if (!here.is_object()) return;
  for (const auto& [key, value] : here.items()) {
    Json copy = whole;
    copy[at].erase(key);
    Result<Manifest> read = read_manifest(copy.dump());
    ASSERT_FALSE(read) << "without " << (at / key).to_string();
    EXPECT_NE(read.error().text.find(key + " is missing"), std::string::npos) << read.error().text;
    count++;
    remove_each_key(whole, at / key, count);
  }
}

// ... and each value has its type: replace each by one of another type.
void retype_each_value(const Json& whole, const Json::json_pointer& at, int& count) {
  const Json& here = whole[at];
  for (const Json& wrong : {Json(nullptr), Json(1.5), Json("\x01no"), Json{{"a", 1}}}) {
    if (wrong.type() == here.type()) continue;
    Json copy = whole;
    copy[at] = wrong;
    EXPECT_FALSE(read_manifest(copy.dump())) << at.to_string() << " = " << wrong;
    count++;
  }
  if (here.is_array())
    for (size_t i = 0; i < here.size(); i++) retype_each_value(whole, at / i, count);
  if (here.is_object())
    for (const auto& [key, value] : here.items()) retype_each_value(whole, at / key, count);
}

TEST(Manifest, KeepsThatCodeOnlyNotesBlocks) {
  Manifest noting = sample();
  noting.stencils[0].only_notes = true;
  auto read = read_manifest(write_manifest(noting));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, noting);
  EXPECT_EQ(write_manifest(sample()).find("only_notes"), std::string::npos);
}

TEST(Manifest, RefusesAnyMissingKeyAndAnyWrongType) {
  Json whole = Json::parse(write_manifest(sample()));
  int removed = 0, retyped = 0;
  remove_each_key(whole, Json::json_pointer(), removed);
  retype_each_value(whole, Json::json_pointer(), retyped);
  EXPECT_GT(removed, 150);
  EXPECT_GT(retyped, 600);
}

TEST(Manifest, RefusesRangesAndUnknownWords) {
  expect_refusals({
      {"is not in 1..", [](Json& j) { j["format"] = 0; }},
      {"stencils[0].instructions is not in 0..4294967295",
       [](Json& j) { j["stencils"][0]["instructions"] = -1; }},
      {"stencils[0].constants is not an array", [](Json& j) { j["stencils"][0]["constants"] = 17; }},
      {"stencils[0].symbols[0].kind", [](Json& j) { j["stencils"][0]["symbols"][0]["kind"] = "type"; }},
      {"stencils[0].routines[0]", [](Json& j) { j["stencils"][0]["routines"][0] = "system"; }},
      {"is out of range", [](Json& j) { j["stencils"][0]["instructions"] = UINT64_MAX; }},
      {"position is not [file, line, column]",
       [](Json& j) {
         j["lists"][0]["position"] = {1, 2};
       }},
      {"position[1] is not in", [](Json& j) { j["lists"][0]["position"][1] = 1ull << 32; }},
      {"lists[0].type is \"set\", which is not known", [](Json& j) { j["lists"][0]["type"] = "set"; }},
      {"lists[0].name is empty", [](Json& j) { j["lists"][0]["name"] = ""; }},
      {"contains a NUL", [](Json& j) { j["lists"][0]["name"] = std::string("a\0b", 3); }},
      {"metrics[0].units_type is", [](Json& j) { j["metrics"][0]["units_type"] = "x"; }},
      {"metrics[0].style is", [](Json& j) { j["metrics"][0]["style"] = "x"; }},
      {"metrics[0].mode is", [](Json& j) { j["metrics"][0]["mode"] = "x"; }},
      {"metrics[0].aggregate is", [](Json& j) { j["metrics"][0]["aggregate"] = "median"; }},
      {"metrics[0].cells[1].kind is \"bag\"", [](Json& j) { j["metrics"][0]["cells"][1]["kind"] = "bag"; }},
      {"stencils[1].point is", [](Json& j) { j["stencils"][1]["point"] = "middle"; }},
      {"stencils[1].cells[0].kind is", [](Json& j) { j["stencils"][1]["cells"][0]["kind"] = "x"; }},
      {"stencils[1].name is no symbol", [](Json& j) { j["stencils"][1]["name"] = "a b"; }},
      {"stencils[1].clobbers[0] is no symbol", [](Json& j) { j["stencils"][1]["clobbers"][0] = "%rax"; }},
      {"constraints[0].path is empty", [](Json& j) { j["constraints"][0]["path"] = Json::array(); }},
      {"statements[0].kind is \"while\"", [](Json& j) { j["statements"][0]["kind"] = "while"; }},
      {"statements[0].order is", [](Json& j) { j["statements"][0]["order"] = "x"; }},
      {"statements[0].when is", [](Json& j) { j["statements"][0]["when"] = "x"; }},
      {"statements[0].expr.kind is", [](Json& j) { j["statements"][0]["expr"]["kind"] = "x"; }},
      {"statements[0].expr.text is \"door\"", [](Json& j) { j["statements"][0]["expr"]["text"] = "door"; }},
      {"operands has 0 elements, \"field\" takes 1",
       [](Json& j) { j["statements"][0]["expr"]["operands"] = Json::array(); }},
      {"number is not in 0..15",
       [](Json& j) { j["constraints"][0]["placement"][0]["expr"]["operands"][0]["number"] = 16; }},
  });
}

TEST(Manifest, TypesAreThoseOfArgumentsAndResults) {
  const auto read_with = [](const std::string& text, int64_t fact) {
    Manifest m = sample();
    Expr type = expr(ExprKind::value_type, text, {expr(ExprKind::variable, "f")});
    type.number = fact;
    m.stencils[0].constants = {type};
    auto read = read_manifest(write_manifest(m));
    return read ? std::string(*read == m ? "the same" : "another") : read.error().text;
  };
  for (const char* text : {"$return", "$arg[0]", "$arg[5]"})
    for (int64_t fact : {1, 2}) EXPECT_EQ(read_with(text, fact), "the same");
  for (const char* text : {"$arg[6]", "$arg", "$args.n", "x"})
    EXPECT_NE(read_with(text, 1).find("which is not known"), std::string::npos) << text;
  for (int64_t fact : {0, 3}) EXPECT_NE(read_with("$return", fact).find("is not in 1..2"), std::string::npos);
}

TEST(Manifest, RefusesReferencesToNothing) {
  auto metric = [](Json& j) -> Json& { return j["metrics"][0]; };
  expect_refusals({
      {"two of its lists are called \"mallocs\"", [](Json& j) { j["lists"].push_back(j["lists"][0]); }},
      {"two of its constraints", [](Json& j) { j["constraints"].push_back(j["constraints"][0]); }},
      {"two of its metrics", [](Json& j) { j["metrics"].push_back(j["metrics"][0]); }},
      {"two of its stencils", [](Json& j) { j["stencils"].push_back(j["stencils"][0]); }},
      {"a stencil is called \"mdl.guard\"", [](Json& j) { j["stencils"][0]["name"] = kGuardStencil; }},
      {"\"calls\" has two cells called \"calls\"",
       [&](Json& j) { metric(j)["cells"].push_back(metric(j)["cells"][0]); }},
      {"names cell \"calls\" twice",
       [](Json& j) { j["stencils"][0]["cells"].push_back(j["stencils"][0]["cells"][0]); }},
      {"clobbers \"rax\" twice", [](Json& j) { j["stencils"][0]["clobbers"].push_back("rax"); }},
      {"has no flag of its name", [](Json& j) { j["constraints"][0]["cells"][0]["kind"] = "counter"; }},
      {"has no cell of its name", [&](Json& j) { metric(j)["cells"] = Json::array(); }},
      {"names constraint \"outside\", which is not there",
       [&](Json& j) { metric(j)["constraints"][0] = "outside"; }},
      {"names list \"frees\", which is not there",
       [&](Json& j) { metric(j)["placement"][0]["expr"]["text"] = "frees"; }},
      {"names variable \"f\" outside its foreach",
       [&](Json& j) { metric(j)["placement"][0]["variable"] = "g"; }},
      {"places stencil 4, but there are 4", [](Json& j) { j["statements"][0]["stencil"] = 4; }},
      {"whose counter \"calls\" it does not have", [](Json& j) { j["statements"][0]["stencil"] = 0; }},
      {"made for return points, at a field \"entry\"", [](Json& j) { j["stencils"][3]["point"] = "return"; }},
  });
}

TEST(Manifest, RefusesDeepNesting) {
  auto nested_expr = [](int levels) {
    return [levels](Json& j) {
      Json inner = {{"kind", "integer"}, {"number", 1}, {"position", {0, 0, 0}}};
      for (int i = 1; i < levels; i++)
        inner = {
            {"kind", "unary"}, {"text", "-"}, {"operands", Json::array({inner})}, {"position", {0, 0, 0}}};
      j["metrics"][0]["placement"][0]["expr"] = inner;
    };
  };
  auto nested_block = [](int levels) {
    return [levels](Json& j) {
      Json inner = Json::array();
      for (int i = 0; i < levels; i++)
        inner = Json::array({{{"kind", "block"}, {"body", inner}, {"position", {0, 0, 0}}}});
      j["statements"] = inner;
    };
  };
  EXPECT_EQ(refusal(nested_expr(64)), "accepted");
  EXPECT_NE(refusal(nested_expr(65)).find("nests deeper than 64"), std::string::npos);
  EXPECT_EQ(refusal(nested_block(64)), "accepted");
  EXPECT_NE(refusal(nested_block(65)).find("nests deeper than 64"), std::string::npos);
  // Far too deep for any recursion: the parser must not recurse either.
  std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_FALSE(read_manifest(deep));
}

// What would need gigabytes as a tree is refused while it is text; brackets in strings do not count.
TEST(Manifest, RefusesTextThatGrows) {
  const auto why = [](const std::string& text) {
    auto read = read_manifest(text);
    return read ? "accepted" : read.error().text;
  };
  for (const char* piece : {"[", "[],", "{},", "\"\",", "0,", "{\"a\":"}) {
    std::string text = "[";
    while (text.size() < 20'000'000) text += piece;
    EXPECT_NE(why(text).find("nested too deep or has too many values"), std::string::npos) << piece;
  }
  EXPECT_NE(
      why("[\"" + std::string(2000, '[') + "\\\"" + std::string(2000, '{') + "\"]").find("is not an object"),
      std::string::npos);
}

TEST(Manifest, RefusesTooManyCells) {
  const auto with = [](size_t count) {
    return refusal([count](Json& j) {
      const Json cell = j["constraints"][0]["cells"][0];
      for (size_t i = 0; i < count; i++) {
        Json more = cell;
        more["name"] = "more_" + std::to_string(i);
        j["constraints"][0]["cells"].push_back(more);
      }
    });
  };
  EXPECT_EQ(with(100), "accepted");
  EXPECT_NE(with(4096).find("has more than 4096 items"), std::string::npos);
}

}  // namespace
}  // namespace mdl::format
