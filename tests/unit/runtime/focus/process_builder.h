// Processes and plans for binding tests, built in memory: no live process, no compiler.
#pragma once

#include <string>
#include <vector>

#include "runtime/focus/request.h"

namespace mdl::focus::test {

inline constexpr format::PointKind kEntry = format::PointKind::entry;

// An image from objects written `app: main work ns::f=_ZN2ns1fEv`, where NAME=ALIAS gives a
// function another name. Functions are 16 bytes apart. The first object is the program;
// one called ld.so is the loader.
image::Image process(const std::vector<std::string>& objects);
const image::Function& function(const image::Image& image, const std::string& object,
                                const std::string& name);

// Expressions and statements, short.
format::Expr variable(const std::string& name);
format::Expr list(const std::string& name);
format::Expr text(const std::string& value);
format::Expr number(int64_t value);
format::Expr procedures();
format::Expr modules();
format::Expr selected(int64_t n);
format::Expr field(format::Expr of, const std::string& name);
format::Expr binary(format::Expr left, const std::string& op, format::Expr right);

format::Placement foreach_(const std::string& variable, format::Expr list,
                           std::vector<format::Placement> body);
format::Placement if_(format::Expr condition, std::vector<format::Placement> body);
format::Placement append(format::Expr point, uint32_t stencil);
format::Placement prepend(format::Expr point, uint32_t stencil);
format::Placement constrained(format::Placement placement);

// A plan under construction: stencils have information but no code, which binding never reads.
class PlanMaker {
 public:
  // A stencil that reads and writes `cell`; its index.
  uint32_t stencil(const std::string& name, format::PointKind point, const std::string& cell,
                   format::CellKind kind = format::CellKind::counter, uint32_t constants = 0);
  format::Metric& metric(const std::string& id, std::vector<format::Placement> placement,
                         std::vector<std::string> constraints = {});
  // Raised at entry and lowered at return of the selected function or of the object's functions.
  void procedure_constraint();
  void module_constraint();
  void list(const std::string& name, const std::string& type, std::vector<std::string> items);

  plan::Plan plan;
};

// The standard library's procedure_calls and procedure_returns with both constraints.
PlanMaker standard();

// The text of the error that binding yields; "" when there is none.
std::string why(const plan::Plan& plan, const image::Image& image, const BindOptions& options);

// "calls_entry[1]{0}" for each snippet of the point: stencil, [cells], {guards}.
std::string code_at(const Binding& binding, const plan::Plan& plan, const std::string& function,
                    format::PointKind kind);

}  // namespace mdl::focus::test
