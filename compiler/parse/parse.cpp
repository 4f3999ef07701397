// Text to tree, in four steps: is it text; tokens; ANTLR's parse; our tree.
//
// ANTLR's generated parser is recursive, and so are the walks over its tree and ours, so a
// file of a million parentheses would overflow the stack. A listener counts the depth of
// the parse, which covers every way to nest rules (brackets, prefix operators, `if` without
// braces), and ends the parse at a limit that fits the usual stack of 8 MiB with sanitizers
// on. A chain of operators nests in the tree only; CodeBuilder::expr limits that.
#include "compiler/parse/parse.h"

#include <cctype>

#include "base/utf8.h"
#include "compiler/parse/antlr.h"
#include "compiler/parse/broken.h"
#include "compiler/support/foreign_words.h"
#include "compiler/support/suggest.h"
#include "format/query_verbs.h"

namespace mdl {
namespace parser {

// The lexer is shown this in place of a byte above it: such bytes mean the same everywhere, and ANTLR
// remembers its transitions only for symbols up to this one (25 times as fast).
constexpr size_t kAnyHighByte = 0x7f;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

ByteStream::ByteStream(const Source& source) : text_(source.text()) {
  if (text_.starts_with(kByteOrderMark)) index_ = kByteOrderMark.size();
}

void ByteStream::consume() {
  if (index_ < text_.size()) index_++;
}

size_t ByteStream::LA(ssize_t i) {
  if (i == 0) return 0;
  ssize_t at = static_cast<ssize_t>(index_) + (i > 0 ? i - 1 : i);
  if (at < 0 || at >= static_cast<ssize_t>(text_.size())) return antlr4::IntStream::EOF;
  return std::min<size_t>(static_cast<unsigned char>(text_[static_cast<size_t>(at)]), kAnyHighByte);
}

std::string ByteStream::getText(const antlr4::misc::Interval& interval) {
  if (interval.a < 0 || interval.b < interval.a) return {};
  auto begin = std::min(static_cast<size_t>(interval.a), text_.size());
  return std::string(text_.substr(begin, static_cast<size_t>(interval.b - interval.a) + 1));
}

std::unique_ptr<antlr4::Token> BoundedLexer::nextToken() {
  if (++count_ > kMaxTokens) hitEOF = true;
  return MdlLexer::nextToken();
}

Span span_of(const Source& source, antlr4::Token* token) {
  auto end = static_cast<uint32_t>(source.text().size());
  if (token == nullptr || token->getType() == antlr4::Token::EOF) return {source.ordinal(), end, end};
  return {source.ordinal(), static_cast<uint32_t>(token->getStartIndex()),
          static_cast<uint32_t>(token->getStopIndex() + 1)};
}

Span span_of(const Source& source, antlr4::ParserRuleContext* context) {
  return join(span_of(source, context->getStart()), span_of(source, context->getStop()));
}

}  // namespace parser

namespace {

using parser::MdlLexer;
using parser::MdlParser;

constexpr size_t kMaxDepth = 400;

class DepthLimit : public antlr4::tree::ParseTreeListener {
 public:
  void enterEveryRule(antlr4::ParserRuleContext* context) override {
    if (++depth_ > kMaxDepth) throw parser::TooDeep{context->getStart()};
  }
  void exitEveryRule(antlr4::ParserRuleContext*) override { depth_--; }
  void visitTerminal(antlr4::tree::TerminalNode*) override {}
  void visitErrorNode(antlr4::tree::ErrorNode*) override {}

