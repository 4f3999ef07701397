// ANTLR's tree of a query to ours.
#include "compiler/parse/build.h"

namespace mdl::parser {
namespace {

using P = MdlParser;

constexpr std::string_view kCode = "/Code/";

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

// The end of a path that begins at `begin`: a blank, or a comma outside of parentheses.
size_t end_of_path(std::string_view text, size_t begin) {
  int depth = 0;
  size_t at = begin;
  for (; at < text.size() && !is_blank(text[at]); at++) {
    if (text[at] == ',' && depth <= 0) break;
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
  }
  return at;
}

// The end of `<…>` that begins at `at`, as template arguments are written; `at` where none does.
size_t end_of_arguments(std::string_view text, size_t at) {
  constexpr size_t kLongest = 1000;  // each word of a text is looked at
  int depth = 0;
  for (size_t i = at; i < std::min(text.size(), at + kLongest) && text[i] != '"' && text[i] != '\n'; i++) {
    depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (depth == 0) return i == at ? at : i + 1;
  }
  return at;
}

// The end of `a::b<int>::~c` or of a pattern, `a::*::c`, where the first word ends at `at`.
size_t end_of_qualified(std::string_view text, size_t at) {
  const auto leads_on = [&](size_t end) { return text.substr(end).starts_with("::"); };
  if (const size_t end = end_of_arguments(text, at); leads_on(end)) at = end;
  while (leads_on(at)) {
    size_t next = at + 2;
    if (next < text.size() && text[next] == '~') next++;
    size_t end = next;
    while (end < text.size() && (is_word(text[end]) || text[end] == '*' || text[end] == '?')) end++;
    if (end == next) break;
    at = end_of_arguments(text, end);
  }
  return at;
}

// The end of the long name that a token begins; its own end where it begins none.
size_t end_of_name(std::string_view text, const antlr4::Token& token) {
  const size_t begin = token.getStartIndex(), end = token.getStopIndex() + 1;
  if (token.getType() == P::SLASH) {
    const bool first = begin == 0 || is_blank(text[begin - 1]) || text[begin - 1] == ',';
    const bool names = end < text.size() && text[end] >= 'A' && text[end] <= 'Z';
    return first && names ? end_of_path(text, begin) : end;
  }
  return is_word(text[begin]) || token.getType() == P::STAR ? end_of_qualified(text, end) : end;
}

class Builder {
 public:
  Builder(const Source& source, Diagnostics& diagnostics)
      : source_(source), diagnostics_(diagnostics), code_(source, Standard::mdl26, diagnostics) {}

  ast::Query query(P::QueryContext* context) {
    ast::Query q{{source_.ordinal(), 0, static_cast<uint32_t>(source_.text().size())},
                 code_.name(context->word()),
                 std::nullopt,
                 {},
                 {},
                 {},
                 {},
                 {}};
    if (auto* about = context->about()) {
      q.subjects = subjects(about->subjects());
      if (auto* value = about->expr()) q.value = code_.expr(value);
    }
    for (auto* clause : context->queryClause()) {
      if (auto* c = dynamic_cast<P::IfClauseContext*>(clause)) q.conditions.push_back(code_.expr(c->expr()));
      if (auto* c = dynamic_cast<P::WithinClauseContext*>(clause))
        q.within.push_back(subjects(c->subjects()));
      if (auto* c = dynamic_cast<P::AsClauseContext*>(clause)) q.names.push_back(code_.name(c->word()));
      if (auto* c = dynamic_cast<P::ByClauseContext*>(clause)) {
        q.keys.emplace_back();
        for (auto* key : c->expr()) q.keys.back().push_back(code_.expr(key));
      }
    }
    return q;
  }

 private:
  std::vector<ast::Subject> subjects(P::SubjectsContext* context) {
    std::vector<ast::Subject> result;
    if (context != nullptr)
      for (auto* one : context->subject()) result.push_back(subject(one));
    return result;
  }

  ast::Subject subject(P::SubjectContext* context) {
    ast::Subject result;
    result.span = span_of(source_, context);
    Span name = span_of(source_, context->getStart());
    if (context->DOT() != nullptr) result.point = code_.name(context->word().back());
    const bool quoted = context->string() != nullptr;
    std::string text = quoted ? code_.unquoted(name) : std::string(source_.text(name));
    if (!quoted) split_point(text, name, result);
    check_point(result);
    if (text.starts_with('/'))
      path(text, result);
    else
      plain(text, context->STAR() != nullptr, result);
    return result;
  }

  // An unquoted path has its point in it.
  void split_point(std::string& text, Span span, ast::Subject& subject) {
    for (std::string_view point : {".entry", ".return"}) {
      if (!text.starts_with('/') || !text.ends_with(point)) continue;
      subject.point = {std::string(point.substr(1)),
                       {span.file, static_cast<uint32_t>(span.end - point.size() + 1), span.end}};
      text.resize(text.size() - point.size());
    }
  }

  void check_point(const ast::Subject& subject) {
    if (!subject.point || subject.point->text == "entry" || subject.point->text == "return") return;
    diagnostics_
        .report(DiagnosticCode::query_part, subject.point->span, "behind a function's name",
                "'.entry' or '.return'")
        .hint("a name that has a '.' in it is written in quotes; one of C++ with '::'");
  }

  void plain(const std::string& text, bool star, ast::Subject& subject) {
    subject.item = star ? text + "*" : text;
    const bool pattern = star || (text.find_first_of("*?") != text.npos && text.find('(') == text.npos &&
                                  text.find("operator") == text.npos);
    if (pattern) subject.kind = ast::Subject::Kind::each_named;
  }

  void path(const std::string& text, ast::Subject& subject) {
    using enum ast::Subject::Kind;
    const auto is_pattern = [](std::string_view part) { return part.find_first_of("*?") != part.npos; };
    if (!text.starts_with(kCode) || text.size() == kCode.size() || text.ends_with('/') ||
        text.find("//") != text.npos) {
      diagnostics_.report(DiagnosticCode::query_part, subject.span, "here",
                          "/Code/OBJECT/FUNCTION, /Code/OBJECT/* or /Code/OBJECT");
      return;
    }
    subject.item = text.substr(kCode.size());
    const size_t slash = subject.item.find('/');
    if (slash == std::string::npos) {
      subject.kind = is_pattern(subject.item) ? each_object : object;
      return;
    }
    subject.kind = is_pattern(subject.item) ? each_function : function;
  }

  const Source& source_;
  Diagnostics& diagnostics_;
  CodeBuilder code_;
};

}  // namespace

std::vector<std::unique_ptr<antlr4::Token>> join_long_names(const Source& source, BoundedLexer& lexer) {
  std::vector<std::unique_ptr<antlr4::Token>> tokens;
  size_t end = 0;  // of the last long name
  for (;;) {
    std::unique_ptr<antlr4::Token> token = lexer.nextToken();
    const bool last = token->getType() == antlr4::Token::EOF;
    if (!last && token->getStartIndex() < end) continue;
    if (!last)
      if (const size_t long_end = end_of_name(source.text(), *token); long_end > token->getStopIndex() + 1) {
        auto& name = static_cast<antlr4::CommonToken&>(*token);
        name.setType(P::LONG_NAME);
        name.setStopIndex(long_end - 1);
        end = long_end;
      }
    tokens.push_back(std::move(token));
    if (last) return tokens;
  }
}

ast::Query build_query(const Source& source, MdlParser::QueryContext* query, Diagnostics& diagnostics) {
  return Builder(source, diagnostics).query(query);
}

}  // namespace mdl::parser
