// Syntax errors: what they say, and how the parser goes on.
//
// ANTLR's strategy finds the place and the set of tokens that could stand there; both are
// good. Its wording lists every token of the set, dozens where a name may be any keyword,
// so sets are first reduced to the words a person would use ("a statement or '}'"). A
// missing ';' is reported where it should have been, after the last token. When the
// parser skips to a token where it can go on, brackets are skipped whole: what stands
// inside belongs to what is skipped, and would only cause more errors.
#include <algorithm>

#include "compiler/parse/antlr.h"
#include "compiler/support/foreign_words.h"
#include "compiler/support/suggest.h"
#include "format/query_verbs.h"

namespace mdl::parser {
namespace {

using antlr4::Token;
using Tokens = antlr4::misc::IntervalSet;
using P = MdlParser;

constexpr size_t kMaxListed = 6;
constexpr size_t kMaxUnread = 1000;

bool is_keyword(size_t type) {
  return type >= P::KW_LIST && type <= P::KW_REGEX;
}

// Not what begins a statement, though it may be a name, too.
bool begins_place(size_t type) {
  return type == P::ID || (is_keyword(type) && type != P::KW_APPEND && type != P::KW_PREPEND &&
                           type != P::KW_FOREACH && type != P::KW_IF);
}

// Words of other languages.
std::string foreign_word(std::string_view word) {
  struct Row {
    std::string_view word, text;
  };
  constexpr Row kRows[] = {
      {"for", "a list is visited by 'foreach NAME in LIST'"},
      {"insert", "code is put at a point by 'append' or 'prepend'"},
      {"add", "code is put at a point by 'append' or 'prepend'"},
      {"else", "outside of code there is no 'else': write a second 'if'"},
      {"include", "all files of one command are one program: name them there"},
      {"import", "all files of one command are one program: name them there"},
      {"aggregate", "did you mean 'aggregateOperator'?"},
  };
  for (const Row& row : kRows)
    if (row.word == word) return std::string(row.text);
  return "";
}

// The spelling of a keyword or a mark.
std::string keyword(size_t type, const antlr4::dfa::Vocabulary& vocabulary) {
  if (type == P::KW_LIST) return "resourceList";
  if (type == P::KW_PRE) return "preInsn";
  if (type == P::KW_POST) return "postInsn";
  std::string literal = vocabulary.getLiteralName(type);  // in quotes
  return literal.size() > 2 ? literal.substr(1, literal.size() - 2) : vocabulary.getDisplayName(type);
}

constexpr size_t kOperators[] = {
    P::DOT,   P::LBRACKET, P::LPAREN, P::INC, P::DEC, P::STAR,   P::SLASH,      P::PERCENT,    P::PLUS,
    P::MINUS, P::SHL,      P::SHR,    P::LT,  P::LE,  P::GT,     P::GE,         P::EQ,         P::NE,
    P::AMP,   P::CARET,    P::PIPE,   P::AND, P::OR,  P::ASSIGN, P::ADD_ASSIGN, P::SUB_ASSIGN, P::MUL_ASSIGN,
};

// A set of tokens, taken away group by group as each is put into words.
class Wording {
 public:
  Wording(const Tokens& set, std::string_view end, const antlr4::dfa::Vocabulary& vocabulary)
      : end_(end), vocabulary_(vocabulary) {
    for (ssize_t type : set.toList()) left_.push_back(static_cast<size_t>(type));
  }

  std::vector<std::string> words() {
    groups();
    for (size_t type : left_)
      say(type == Token::EOF ? std::string(end_) : fmt::format("'{}'", keyword(type, vocabulary_)));
    return std::move(said_);
  }

 private:
  bool has(size_t type) const { return std::find(left_.begin(), left_.end(), type) != left_.end(); }
  void say(std::string word) {
    if (std::find(said_.begin(), said_.end(), word) == said_.end()) said_.push_back(std::move(word));
  }
  template <typename Predicate>
  void drop_if(Predicate predicate) {
    left_.erase(std::remove_if(left_.begin(), left_.end(), predicate), left_.end());
  }
  void drop(std::initializer_list<size_t> types) {
    drop_if([&](size_t type) { return std::find(types.begin(), types.end(), type) != types.end(); });
  }

