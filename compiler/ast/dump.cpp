#include "compiler/ast/dump.h"

#include <fmt/format.h>

namespace mdl::ast {
namespace {

std::string dump_call(const Call& call) {
  std::string args;
  for (const Expr& arg : call.args) args += (args.empty() ? "" : ", ") + dump(arg);
  return fmt::format("{}({})", dump(*call.callee), args);
}

std::string dump_step(const Step& step) {
  std::string_view op = step.amount > 0 ? "++" : "--";
  return step.prefix ? fmt::format("({}{})", op, dump(*step.target))
                     : fmt::format("({}{})", dump(*step.target), op);
}

std::string dump_literal(const Literal& literal) {
  return literal.kind == Literal::Kind::string ? fmt::format("\"{}\"", literal.text) : literal.text;
}

std::string dump_type(const CellType& type) {
  return type.event ? fmt::format("{}({})", type.kind.text, dump_literal(*type.event)) : type.kind.text;
}

std::string dump_keys(const std::vector<Expr>& keys) {
  std::string text;
  for (const Expr& key : keys) text += (text.empty() ? " keyed by " : ", ") + dump(key);
  return text;
}

std::string dump_path(const Path& path) {
  std::string text;
  for (const Name& part : path.parts) text += "/" + part.text;
  return text;
}

class Dumper {
 public:
  explicit Dumper(const Source& source) : source_(source) {}

  std::string take() { return std::move(out_); }

  void definition(const Definition& d) {
    std::visit(Overloaded{
                   [&](const ResourceList& list) {
                     line(d.span, fmt::format("resourceList {} is {}", list.name.text, list.type.text));
                     settings(list.settings);
                   },
                   [&](const Constraint& c) { constraint(d.span, c); },
                   [&](const Metric& m) { metric(d.span, m); },
                   [&](const Tool& tool) {
                     line(d.span, fmt::format("{} {}", spelling(tool.kind), tool.name.text));
                     settings(tool.settings);
                   },
                   [&](const Tunables& tunables) {
                     line(d.span, "tunable_constant");
                     settings(tunables.settings);
                   },
                   [&](const Exclude& exclude) {
                     std::string text = "exclude";
                     for (const Name& option : exclude.options) text += " " + option.text;
                     line(d.span, text + " " + dump_literal(exclude.pattern));
                   },
                   [&](const Statement& s) { statement(s); },
               },
               d.node);
  }

 private:
  void line(Span span, std::string_view text) {
    format::Position at = source_.position(span.begin);
    out_ += fmt::format("{}{} @{}:{}\n", std::string(2 * depth_, ' '), text, at.line, at.column);
  }

  template <typename F>
  void indented(F body) {
    depth_++;
    body();
    depth_--;
  }

  void settings(const std::vector<Setting>& settings) {
    indented([&] {
      for (const Setting& s : settings) {
        std::string text = s.key.text;
        for (const Literal& value : s.values) text += " " + dump_literal(value);
        line(s.key.span, text);
      }
    });
  }

  void constraint(Span span, const Constraint& c) {
    line(span, fmt::format("constraint {} {} is {}", c.name.text, dump_path(c.path),
                           c.is_default ? "default" : dump_type(c.type)));
    statements(c.body);
  }

  void metric(Span span, const Metric& m) {
    line(span, "metric " + m.name.text);
    settings(m.settings);
    indented([&] {
      for (const MetricConstraint& c : m.constraints) {
        if (c.definition)
          constraint(c.name.span, *c.definition);
        else
          line(c.name.span, "constraint " + c.name.text);
      }
      for (const Name& t : m.temporaries) line(t.span, "counter " + t.text);
      for (const Name& f : m.flags) line(f.span, "flag " + f.text);
      for (const Base& base : m.bases) {
        line(base.span, "base is " + dump_type(base.type) + dump_keys(base.keys));
        statements(base.body);
      }
    });
  }

