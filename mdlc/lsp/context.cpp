#include "mdlc/lsp/context.h"

#include <algorithm>

namespace mdl::lsp {
namespace {

constexpr std::string_view kTools[] = {"daemon", "process", "visi"};
constexpr std::string_view kLists[] = {"resourceList", "List", "list"};

template <typename Words>
bool is_one_of(std::string_view word, const Words& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// An open bracket, and what it has brought into sight.
struct Frame {
  Place place = Place::top;
  size_t loops = 0;
  size_t cells = 0;
  bool selects = false;
};

class Scanner {
 public:
  Scanner(const Source& source, uint32_t offset) : source_(source), offset_(offset) {}

  Context scan() {
    uint32_t last = 0;
    for (const Token& token : tokenize(source_)) {
      bool word = token.kind == TokenKind::name || token.kind == TokenKind::keyword;
      if (token.span.begin >= offset_ || (word && token.span.end >= offset_)) break;
      if (token.span.end > offset_ || (token.kind == TokenKind::wrong && token.span.end == offset_))
        return {};
      take(token);
      last = token.span.end;
    }
    if (in_comment(last)) return {};
    enter_loops();
    context_.place = frames_.back().place;
    for (const Token& token : head_) context_.words.push_back(text(token));
    if (!head_.empty() && text(head_.back()) == ".") context_.object = object();
    return std::move(context_);
  }

 private:
  std::string_view text(const Token& token) const { return source_.text(token.span); }
  std::string_view word(size_t i) const { return i < head_.size() ? text(head_[i]) : std::string_view(); }

  bool in_comment(uint32_t from) const {
    std::string_view gap = source_.text({source_.ordinal(), from, offset_});
    size_t comment = gap.rfind("//");
    return comment != std::string_view::npos && gap.find_first_of("\r\n", comment) == std::string_view::npos;
  }

  void take(const Token& token) {
    if (token.kind != TokenKind::mark) return head_.push_back(token);
    std::string_view mark = text(token);
    if (mark == "{" || mark == "(*") {
      open(mark == "(*" ? Place::code : inside());
    } else if (mark == "}" || mark == "*)") {
      close();
    } else if (mark == ";") {
      end_field();
    } else {
      head_.push_back(token);
    }
  }

  // The place that `{` opens here.
  Place inside() const {
    Place place = frames_.back().place;
    std::string_view first = word(0);
    if (place == Place::code || place == Place::statements || place == Place::values) return place;
    if (place == Place::metric)
      return first == "base" || first == "constraint" ? Place::statements : Place::values;
    if (place != Place::top) return Place::values;
    if (first == "metric") return Place::metric;
    if (is_one_of(first, kLists)) return Place::list;
    if (is_one_of(first, kTools)) return Place::tool;
    return first == "tunable_constant" ? Place::values : Place::statements;
  }

  void open(Place place) {
    Frame frame{place, context_.loops.size(), context_.cells.size(), false};
    enter_loops();
    bool names = word(0) == "metric" || word(0) == "constraint";
    if (names && place != Place::values && head_.size() > 1) context_.cells.push_back(word(1));
    if (word(0) == "constraint" && place == Place::statements) {
      frame.selects = true;
      for (size_t i = 2; i < head_.size() && word(i) != "is"; i++)
        if (word(i) != "/") context_.selects.push_back(word(i));
    }
    frames_.push_back(frame);
    head_.clear();
  }

  void close() {
    if (frames_.size() > 1) {
      context_.loops.resize(frames_.back().loops);
      context_.cells.resize(frames_.back().cells);
      if (frames_.back().selects) context_.selects.clear();
      bool value = frames_.back().place == Place::values;
      frames_.pop_back();
      if (value) return;  // `flavor { unix }` goes on to its semicolon
    }
    head_.clear();
  }

  void end_field() {
    bool temporary = frames_.back().place == Place::metric && (word(0) == "counter" || word(0) == "flag") &&
                     head_.size() == 2;
    if (temporary) context_.cells.push_back(word(1));
    head_.clear();
  }

  // `foreach v in place` of the statement that is being read.
  void enter_loops() {
    if (frames_.back().place == Place::code || frames_.back().place == Place::metric) return;
    for (size_t i = 0; i + 3 < head_.size(); i++) {
      if (word(i) != "foreach" || word(i + 2) != "in") continue;
      size_t end = i + 4;
      while (end < head_.size() && goes_on(end)) end++;
      Span list = join(head_[i + 3].span, head_[end - 1].span);
      context_.loops.push_back({std::string(word(i + 1)), std::string(source_.text(list))});
    }
  }

  // Whether a token belongs to the place that the one before it belongs to.
  bool goes_on(size_t i) const {
    std::string_view mark = word(i), before = word(i - 1);
    return mark == "." || mark == "[" || mark == "]" || before == "." || before == "[";
  }

  // `a.b[0]` of a head that ends in `a.b[0].`
  std::string object() const {
    size_t dot = head_.size() - 1, begin = dot;
    while (begin > 0) {
      std::string_view mark = word(begin - 1);
      bool joined = begin == dot || mark == "." || mark == "[" || word(begin) == "." || word(begin) == "[" ||
                    word(begin) == "]";
      if (!joined || mark == "(" || mark == ")" || mark == "," || mark == "!") break;
      begin--;
    }
    if (begin == dot) return "";
    return std::string(source_.text(join(head_[begin].span, head_[dot - 1].span)));
  }

  const Source& source_;
  uint32_t offset_;
  Context context_;
  std::vector<Frame> frames_{Frame{}};
  std::vector<Token> head_;  // since the last `;` or brace
};

}  // namespace

Context context_at(const Source& source, uint32_t offset) {
  return Scanner(source, offset).scan();
}

}  // namespace mdl::lsp
