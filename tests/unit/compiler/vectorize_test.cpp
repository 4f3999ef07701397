// Which metrics one base can answer for.
#include "compiler/passes/vectorize.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace mdl::passes {
namespace {

using format::CellKind;
using format::Order;
using format::Placement;
using format::PlacementKind;

// A program of one metric m and one constraint k of functions.
class Maker {
 public:
  Maker() {
    program_.manifest.metrics.resize(1);
    metric().id = "m";
    metric().cells = {{"m", CellKind::wall_timer}};
    metric().constraints = {"k"};
    program_.manifest.constraints.resize(1);
    constraint().name = "k";
    constraint().path = {"Code", "*", "*"};
    constraint().cells = {{"k", CellKind::flag}};
  }
  format::Metric& metric() { return program_.manifest.metrics[0]; }
  format::Constraint& constraint() { return program_.manifest.constraints[0]; }

  // Code at a point, in front of what is there at returns and behind it at entries, or the other way round.
  Placement at(const std::string& point, const std::string& body, bool usual = true) {
    auto parsed = ir::parse("snippet s at " + point +
                            " temps 2 labels 1 from 0:1:1 {\n  cell m wall_timer\n  cell c counter\n"
                            "  cell k flag\n  cell other counter\n" +
                            body + "}\n");
    EXPECT_TRUE(parsed) << parsed.error().text;
    program_.snippets.push_back(parsed->at(0));
    Placement out;
    out.kind = PlacementKind::insert;
    out.stencil = static_cast<uint32_t>(program_.snippets.size() - 1);
    out.order = (point == "entry") == usual ? Order::append : Order::prepend;
    return out;
  }
  void base(std::vector<Placement> code, bool constrained = true) {
    for (Placement& one : code) one.constrained = constrained;
    metric().placement = std::move(code);
  }
  void count_frames() {
    constraint().placement = {at("entry", "  add_cell k, 1\n"), at("return", "  release k, 1\n")};
  }
  bool additive() {
    vectorize(program_);
    return metric().additive;
  }

 private:
  Program program_;
};

TEST(Vectorize, ATimerOfFrames) {
  Maker m;
  m.count_frames();
  m.base({m.at("entry", "  start_timer m\n"), m.at("return", "  stop_timer m\n")});
  EXPECT_TRUE(m.additive());
  m.metric().cells.push_back({"c", CellKind::counter});
  EXPECT_FALSE(m.additive());  // a temporary may be anything
}

TEST(Vectorize, ATimerThatIsNotOne) {
  const auto with = [](auto change) {
    Maker m;
    m.count_frames();
    change(m);
    return m.additive();
  };
  EXPECT_FALSE(with([](Maker& m) {  // not constrained
    m.base({m.at("entry", "  start_timer m\n"), m.at("return", "  stop_timer m\n")}, false);
  }));
  EXPECT_FALSE(with([](Maker& m) {  // in front of what raises the flag
    m.base({m.at("entry", "  start_timer m\n", false), m.at("return", "  stop_timer m\n")});
  }));
  EXPECT_FALSE(with([](Maker& m) {  // not at each entry
    m.base({m.at("entry", "  %0 = arg 0\n  jump_zero %0, L0\n  start_timer m\nL0:\n"),
            m.at("return", "  stop_timer m\n")});
  }));
  EXPECT_FALSE(with([](Maker& m) {  // the other way round
    m.base({m.at("entry", "  stop_timer m\n"), m.at("return", "  start_timer m\n")});
  }));
  EXPECT_FALSE(with([](Maker& m) {  // at calls
    m.base({m.at("call", "  start_timer m\n"), m.at("call_after", "  stop_timer m\n")});
  }));
}

TEST(Vectorize, ATimerWhoseConstraintsDoMore) {
  Maker m;
  m.base({m.at("entry", "  start_timer m\n"), m.at("return", "  stop_timer m\n")});
  m.constraint().placement = {m.at("entry", "  store k, 1\n"), m.at("return", "  store k, 0\n")};
  EXPECT_FALSE(m.additive());  // the innermost return clears it
  m.constraint().path = {"SyncObject", "Message", "*"};
  EXPECT_TRUE(m.additive());  // that of a message does not decide for functions
  m.constraint().path = {"Code", "*"};
  m.metric().constraints.clear();
  EXPECT_TRUE(m.additive());
}

TEST(Vectorize, ACounter) {
  const auto additive = [](const std::string& body) {
    Maker m;
    m.metric().id = "c";
    m.metric().cells = {{"c", CellKind::counter}};
    m.base({m.at("entry", body)});
    return m.additive();
  };
  EXPECT_TRUE(additive("  add_cell c, 1\n"));
  EXPECT_TRUE(additive("  %0 = arg 0\n  add_cell c, %0\n"));
  EXPECT_FALSE(additive("  store c, 1\n"));
  EXPECT_FALSE(additive("  %0 = load other\n  add_cell c, %0\n"));
  EXPECT_FALSE(additive("  add_cell other, 1\n"));
}

}  // namespace
}  // namespace mdl::passes