  void groups() {
    if (has(P::LONG_NAME)) {
      say(has(P::NOT) ? "a function or a value" : "a function");
      drop({P::LONG_NAME, P::ID, P::LPAREN, P::NOT, P::MINUS, P::TILDE, P::AMP, P::INC, P::DEC});
      drop_if([](size_t t) { return is_keyword(t); });
      drop_values();
    }
    bool name = has(P::ID);
    if (name && has(P::NOT)) {
      say(has(P::KW_IF) ? "code" : "an expression");
      if (has(P::KW_IF)) drop({P::SEMI, P::LBRACE, P::KW_ELSE});
      drop({P::LPAREN, P::NOT, P::MINUS, P::TILDE, P::AMP, P::INC, P::DEC, P::ID});
      drop_values();
    } else if (has(P::MINUS) && has(P::INT)) {
      say("a value");
      drop({P::MINUS});
      drop_values();
    } else if (has(P::PLUS) || has(P::DOT)) {  // after an expression, what ends it is the better word
      drop_if([](size_t t) {
        return std::find(std::begin(kOperators), std::end(kOperators), t) != std::end(kOperators);
      });
      if (left_.empty()) say("an operator");
    }
    if (name) {
      if (has(P::ID)) say("a name");
      drop({P::ID});
      drop_if([](size_t t) { return is_keyword(t); });
    } else if (has(P::KW_METRIC)) {
      say("a definition");
      drop_if([](size_t t) { return is_keyword(t) || t == P::SEMI || t == P::LBRACE || t == Token::EOF; });
    } else if (has(P::KW_UNITS)) {
      say("a metric field");
      drop_if([](size_t t) { return is_keyword(t) || t == P::SEMI; });
    } else if (has(P::KW_FOREACH)) {
      say("a statement");
      drop({P::KW_FOREACH, P::KW_IF, P::KW_APPEND, P::KW_PREPEND, P::LBRACE, P::SEMI});
    }
    if (has(P::STRING)) say("a string");
    if (has(P::INT)) say("a number");
    if (has(P::KW_TRUE)) say("true or false");
    drop_values();
  }

  void drop_values() {
    drop({P::STRING, P::OPEN_STRING, P::INT, P::HEX, P::FLOAT, P::BAD_NUMBER, P::KW_TRUE, P::KW_FALSE});
  }

  std::string_view end_;
  const antlr4::dfa::Vocabulary& vocabulary_;
  std::vector<size_t> left_;
  std::vector<std::string> said_;
};

class ErrorStrategy : public antlr4::DefaultErrorStrategy {
 public:
  ErrorStrategy(const Source& source, std::string_view end, Diagnostics& diagnostics)
      : source_(source), end_(end), diagnostics_(diagnostics) {}

  void sync(antlr4::Parser* parser) override;
  Token* recoverInline(antlr4::Parser* parser) override;

 protected:
  Token* singleTokenDeletion(antlr4::Parser* parser) override;
  void reportNoViableAlternative(antlr4::Parser* parser, const antlr4::NoViableAltException& e) override {
    report(parser, e.getOffendingToken(), e.getExpectedTokens());
  }
  void reportInputMismatch(antlr4::Parser* parser, const antlr4::InputMismatchException& e) override {
    report(parser, e.getOffendingToken(), e.getExpectedTokens());
  }
  void reportUnwantedToken(antlr4::Parser* parser) override { report_current(parser); }
  void reportMissingToken(antlr4::Parser* parser) override { report_current(parser); }
  void consumeUntil(antlr4::Parser* parser, const Tokens& set) override;