 private:
  size_t depth_ = 0;
};

bool check_text(const Source& source, Diagnostics& diagnostics) {
  std::string_view text = source.text();
  if (text.size() > Source::kMaxBytes) {
    diagnostics.report(DiagnosticCode::too_large, {source.ordinal(), 0, 0}, Source::kMaxBytes, "bytes");
    return false;
  }
  for (size_t i = 0; i < text.size();) {
    size_t length = text[i] == '\0' ? 0 : utf8_length(text.substr(i));
    if (length == 0) {
      auto at = static_cast<uint32_t>(i);
      diagnostics.report(DiagnosticCode::not_text, {source.ordinal(), at, at + 1},
                         text[i] == '\0' ? "it has a NUL byte" : "it is not UTF-8");
      return false;
    }
    i += length;
  }
  return true;
}

// What such a character of a query may be meant for.
std::string in_query(std::string_view query, size_t at) {
  const std::string_view rest = query.substr(at);
  const bool begins = at > 0 && (query[at - 1] == ' ' || query[at - 1] == ',');
  if (begins && rest.starts_with("::"))
    return fmt::format("a name of the global namespace stands without '::': {}",
                       printable(rest.substr(2, rest.find_first_of(" ,.(", 2) - 2)));
  if (rest.starts_with("::") || rest.starts_with(":{"))
    return "a name with other characters stands in quotes: \"main::{{closure}}\"";
  if (rest[0] == ':') return "a function of an object is /Code/libc.so.6/malloc, one of C++ ns::f";
  if (rest[0] == '#')
    return "methods of Java and Ruby are no functions of the process: those of its libraries are";
  return "";
}

bool is_comparison(size_t type) {
  constexpr size_t kTypes[] = {MdlLexer::LT, MdlLexer::LE, MdlLexer::GT,
                               MdlLexer::GE, MdlLexer::EQ, MdlLexer::NE};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

// `time read > 1ms` and `time read if > 1ms` compare the function with the number that is the token `at`. The whole
// query, as it is meant: without a unit alone it would have no meaning either. "" where a condition has a left side.
std::string with_condition(const Source& source, std::span<antlr4::Token* const> tokens, size_t at) {
  const auto number = plain_number(source.text(parser::span_of(source, tokens[at])));
  if (!number || at < 3 || !is_comparison(tokens[at - 1]->getType())) return "";
  const auto until = tokens.first(at - 1);
  const auto condition = std::ranges::find(until, size_t{MdlLexer::KW_IF}, &antlr4::Token::getType);
  if (condition != until.end() && condition + 1 != until.end()) return "";
  const Span asked = join(parser::span_of(source, tokens[0]), parser::span_of(source, *(condition - 1)));
  return fmt::format("a condition stands behind 'if', and has no units: `{} if {} {} {}`",
                     printable(source.text(asked)), number->is_time ? "elapsed" : "$arg[0]",
                     source.text(parser::span_of(source, tokens[at - 1])), number->value);
}

// What a word that is no number is meant for.
std::string hint_for_number(const Source& source, std::span<antlr4::Token* const> tokens, size_t at,
                            bool of_query) {
  const std::string_view text = source.text(parser::span_of(source, tokens[at]));
  if (of_query && at > 0) {
    const std::string_view before = source.text(parser::span_of(source, tokens[at - 1]));
    if (std::string option = option_of_time(before, printable(text)); !option.empty()) return option;
    if (std::string condition = with_condition(source, tokens, at); !condition.empty()) return condition;
  }
  return without_unit(text);
}

// Reports the tokens that are wrong by themselves, and returns them.
std::vector<Span> check_tokens(const Source& source, antlr4::CommonTokenStream& tokens, bool of_query,
                               Diagnostics& diagnostics) {
  std::vector<Span> wrong;
  size_t stray_line = 0;  // one such character a line is enough
  const std::vector<antlr4::Token*> all = tokens.getTokens();
  for (size_t i = 0; i < all.size(); i++) {
    antlr4::Token* token = all[i];
    size_t type = token->getType();
    if (type != MdlLexer::STRAY && type != MdlLexer::OPEN_STRING && type != MdlLexer::BAD_NUMBER) continue;
    Span span = parser::span_of(source, token);
    wrong.push_back(span);
    std::string text = printable(source.text(span));
    if (type == MdlLexer::STRAY && token->getLine() == stray_line) continue;
    if (type == MdlLexer::STRAY) {
      stray_line = token->getLine();
      diagnostics.report(DiagnosticCode::stray, span, fmt::format("'{}'", text))
          .hint(text == "'" ? "a string stands in \"\""
                : of_query  ? in_query(source.text(), span.begin)
                            : "");
    } else if (type == MdlLexer::OPEN_STRING)
      diagnostics.report(DiagnosticCode::open_string, span)
          .hint("strings have no escapes: they end at the next '\"'");
    else
      diagnostics.report(DiagnosticCode::bad_number, span, text)
          .hint(hint_for_number(source, all, i, of_query));
  }
  return wrong;
}

// Runs `build` on a parser of the tokens. False when it came to no end, which has been reported.
template <typename Build>
bool run(const Source& source, antlr4::CommonTokenStream& tokens, std::string_view end,
         Diagnostics& diagnostics, Build build) {
  MdlParser antlr(&tokens);
  antlr.removeErrorListeners();
  antlr.setErrorHandler(parser::make_error_strategy(source, end, diagnostics));
  antlr.getInterpreter<antlr4::atn::ParserATNSimulator>()->setPredictionMode(
      antlr4::atn::PredictionMode::SLL);
  DepthLimit depth;
  antlr.addParseListener(&depth);
  try {
    build(antlr);
    return true;
  } catch (const parser::TooDeep& deep) {
    diagnostics.report(DiagnosticCode::too_deep, parser::span_of(source, deep.at), kMaxDepth, "levels");
  } catch (const parser::TooManyErrors&) {
    // All that are shown have been reported.
  } catch (const antlr4::RuntimeException& error) {  // the error strategy lets none through
    diagnostics.report(DiagnosticCode::not_text, {source.ordinal(), 0, 0}, error.what());
  }
  return false;
}

// Fills the stream. False where there are more tokens than are accepted.
bool fill(const Source& source, parser::BoundedLexer& lexer, antlr4::BufferedTokenStream& tokens,
          Diagnostics& diagnostics) {
  tokens.fill();
  if (!lexer.ended_early()) return true;
  diagnostics.report(DiagnosticCode::too_large, {source.ordinal(), 0, 0}, kMaxTokens, "tokens");
  return false;
}

// A query whose first word means nothing has no other error: what follows was meant for that word.
bool check_verb(const Source& source, Diagnostics& diagnostics) {
  constexpr std::string_view kBlank = " \t\n";
  const std::string_view text = source.text();
  const size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  size_t end = begin;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
    end++;
  const std::string_view word = text.substr(begin, end - begin);
  if (word.empty() || format::is_query_verb(word)) return true;
  const std::vector<std::string_view> verbs(std::begin(format::kQueryVerbs), std::end(format::kQueryVerbs));
  const std::string foreign = foreign_verb(word);
  const Suggestion near = foreign.empty() ? did_you_mean(word, verbs) : Suggestion();
  const Span span{source.ordinal(), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  diagnostics.report(DiagnosticCode::query_verb, span, printable(word))
      .hint(foreign)
      .hint(near)
      .hint(near.empty() && foreign.empty() ? "a query begins with " + one_of(verbs) + ": `count malloc`"
                                            : "");
  return false;
}

}  // namespace

ast::File parse(const Source& source, Standard standard, Diagnostics& diagnostics) {
  ast::File none;
  none.ordinal = source.ordinal();
  none.readable = false;
  if (!check_text(source, diagnostics)) return none;

  parser::ByteStream bytes(source);
  parser::BoundedLexer lexer(&bytes);
  lexer.removeErrorListeners();
  antlr4::CommonTokenStream tokens(&lexer);
  if (!fill(source, lexer, tokens, diagnostics)) return none;
  size_t before = diagnostics.errors();
  std::vector<Span> wrong = check_tokens(source, tokens, false, diagnostics);

  ast::File tree;
  const bool parsed = run(source, tokens, "the end of the file", diagnostics, [&](MdlParser& antlr) {
    tree = parser::build(source, standard, antlr.file(), wrong, diagnostics);
    if (diagnostics.errors() > before) tree.broken = parser::broken_names(source, tokens, tree.definitions);
  });
  return parsed ? std::move(tree) : std::move(none);
}

std::optional<ast::Query> parse_query(const Source& source, Diagnostics& diagnostics) {
  const size_t before = diagnostics.errors();
  if (!check_text(source, diagnostics) || !check_verb(source, diagnostics)) return std::nullopt;
  parser::ByteStream bytes(source);
  parser::BoundedLexer lexer(&bytes);
  lexer.removeErrorListeners();
  antlr4::ListTokenSource joined(parser::join_long_names(source, lexer));
  antlr4::CommonTokenStream tokens(&joined);
  if (!fill(source, lexer, tokens, diagnostics)) return std::nullopt;
  check_tokens(source, tokens, true, diagnostics);
  if (diagnostics.errors() > before) return std::nullopt;

  std::optional<ast::Query> query;
  run(source, tokens, parser::kEndOfQuery, diagnostics, [&](MdlParser& antlr) {
    MdlParser::QueryContext* tree = antlr.query();
    if (diagnostics.errors() == before) query = parser::build_query(source, tree, diagnostics);
  });
  return diagnostics.errors() == before ? std::move(query) : std::nullopt;
}

}  // namespace mdl
