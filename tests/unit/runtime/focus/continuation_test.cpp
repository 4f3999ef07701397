// Which cells go on when requests come and go.
#include "runtime/focus/continuation.h"

#include <gmock/gmock.h>

namespace mdl::focus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BoundRequest request(std::string metric, std::string focus, CellId value) {
  BoundRequest out;
  out.metric = std::move(metric), out.focus = std::move(focus), out.value = value;
  return out;
}

// calls, and calls@/Code/a/f with its flag.
Binding before() {
  Binding out;
  out.cells = {{format::CellKind::counter, "calls", {}},
               {format::CellKind::flag, "in@/Code/a/f", {}},
               {format::CellKind::counter, "calls@/Code/a/f", {}}};
  out.requests = {request("calls", "", 0), request("calls", "/Code/a/f", 2)};
  return out;
}

void guard(Binding& binding, CellId cell, CellId flag, std::vector<uint32_t> requests) {
  BoundSnippet snippet;
  snippet.cells = {cell}, snippet.guards = {flag}, snippet.requests = std::move(requests);
  binding.points.push_back({nullptr, nullptr, format::PointKind::entry, 0, {snippet}});
}

TEST(Continuation, CellsOfRequestsThatStayKeepTheirValues) {
  Binding first = before(), next = before();
  guard(first, 2, 1, {1});
  std::swap(next.cells[0], next.cells[1]);  // in another order
  next.requests = {request("calls", "/Code/a/f", 2), request("calls", "", 1)};
  guard(next, 2, 0, {0});
  const auto kept = kept_in(first, next);
  ASSERT_TRUE(kept) << kept.error().text;
  EXPECT_THAT(kept->cells, ElementsAre(1, 0, 2));
  EXPECT_THAT(kept->requests, ElementsAre(1, 0));
}

TEST(Continuation, ACellThatOnlyARequestHadWhichGoesIsNobodysAny) {
  Binding first = before(), next = before();
  guard(first, 2, 1, {1});
  // The same flag, for another request.
  next.requests = {request("calls", "", 0), request("returns", "/Code/a/f", 2)};
  guard(next, 2, 1, {1});
  const auto kept = kept_in(first, next);
  ASSERT_TRUE(kept) << kept.error().text;
  EXPECT_THAT(kept->cells, ElementsAre(0, std::nullopt, std::nullopt));
  EXPECT_THAT(kept->requests, ElementsAre(0, std::nullopt));
}

TEST(Continuation, AFlagThatIsSharedWithARequestThatStaysGoesOn) {
  Binding first = before(), next = before();
  guard(first, 2, 1, {1});
  next.cells.push_back({format::CellKind::counter, "returns@/Code/a/f", {}});
  next.requests.push_back(request("returns", "/Code/a/f", 3));
  guard(next, 2, 1, {1});
  guard(next, 3, 1, {2});
  const auto kept = kept_in(first, next);
  ASSERT_TRUE(kept) << kept.error().text;
  EXPECT_THAT(kept->cells, ElementsAre(0, 1, 2, std::nullopt));
}

TEST(Continuation, ACellThatCannotBeToldFromAnotherIsAnError) {
  Binding first = before(), next = before();
  next.cells.push_back({format::CellKind::counter, "calls@/Code/a/f", {}});
  guard(next, 3, 0, {1});  // two cells of one label, where there was one
  const auto kept = kept_in(first, next);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().text, HasSubstr("the cell 'calls"));
}

TEST(Continuation, ACellThatIsGoneIsAnError) {
  Binding first = before(), next = before();
  guard(first, 2, 1, {1});
  const auto kept = kept_in(first, next);  // its flag is not used any more
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().text, HasSubstr("in@/Code/a/f"));
}

TEST(Continuation, AChildIsNotTheRequestOfTheSameFocus) {
  Binding first, next;
  first.cells = next.cells = {{format::CellKind::counter, "calls@/Code/a/*", {}},
                              {format::CellKind::span_, "calls@/Code/a/f", {}}};
  first.requests = {request("calls", "/Code/a/*", 0), request("calls", "/Code/a/f", 1)};
  first.requests[1].of = 0;
  next.requests = {request("calls", "/Code/a/f", 1)};
  const auto kept = kept_in(first, next);
  ASSERT_TRUE(kept) << kept.error().text;
  EXPECT_THAT(kept->requests, ElementsAre(std::nullopt));
  EXPECT_THAT(kept->cells, ElementsAre(std::nullopt, std::nullopt));
}

}  // namespace
}  // namespace mdl::focus