 private:
  void report_current(antlr4::Parser* parser) {
    if (inErrorRecoveryMode(parser)) return;
    beginErrorCondition(parser);
    report(parser, parser->getCurrentToken(), parser->getExpectedTokens());
  }
  void report(antlr4::Parser* parser, Token* found, const Tokens& expected);
  Suggestion hint(antlr4::Parser* parser, Token* found, const Tokens& expected) const;
  std::string hint_in_query(antlr4::Parser* parser, Token* found, bool is_no_typo) const;
  std::string hint_in_file(antlr4::Parser* parser, Token* found, const Tokens& expected) const;
  std::string instead_of_semicolon(antlr4::Parser* parser) const;
  bool is_c_comment(Token* found) const;
  bool follows_from_another(antlr4::Parser* parser, Token* found);
  void skip_code(antlr4::Parser* parser);
  void skip(antlr4::Parser* parser);
  void skip_braces(antlr4::Parser* parser);

  const Source& source_;
  std::string_view end_;
  Diagnostics& diagnostics_;
  bool has_reported_ = false;  // one error is enough for a query
  size_t unread_ = 0;          // errors that are only counted
  bool wants_code_ = false;    // the last error was that no code stands where code should
  size_t line_of_error_ = 0;   // of the last error at a bracket or at code
};

std::string describe(const Source& source, std::string_view end, Token* token) {
  if (token->getType() == Token::EOF) return std::string(end);
  std::string text = printable(source.text(span_of(source, token)));
  return token->getType() == P::STRING ? text : fmt::format("'{}'", text);
}

void ErrorStrategy::report(antlr4::Parser* parser, Token* found, const Tokens& expected) {
  Token* last = parser->getTokenStream()->LT(-1);
  const bool of_query = end_ == kEndOfQuery;
  if (follows_from_another(parser, found) || (of_query && std::exchange(has_reported_, true))) return;
  wants_code_ = expected.contains(static_cast<size_t>(P::CODE_OPEN));
  if (wants_code_ || found->getType() == P::LPAREN) line_of_error_ = found->getLine();
  if (diagnostics_.errors() >= Diagnostics::kLimit) {
    diagnostics_.report(DiagnosticCode::syntax, span_of(source_, found), "", "");  // counted only
    if (++unread_ == kMaxUnread) throw TooManyErrors();
    return;
  }
  std::vector<std::string> words = Wording(expected, end_, parser->getVocabulary()).words();
  if (words.size() == 1 && words[0] == "';'" && last != nullptr) {
    Span after = span_of(source_, last);
    Span place{after.file, after.end, after.end};
    if (const std::string foreign = instead_of_semicolon(parser); !foreign.empty()) {
      diagnostics_.report(DiagnosticCode::missing_semicolon, place, describe(source_, end_, last))
          .hint(foreign);
      return;
    }
    diagnostics_.report(DiagnosticCode::missing_semicolon, place, describe(source_, end_, last))
        .edit(place, ";");
    return;
  }
  if (words.size() > kMaxListed) words.resize(kMaxListed);
  std::vector<std::string_view> views(words.begin(), words.end());
  const Suggestion near = hint(parser, found, expected);
  const std::string in_query = of_query ? hint_in_query(parser, found, near.empty()) : "";
  diagnostics_
      .report(DiagnosticCode::syntax, span_of(source_, found), one_of(views), describe(source_, end_, found))
      .hint(is_c_comment(found) ? "a comment is '//' to the end of its line" : "")
      .hint(in_query.empty() ? near : Suggestion())
      .hint(in_query)
      .hint(of_query || !near.empty() || is_c_comment(found) ? "" : hint_in_file(parser, found, expected))
      .hint(foreign_word(source_.text(span_of(source_, found))));
}

// Statements of C after whose beginning a ';' would help nobody: a loop, a variable, a word for `else if`.
std::string ErrorStrategy::instead_of_semicolon(antlr4::Parser* parser) const {
  antlr4::TokenStream& tokens = *parser->getTokenStream();
  const auto is_one_of = [&](Token* token, std::initializer_list<std::string_view> words) {
    return token != nullptr && std::ranges::find(words, source_.text(span_of(source_, token))) != words.end();
  };
  if (is_one_of(tokens.LT(-1), {"elsif", "elif", "elseif"}))
    return "behind an 'if' stands 'else if (CONDITION)'";
  if (is_one_of(tokens.LT(-1),
                {"int", "long", "short", "char", "unsigned", "double", "float", "auto", "var", "let"}) &&
      tokens.LA(1) == P::ID)
    return "a temporary is declared in the metric, beside its base: 'counter NAME;'";
  if (tokens.LA(-1) != P::RPAREN) return "";
  int at = -1;
  for (int depth = 0; tokens.LT(at) != nullptr; at--) {
    depth += tokens.LA(at) == P::RPAREN ? 1 : tokens.LA(at) == P::LPAREN ? -1 : 0;
    if (depth == 0) break;
  }
  return is_one_of(tokens.LT(at - 1), {"while", "for", "switch"})
             ? "code has no loops: it runs once at each hit"
             : "";
}

// Sources are written by people who know C.
std::string ErrorStrategy::hint_in_file(antlr4::Parser* parser, Token* found, const Tokens& expected) const {
  antlr4::TokenStream& tokens = *parser->getTokenStream();
  const auto text = [&](Token* token) {
    return token == nullptr ? std::string_view() : source_.text(span_of(source_, token));
  };
  const size_t type = found->getType();
  if (type == P::LBRACE && expected.contains(static_cast<size_t>(P::CODE_OPEN)))
    return "code that runs in the process stands between '(*' and '*)'";
  if (type == P::LPAREN && text(tokens.LT(-1)) == "foreach")
    return "'foreach NAME in LIST' has no parentheses";
  const bool is_item = expected.size() == 1 || expected.contains(static_cast<size_t>(P::RBRACE));
  if (type == P::ID && is_item && expected.contains(static_cast<size_t>(P::STRING)))
    return fmt::format("a string stands in \"\": \"{}\"", text(found));
  if (type == P::STAR || (type == P::GT && text(tokens.LT(-1)) == "-"))
    return "what a pointer leads to is `readAddress(ADDRESS)`";
  if (expected.contains(static_cast<size_t>(P::KW_METRIC)) && format::is_query_verb(text(found)))
    return "a query stands on the command line: mdl-inject PID 'count malloc'";
  return "";
}

// Queries are typed by people who know other tools, and a shell's quotes hide those that a name needs.
std::string ErrorStrategy::hint_in_query(antlr4::Parser* parser, Token* found, bool is_no_typo) const {
  antlr4::TokenStream& tokens = *parser->getTokenStream();
  const auto text = [&](Token* token) {
    return token == nullptr ? std::string_view() : source_.text(span_of(source_, token));
  };
  const std::string_view word = text(found), before = text(tokens.LT(-1));
  const size_t type = found->getType();
  const bool is_second = found->getTokenIndex() == 2;  // behind the verb and another word
  if (is_second && (before == "of" || before == "in" || before == "for"))
    return fmt::format("a function stands right behind '{}'", text(tokens.get(0)));
  if (found->getTokenIndex() > 2 && format::is_query_verb(before))
    return fmt::format("each query is a word of its own: '{} ...' '{} {}'", text(tokens.get(0)), before,
                       word);
  if (is_unit_of_time(text(tokens.LT(2))) && (word == "in" || word == "as"))
    return "times are nanoseconds, which the table on a terminal shows in the unit that fits";
  if (std::string foreign = foreign_clause(word); !foreign.empty()) return foreign;
  if (is_second && (word == "entry" || word == "return"))
    return fmt::format("a point stands behind a '.': {} {}.{}", text(tokens.get(0)), before, word);
  if (before == "operator") return fmt::format("a name with blanks stands in quotes: \"operator {}\"", word);
  if (before == "=" && (type == P::GT || type == P::LT)) return fmt::format("'{}=' compares", word);
  if (type == P::GT && before == "-") return "what a pointer leads to is `readAddress(ADDRESS)`";
  if (type == P::LPAREN) return "a name with its parameters stands in quotes: \"ns::f(int)\"";
  const bool is_number = before == "." && type == P::INT;
  const bool is_version = is_number && text(tokens.LT(2)) == "/";  // libc.so.6/malloc
  if (type == P::SLASH || before == "/" || word == "!" || is_version)
    return "a function of an object is a path: /Code/OBJECT/FUNCTION, /Code/libc.so.6/malloc";
  if (is_number) return "a name that has a '.' in it stands in quotes: \"f.constprop.0\"";
  if (type == P::STAR)
    return "a pattern that begins so stands in quotes: \"*Command\"; all of an object is /Code/OBJECT/*";
  constexpr std::string_view kOfValues[] = {"sum", "min", "max", "avg", "hist"};
  const std::string_view verb = text(tokens.get(0));
  if (type == P::ID && is_no_typo && std::ranges::find(kOfValues, verb) != std::end(kOfValues)) {
    std::string value;  // of several words: $arg[0]
    for (size_t i = 1; i < found->getTokenIndex(); i++) value += text(tokens.get(i));
    return fmt::format("a value is taken 'at' a function: {} {} at {}", verb, value, word);
  }
  if (std::string foreign = foreign_value(word); is_second && is_no_typo && !foreign.empty()) return foreign;
  if (type == P::ID && is_second && is_no_typo)
    return fmt::format("several functions have commas between them: {}, {}", before, word);
  return "";
}

// One error is enough for what an unfinished string swallowed, what stands behind a character that has no
// meaning, and the closing bracket of one that should not be there.
bool ErrorStrategy::follows_from_another(antlr4::Parser* parser, Token* found) {
  antlr4::TokenStream* tokens = parser->getTokenStream();
  Token* last = tokens->LT(-1);
  if (last != nullptr && last->getType() == P::OPEN_STRING) return true;
  const size_t at = found->getTokenIndex();
  if (at > 0 && tokens->get(at - 1)->getType() == P::STRAY) return true;
  const bool closes = found->getType() == P::RPAREN || found->getType() == P::CODE_CLOSE;
  return closes && found->getLine() == line_of_error_;
}

// An opening brace is never one too many: what it opens would be read as something else.
Token* ErrorStrategy::singleTokenDeletion(antlr4::Parser* parser) {
  if (parser->getTokenStream()->LA(1) == P::LBRACE) return nullptr;
  return DefaultErrorStrategy::singleTokenDeletion(parser);
}

// ANTLR gives up the whole rule when the first item of a loop is wrong, but skips to the next
// item when a later one is. The latter is right for both.
void ErrorStrategy::sync(antlr4::Parser* parser) {
  const antlr4::atn::ATN& atn = parser->getInterpreter<antlr4::atn::ParserATNSimulator>()->atn;
  antlr4::atn::ATNState* state = atn.states[parser->getState()];
  if (state->getStateType() != antlr4::atn::ATNState::STAR_LOOP_ENTRY)
    return DefaultErrorStrategy::sync(parser);
  if (inErrorRecoveryMode(parser)) return;
  Tokens next = atn.nextTokens(state);
  if (next.contains(Token::EPSILON) || next.contains(parser->getTokenStream()->LA(1))) return;
  reportUnwantedToken(parser);
  consumeUntil(parser, getExpectedTokens(parser).Or(getErrorRecoverySet(parser)));
}

// A misspelt keyword stands for the keyword, and so does another word where one keyword alone may stand and a
// word follows: `foreach f of list`.
Token* ErrorStrategy::recoverInline(antlr4::Parser* parser) {
  Token* found = parser->getCurrentToken();
  const Tokens expected = parser->getExpectedTokens();
  const bool replaces = expected.size() == 1 && is_keyword(static_cast<size_t>(expected.getMinElement())) &&
                        begins_place(parser->getTokenStream()->LA(2));
  if (found->getType() != P::ID || (!replaces && hint(parser, found, expected).empty()))
    return DefaultErrorStrategy::recoverInline(parser);
  report_current(parser);
  parser->consume();
  return found;
}

bool ErrorStrategy::is_c_comment(Token* found) const {
  Span span = span_of(source_, found);
  return source_.text({span.file, span.begin, span.begin + 2}) == "/*";
}

// A keyword with a typing error.
Suggestion ErrorStrategy::hint(antlr4::Parser* parser, Token* found, const Tokens& expected) const {
  Span span = span_of(source_, found);
  if (found->getType() != P::ID || expected.contains(static_cast<size_t>(P::ID))) return {};
  std::vector<std::string> words;
  for (ssize_t type : expected.toList())
    if (is_keyword(static_cast<size_t>(type)))
      words.push_back(keyword(static_cast<size_t>(type), parser->getVocabulary()));
  std::vector<std::string_view> views(words.begin(), words.end());
  return did_you_mean(source_.text(span), views);
}

bool begins_definition(size_t type) {
  constexpr size_t kFirst[] = {P::KW_LIST, P::KW_CONSTRAINT, P::KW_METRIC,  P::KW_DAEMON, P::KW_PROCESS,
                               P::KW_VISI, P::KW_TUNABLE,    P::KW_EXCLUDE, Token::EOF};
  return std::find(std::begin(kFirst), std::end(kFirst), type) != std::end(kFirst);
}

void ErrorStrategy::consumeUntil(antlr4::Parser* parser, const Tokens& set) {
  antlr4::TokenStream* tokens = parser->getTokenStream();
  bool between_definitions = parser->getRuleContext()->getRuleIndex() == P::RuleFile;
  if (wants_code_) skip_code(parser);
  for (;;) {
    size_t type = tokens->LA(1);
    if (type == Token::EOF) return;
    if (between_definitions ? begins_definition(type) : set.contains(type)) return;
    skip(parser);
  }
}

// Where code is expected: what is meant to be it, in other brackets, or without the opening one.
void ErrorStrategy::skip_code(antlr4::Parser* parser) {
  constexpr ssize_t kMost = 200;
  antlr4::TokenStream* tokens = parser->getTokenStream();
  wants_code_ = false;
  if (tokens->LA(1) == P::LBRACE) return skip_braces(parser);
  const size_t close = tokens->LA(1) == P::LPAREN ? P::RPAREN : P::CODE_CLOSE;
  for (ssize_t ahead = 1; ahead < kMost; ahead++) {
    const size_t type = tokens->LA(ahead);
    if (type == P::LBRACE || type == P::RBRACE || type == P::CODE_OPEN || type == Token::EOF) return;
    if (type != close) continue;
    for (; ahead > 0; ahead--) parser->consume();
    return;
  }
}

// Consumes one token; with an opening bracket, what it brackets.
void ErrorStrategy::skip(antlr4::Parser* parser) {
  antlr4::TokenStream* tokens = parser->getTokenStream();
  size_t open = tokens->LA(1);
  if (open == P::LBRACE) return skip_braces(parser);
  parser->consume();
  if (open != P::CODE_OPEN && open != P::LPAREN) return;
  size_t close = open == P::CODE_OPEN ? P::CODE_CLOSE : P::RPAREN;
  for (size_t type = tokens->LA(1); type != Token::EOF; type = tokens->LA(1)) {
    if (type == P::LBRACE || type == P::RBRACE || (open == P::LPAREN && type == P::SEMI)) return;
    parser->consume();
    if (type == close) return;
  }
}

// Consumes '{' to its '}'. If a definition begins inside, a brace is missing: it stops there.
void ErrorStrategy::skip_braces(antlr4::Parser* parser) {
  antlr4::TokenStream* tokens = parser->getTokenStream();
  size_t depth = 0;
  for (size_t type = tokens->LA(1); type != Token::EOF; type = tokens->LA(1)) {
    if (type == P::KW_METRIC || type == P::KW_LIST) return;
    parser->consume();
    if (type == P::LBRACE) depth++;
    if (type == P::RBRACE && --depth == 0) return;
  }
}

}  // namespace

std::shared_ptr<antlr4::ANTLRErrorStrategy> make_error_strategy(const Source& source, std::string_view end,
                                                                Diagnostics& diagnostics) {
  return std::make_shared<ErrorStrategy>(source, end, diagnostics);
}

}  // namespace mdl::parser