  void statements(const std::vector<Statement>& body) {
    indented([&] {
      for (const Statement& s : body) statement(s);
    });
  }

  void statement(const Statement& s) {
    std::visit(Overloaded{
                   [&](const Block& block) {
                     line(s.span, "block");
                     statements(block.body);
                   },
                   [&](const Foreach& loop) {
                     line(s.span, fmt::format("foreach {} in {}", loop.variable.text, dump(loop.list)));
                     indented([&] { statement(*loop.body); });
                   },
                   [&](const If& branch) {
                     line(s.span, "if " + dump(branch.condition));
                     indented([&] { statement(*branch.body); });
                   },
                   [&](const Insert& insert) { this->insert(s.span, insert); },
               },
               s.node);
  }

  void insert(Span span, const Insert& insert) {
    std::string text = insert.order == format::Order::append ? "append" : "prepend";
    if (insert.when) text += *insert.when == format::When::pre ? " preInsn" : " postInsn";
    line(span, fmt::format("{} {}{}", text, dump(insert.point), insert.constrained ? " constrained" : ""));
    codes(insert.code);
  }

  void codes(const std::vector<CodeStatement>& body) {
    indented([&] {
      for (const CodeStatement& c : body) code(c);
    });
  }

  void code(const CodeStatement& c) {
    std::visit(Overloaded{
                   [&](const ExprCode& statement) { line(c.span, dump(statement.expr)); },
                   [&](const IfCode& branch) {
                     line(c.span, "if " + dump(branch.condition));
                     indented([&] { code(*branch.then); });
                     if (!branch.otherwise) return;
                     line(branch.otherwise->span, "else");
                     indented([&] { code(*branch.otherwise); });
                   },
                   [&](const BlockCode& block) {
                     line(c.span, "block");
                     codes(block.body);
                   },
               },
               c.node);
  }

  const Source& source_;
  std::string out_;
  size_t depth_ = 0;
};

}  // namespace

std::string_view spelling(UnaryOp op) {
  constexpr std::string_view kText[] = {"-", "!", "~", "&"};
  return kText[static_cast<size_t>(op)];
}

std::string_view spelling(BinaryOp op) {
  constexpr std::string_view kText[] = {
      "+", "-", "*", "/", "%", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&", "^", "|", "&&", "||"};
  return kText[static_cast<size_t>(op)];
}

std::string_view spelling(AssignOp op) {
  constexpr std::string_view kText[] = {"=", "+=", "-=", "*="};
  return kText[static_cast<size_t>(op)];
}

std::string_view spelling(ToolKind kind) {
  constexpr std::string_view kText[] = {"daemon", "process", "visi"};
  return kText[static_cast<size_t>(kind)];
}

std::string dump(const Expr& expr) {
  return std::visit(
      Overloaded{
          [](const Integer& i) { return fmt::to_string(i.value); },
          [](const Float& f) { return f.text; },
          [](const String& s) { return fmt::format("\"{}\"", s.text); },
          [](const Boolean& b) { return std::string(b.value ? "true" : "false"); },
          [](const NameUse& n) { return n.text; },
          [](const Field& f) { return fmt::format("{}.{}", dump(*f.object), f.field.text); },
          [](const Index& i) { return fmt::format("{}[{}]", dump(*i.object), dump(*i.index)); },
          [](const Call& call) { return dump_call(call); },
          [](const Unary& u) { return fmt::format("({}{})", spelling(u.op), dump(*u.operand)); },
          [](const Binary& b) {
            return fmt::format("({} {} {})", dump(*b.left), spelling(b.op), dump(*b.right));
          },
          [](const Assign& a) {
            return fmt::format("({} {} {})", dump(*a.target), spelling(a.op), dump(*a.value));
          },
          [](const Step& step) { return dump_step(step); },
      },
      expr.node);
}

std::string dump(const File& file, const Source& source) {
  Dumper dumper(source);
  for (const Definition& d : file.definitions) dumper.definition(d);
  return dumper.take();
}

}  // namespace mdl::ast
