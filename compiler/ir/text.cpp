#include "compiler/ir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "compiler/ir/op_info.h"

namespace mdl::ir {
namespace {

std::string operand_text(const Operand& operand) {
  return operand.kind == Operand::Kind::temp ? fmt::format("%{}", operand.value)
                                             : fmt::format("{}", operand.value);
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// One line's words; a comma is white space, `:` and `{` end words like any other character.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line.substr(0, line.find('#'))) { skip(); }

  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    size_t end = 0;
    while (end < rest_.size() && !is_space(rest_[end]) && rest_[end] != ',') end++;
    std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip();
    return word;
  }
  bool accept(std::string_view wanted) {
    Words before = *this;
    if (next() == wanted) return true;
    *this = before;
    return false;
  }
  std::string_view rest() const { return rest_; }

 private:
  void skip() {
    while (!rest_.empty() && (is_space(rest_[0]) || rest_[0] == ',')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

template <typename Number>
bool read_number(std::string_view word, Number& into) {
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), into);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

// Each function returns what is wrong, "" for nothing.
class Parser {
 public:
  Result<std::vector<Snippet>> run(std::string_view text) {
    for (size_t number = 1; !text.empty(); number++) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      if (std::string wrong = read_line(line); !wrong.empty())
        return Error{fmt::format("IR text, line {}: {}", number, wrong)};
    }
    if (inside_) return Error{"IR text: the last snippet has no closing brace"};
    return std::move(snippets_);
  }

 private:
  std::string read_line(std::string_view line) {
    Words words(line);
    if (words.at_end()) return "";
    if (!inside_) return read_header(words);
    if (words.accept("}")) return inside_ = false, finish(words);
    if (words.accept("cell")) return read_cell(words);
    // The rest of these lines is JSON: `#` and commas in it are its own.
    if (words.accept("constant")) return read_constant(line.substr(line.find("constant") + 8));
    if (words.accept("variable")) return read_symbol(line, "variable", format::SymbolKind::variable);
    if (words.accept("function")) return read_symbol(line, "function", format::SymbolKind::function);
    return read_inst(words);
  }

  std::string finish(const Words& words) {
    return words.at_end() ? "" : fmt::format("unexpected \"{}\"", words.rest());
  }

  std::string read_header(Words& words) {
    Snippet snippet;
    if (!words.accept("snippet")) return fmt::format("expected \"snippet\", not \"{}\"", words.rest());
    snippet.name = words.next();
    if (!words.accept("at")) return "expected \"at POINT\"";
    std::string_view point = words.next();
    std::optional<format::PointKind> kind = format::point_kind(point);
    if (!kind) return fmt::format("unknown point \"{}\"", point);
    snippet.point = *kind;
    if (!words.accept("temps") || !read_number(words.next(), snippet.temps)) return "expected \"temps N\"";
    if (!words.accept("labels") || !read_number(words.next(), snippet.labels)) return "expected \"labels N\"";
    if (!words.accept("from") || !read_position(words.next(), snippet.position))
      return "expected \"from FILE:LINE:COLUMN\"";
    if (!words.accept("{")) return "expected \"{\"";
    snippets_.push_back(std::move(snippet));
    inside_ = true;
    return finish(words);
  }

  bool read_position(std::string_view word, format::Position& position) {
    size_t first = word.find(':');
    size_t last = word.rfind(':');
    return first != last && read_number(word.substr(0, first), position.file) &&
           read_number(word.substr(first + 1, last - first - 1), position.line) &&
           read_number(word.substr(last + 1), position.column);
  }

  std::string read_cell(Words& words) {
    std::string name(words.next());
    std::string_view word = words.next();
    std::optional<format::CellKind> kind = format::cell_kind(word);
    if (!kind) return fmt::format("unknown kind of cell \"{}\"", word);
    std::string event;
    if (format::info(*kind).clock == format::CellClock::event) {
      event = words.next();
      if (!format::event(event)) return fmt::format("unknown event \"{}\"", event);
    }
    snippets_.back().cells.push_back({std::move(name), *kind, std::move(event)});
    return finish(words);
  }

  std::string read_constant(std::string_view json) {
    Result<format::Expr> expr = format::read_expr(std::string(json));
    if (!expr) return expr.error().text;
    snippets_.back().constants.push_back(std::move(*expr));
    return "";
  }

  std::string read_symbol(std::string_view line, std::string_view word, format::SymbolKind kind) {
    auto name = read_json(line.substr(line.find(word) + word.size()));
    if (!name.is_string() || name.get_ref<const std::string&>().empty())
      return fmt::format("expected {} \"NAME\"", word);
    snippets_.back().symbols.push_back({name.get<std::string>(), kind});
    return "";
  }

  std::string read_inst(Words& words) {
    Inst inst;
    std::string_view word = words.next();
    if (word.size() > 2 && word[0] == 'L' && word.back() == ':') {
      inst.op = Op::label;
      if (!read_number(word.substr(1, word.size() - 2), inst.index))
        return fmt::format("bad label \"{}\"", word);
      return add(inst, words);
    }
    bool has_dst = !word.empty() && word[0] == '%';
    if (has_dst) {
      if (!read_number(word.substr(1), inst.dst) || !words.accept("=")) return "expected \"%N = OPERATION\"";
      word = words.next();
    }
    std::optional<Op> op = find_op(word);
    if (!op || *op == Op::label) return fmt::format("unknown operation \"{}\"", word);
    inst.op = *op;
    const OpInfo& rule = info(inst.op);
    if (rule.defines != has_dst)
      return fmt::format("\"{}\" {} result", rule.text, rule.defines ? "needs a" : "has no");
    return read_operands(inst, words);
  }

  std::string read_operands(Inst& inst, Words& words) {
    const OpInfo& rule = info(inst.op);
    if (rule.field == FieldRule::CELL) {
      std::string_view name = words.next();
      const auto& cells = snippets_.back().cells;
      auto found =
          std::find_if(cells.begin(), cells.end(), [&](const auto& cell) { return cell.name == name; });
      if (found == cells.end()) return fmt::format("unknown cell \"{}\"", name);
      inst.index = static_cast<uint32_t>(found - cells.begin());
    }
    bool number =
        rule.field == FieldRule::NUMBER || rule.field == FieldRule::CONST || rule.field == FieldRule::SYMBOL;
    if (number && !read_number(words.next(), inst.index)) return "expected a number";
    if (rule.a != OperandRule::N && !read_operand(words.next(), inst.a)) return "expected an operand";
    if (rule.b != OperandRule::N && !read_operand(words.next(), inst.b)) return "expected a second operand";
    if (rule.field == FieldRule::LABEL) {
      std::string_view word = words.next();
      if (word.empty() || word[0] != 'L' || !read_number(word.substr(1), inst.index))
        return "expected a label";
    }
    return add(inst, words);
  }

  bool read_operand(std::string_view word, Operand& operand) {
    bool is_temp = !word.empty() && word[0] == '%';
    if (!is_temp) {
      operand.kind = Operand::Kind::immediate;
      return read_number(word, operand.value);
    }
    Temp temp = kNoTemp;
    if (!read_number(word.substr(1), temp)) return false;
    operand = Operand::temp(temp);
    return true;
  }

  std::string add(const Inst& inst, const Words& words) {
    snippets_.back().insts.push_back(inst);
    return finish(words);
  }

  std::vector<Snippet> snippets_;
  bool inside_ = false;  // a snippet's braces
};

}  // namespace

std::string print(const Inst& inst, const Snippet& snippet) {
  const OpInfo& rule = info(inst.op);
  if (inst.op == Op::label) return fmt::format("L{}:", inst.index);
  std::string result = rule.defines ? fmt::format("%{} = {}", inst.dst, rule.text) : std::string(rule.text);
  const char* separator = " ";
  auto add = [&](const std::string& word) {
    result += separator + word;
    separator = ", ";
  };
  if (rule.field == FieldRule::CELL)
    add(inst.index < snippet.cells.size() ? snippet.cells[inst.index].name : fmt::format("?{}", inst.index));
  if (rule.field == FieldRule::NUMBER || rule.field == FieldRule::CONST || rule.field == FieldRule::SYMBOL)
    add(fmt::format("{}", inst.index));
  if (inst.a.kind != Operand::Kind::none) add(operand_text(inst.a));
  if (inst.b.kind != Operand::Kind::none) add(operand_text(inst.b));
  if (rule.field == FieldRule::LABEL) add(fmt::format("L{}", inst.index));
  return result;
}

std::string print(const Snippet& snippet) {
  const format::Position& at = snippet.position;
  std::string result = fmt::format("snippet {} at {} temps {} labels {} from {}:{}:{} {{\n", snippet.name,
                                   format::info(snippet.point).name, snippet.temps, snippet.labels, at.file,
                                   at.line, at.column);
  for (const format::Cell& cell : snippet.cells)
    result += fmt::format("  cell {} {}{}{}\n", cell.name, format::info(cell.kind).name,
                          cell.event.empty() ? "" : " ", cell.event);
  for (const format::Expr& constant : snippet.constants)
    result += fmt::format("  constant {}\n", format::write_expr(constant));
  for (const format::SymbolUse& symbol : snippet.symbols)
    result += fmt::format("  {} {}\n", symbol.kind == format::SymbolKind::variable ? "variable" : "function",
                          write_json(nlohmann::json(symbol.name)));
  for (const Inst& inst : snippet.insts)
    result += fmt::format("{}{}\n", inst.op == Op::label ? "" : "  ", print(inst, snippet));
  return result + "}\n";
}

Result<std::vector<Snippet>> parse(std::string_view text) {
  return Parser().run(text);
}

}  // namespace mdl::ir
