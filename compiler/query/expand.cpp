#include "compiler/query/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <span>

#include "compiler/query/check.h"
#include "format/heap.h"

namespace mdl::query {
namespace {

using Kind = ast::Subject::Kind;

constexpr size_t kLongestName = 60;        // of a metric that has no name of its own
constexpr std::string_view kEvery = "/*";  // ends an item that stands for all functions of an object
// The keys that are the function, or the object, of the loop that all code is in.
constexpr std::string_view kPath = "path(function)", kObject = "module(object)";
constexpr std::string_view kAllocatorList = "allocators", kFillerList = "fillers", kReleaseList = "releases";

// The text, with the parts of a query that parts of it stand for.
class Writer {
 public:
  explicit Writer(Expansion& into) : into_(into) {}

  void put(std::string_view text) { into_.mdl += text; }
  // Text that stands for a part of the query, or is that part.
  void put(std::string_view text, Span origin, bool verbatim) {
    const uint32_t begin = at();
    put(text);
    into_.passages.push_back({begin, at(), origin, verbatim});
  }
  // The lines from `begin` on stand for a part of the query.
  void end_line(uint32_t begin, Span origin) {
    put("\n");
    into_.passages.push_back({begin, at(), origin, false});
  }
  void line(int depth, std::string_view text, Span origin) {
    const uint32_t begin = indent(depth);
    put(text);
    end_line(begin, origin);
  }
  // Begins a line; where it begins.
  uint32_t indent(int depth) {
    const uint32_t begin = at();
    into_.mdl.append(static_cast<size_t>(2 * depth), ' ');
    return begin;
  }

 private:
  uint32_t at() const { return static_cast<uint32_t>(into_.mdl.size()); }
  Expansion& into_;
};

// `count malloc, free` as `count_malloc_free`: letters and digits of the words, until it is long enough.
std::string identifier(const ast::Query& query) {
  std::string name = query.verb.text;
  const auto add = [&](std::string_view text) {
    if (name.size() >= kLongestName) return;
    name += '_';
    for (char c : text) {
      const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
      if (word || name.back() != '_') name += word ? c : '_';
    }
    while (name.back() == '_') name.pop_back();
  };
  for (const ast::Subject& one : query.subjects)
    add(one.kind == Kind::function ? std::string_view(one.item).substr(one.item.find('/') + 1) : one.item);
  for (const std::vector<ast::Subject>& within : query.within) add("within"), add(within[0].item);
  return name.substr(0, kLongestName);
}

// Those that its verb means where it names none.
void add_subjects(ast::Query& query) {
  const Verb* verb = verb_of(query);
  if (verb == nullptr || !verb->is_bytes || !query.subjects.empty() || query.value) return;
  for (const std::string_view name : kReadAndWrite)
    query.subjects.push_back({Kind::function, query.verb.span, std::string(name), std::nullopt});
}

// The query on one line, as a string of MDL can have it: no `"`, no control character.
std::string one_line(std::string_view text) {
  std::string line;
  for (char c : text) {
    const bool blank = static_cast<unsigned char>(c) <= ' ';
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : c == '"' ? '\'' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

class Expander {
 public:
  Expander(const ast::Query& query, std::string name, std::string_view flavor,
           const std::vector<const Source*>& texts, uint32_t first, Expansion& into)
      : query_(query),
        verb_(*verb_of(query)),
        name_(std::move(name)),
        flavor_(flavor.empty() ? "unix" : flavor),
        texts_(texts),
        first_(first),
        out_(into) {}

  void expand() {
    const std::string_view text = texts_[query_.span.file - first_]->text();
    line(0, "// " + one_line(text));
    lists();
    line(0, fmt::format("metric {} {{", name_));
    line(1, fmt::format("name \"{}\";", query_.names.empty() ? one_line(text) : name_));
    line(1, fmt::format("units {};", units()));
    line(1, fmt::format("aggregateOperator {};", is_summary() ? query_.verb.text : "sum"));
    line(1, fmt::format("style {};", verb_.style));
    line(1, fmt::format("flavor {{ {} }};", flavor_));
    if (const std::string focus = this->focus(); !focus.empty())
      line(1, fmt::format("focus \"{}\";", focus),
           !by_thread(query_) ? query_.subjects[0].span : query_.span);
    if (has_flags())
      for (size_t i = 0; i < query_.within.size(); i++)
        line(1, fmt::format("flag {};", flag(i)), query_.within[i][0].span);
    if (counts_outermost()) line(1, fmt::format("flag {}_depth;", name_), query_.verb.span);
    if (has_constraint()) line(1, fmt::format("constraint {}_within;", name_), query_.within[0][0].span);
    if (is_each()) each();
    base();
    line(0, "}");
  }

 private:
  // min, max and avg are operators, too.
  bool is_summary() const { return verb_.observes() && verb_.base != "histogram"; }
  std::string_view units() const {
    if (at_return() && verb_.units == "Calls" && !reads_result(query_)) return "Returns";
    return query_.value && is_time(*query_.value) ? "ns" : verb_.units;
  }

  void line(int depth, std::string_view text) { out_.line(depth, text, query_.span); }
  void line(int depth, std::string_view text, Span origin) { out_.line(depth, text, origin); }

  bool is_each() const {
    return !is_by_path(query_) && (query_.subjects[0].kind == Kind::each_function || is_each_object(query_));
  }
  bool is_every_function() const {
    return is_by_path(query_) && query_.subjects.size() == 1 && query_.subjects[0].item.ends_with(kEvery);
  }
  // A timer that waits for a flag of its metric would not know which frames of its function had found the flag up, where
  // they are active at the attach: a constraint's flag it does.
  bool has_constraint() const { return verb_.is_timer() && !query_.within.empty(); }
  bool has_flags() const { return !verb_.is_timer() && !query_.within.empty(); }
  std::string flag(size_t within) const {
    return fmt::format("{}_inside{}", name_, within == 0 ? "" : std::to_string(within + 1));
  }
  std::string within_list(size_t within) const {
    return fmt::format("within{}", within == 0 ? "" : std::to_string(within + 1));
  }
  // Bytes are moved by the outermost call, under whatever name. As `time F` does, `time F within G` counts that one, too,
  // where all of its calls have one value. What a call is itself is in no other one.
  bool counts_outermost() const {
    const bool tells_calls_apart =
        !keys_of(query_).empty() || !query_.conditions.empty() || is_by_path(query_);
    return verb_.is_bytes || (verb_.adds_times() && !verb_.is_own && !tells_calls_apart);
  }
  // All objects of the process need no list.
  bool is_every_object() const { return is_each_object(query_) && query_.subjects[0].item == "*"; }
  bool of_objects() const {
    return query_.subjects[0].kind == Kind::object || is_each_object(query_) || is_every_function();
  }
  bool at_return() const {
    const auto& point = query_.subjects[0].point;
    return !verb_.is_timer() && (point ? point->text == "return" : reads_result(query_));
  }

  std::string focus() const {
    std::string focus = is_each()          ? "/Code/" + query_.subjects[0].item
                        : has_constraint() ? "/Code/" + query_.within[0][0].item
                                           : "";
    if (by_thread(query_)) focus += focus.empty() ? "/Thread/*" : ",/Thread/*";
    return focus;
  }

  // Of functions that are no part of the query.
  void list(std::string_view suffix, std::span<const std::string_view> functions) {
    line(0, fmt::format("resourceList {}_{} is procedure {{", name_, suffix));
    line(1, fmt::format("items {{ \"{}\" }};", fmt::join(functions, "\", \"")));
    line(1, fmt::format("flavor {{ {} }};", flavor_));
    line(1, "library true;");
    line(0, "}");
    line(0, "");
  }

  void list(std::string_view suffix, std::string_view type, const std::vector<ast::Subject>& subjects) {
    line(0, fmt::format("resourceList {}_{} is {} {{", name_, suffix, type));
    const uint32_t begin = out_.indent(1);
    out_.put("items { ");
    for (const ast::Subject& one : subjects) {
      if (&one != &subjects[0]) out_.put(", ");
      std::string_view item = one.item;
      if (&subjects == &query_.subjects && is_every_function()) item.remove_suffix(kEvery.size());
      out_.put(fmt::format("\"{}\"", item), one.span, false);
    }
    out_.put(" };");
    out_.end_line(begin, query_.span);
    line(1, fmt::format("flavor {{ {} }};", flavor_));
    line(1, "library true;");
    line(0, "}");
    line(0, "");
  }

  void lists() {
    if (!is_each() && !is_every_object())
      list(of_objects() ? "objects" : "functions", of_objects() ? "module" : "procedure", query_.subjects);
    if (has_flags())
      for (size_t i = 0; i < query_.within.size(); i++) list(within_list(i), "procedure", query_.within[i]);
    if (has_site(query_)) {
      list(kAllocatorList, format::kAllocators);
      list(kFillerList, format::kFillers);
      list(kReleaseList, format::kReleases);
    }
    if (!has_constraint()) return;
    const Span origin = query_.within[0][0].span;
    line(0, fmt::format("constraint {}_within /Code/*/* is counter {{", name_), origin);
    line(1, fmt::format("append preInsn $constraint[0].entry (* {}_within += 1; *)", name_), origin);
    line(1, fmt::format("prepend preInsn $constraint[0].return (* {}_within -= 1; *)", name_), origin);
    line(0, "}");
    line(0, "");
  }

  // An insertion, which stands for the query's subject.
  void insert(int depth, std::string_view where, std::string_view code) {
    line(depth, fmt::format("{} (* {} *)", where, code), query_.subjects[0].span);
  }

  // `caller`, `function`, `file` and `socket` are words of queries only.
  void copy_key(const ast::Expr& e) {
    if (is_caller(e))
      out_.put("$caller", e.span, false);
    else if (is_function(e))
      out_.put(kPath, e.span, false);
    else if (verb_.is_bytes && is_file(e))
      out_.put("descriptor($arg[0])", e.span, false);
    else if (verb_.is_bytes && is_socket(e))
      out_.put("socket($arg[0])", e.span, false);
    else
      copy(e);
  }
  // As it was written, but that the duration of a call is $elapsed in MDL, and errno $errno.
  void copy(const ast::Expr& e) {
    std::vector<Word> words;
    each_word(e, words);
    Span rest = e.span;
    for (const Word& word : words) {
      verbatim({rest.file, rest.begin, word.span.begin});
      out_.put(word.in_mdl, word.span, false);
      rest.begin = word.span.end;
    }
    verbatim(rest);
  }
  struct Word {
    Span span;
    std::string_view in_mdl;
  };
  void verbatim(const Span& span) {
    if (span.begin < span.end) out_.put(texts_[span.file - first_]->text(span), span, true);
  }
  static void each_word(const ast::Expr& e, std::vector<Word>& out) {
    if (is_elapsed(e)) out.push_back({e.span, "$elapsed"});
    if (is_self_elapsed(e)) out.push_back({e.span, "$self_elapsed"});
    if (is_errno(e)) out.push_back({e.span, "$errno"});
    ast::each_child(e, [&](const ast::Expr& child) { each_word(child, out); });
    std::ranges::sort(out, {}, [](const Word& word) { return word.span.begin; });
  }

  std::string value_name(bool each) const { return each ? name_ + "_of_each" : name_; }

  // Counts at a point of `function`.
  void count(int depth, std::string_view function, const std::string& value) {
    const uint32_t begin = out_.indent(depth);
    out_.put(fmt::format("{} preInsn {}.{} (* ", at_return() ? "prepend" : "append", function,
                         at_return() ? "return" : "entry"));
    std::string own;
    const auto also = [&own](const std::string& condition) {
      own += (own.empty() ? "" : " && ") + condition;
    };
    if (has_flags())
      for (size_t i = 0; i < query_.within.size(); i++) also(flag(i));
    if (counts_outermost()) also(name_ + "_depth == 1");
    if (verb_.is_bytes) also("long($return) > 0");
    if (!own.empty() && !query_.conditions.empty()) {
      out_.put(fmt::format("if ({} && (", own));
      copy(query_.conditions[0]);
      out_.put(")) ");
    } else if (!query_.conditions.empty()) {
      out_.put("if (");
      copy(query_.conditions[0]);
      out_.put(") ");
    } else if (!own.empty()) {
      out_.put(fmt::format("if ({}) ", own));
    }
    if (verb_.is_duration) {
      const std::string_view took = verb_.is_own ? "$self_elapsed" : verb_.is_cpu ? kCpuElapsed : "$elapsed";
      out_.put(verb_.observes() ? fmt::format("observe({});", took) : fmt::format("{} += {};", value, took));
    } else if (verb_.is_bytes) {
      out_.put(value + " += long($return);");
    } else if (!query_.value) {
      out_.put(value + "++;");
    } else {
      out_.put(verb_.observes() ? "observe(" : value + " += ");
      copy(*query_.value);
      out_.put(verb_.observes() ? ");" : ";");
    }
    out_.put(" *)");
    out_.end_line(begin, query_.subjects[0].span);
  }

  // The timer runs from the entry to the return; if it is a function's own, not in its calls.
  void time(int depth, std::string_view function, const std::string& value) {
    const std::string_view word = verb_.base == "processTimer" ? "ProcessTimer" : "WallTimer";
    const std::string start = fmt::format("start{}({});", word, value),
                      stop = fmt::format("stop{}({});", word, value);
    const std::string_view guard = has_constraint() ? " constrained" : "";
    insert(depth, fmt::format("append preInsn {}.entry{}", function, guard), start);
    insert(depth, fmt::format("prepend preInsn {}.return{}", function, guard), stop);
    if (!verb_.is_own) return;
    line(depth, fmt::format("foreach call in {}.calls {{", function), query_.subjects[0].span);
    insert(depth + 1, fmt::format("append preInsn call{}", guard), stop);
    insert(depth + 1, fmt::format("prepend postInsn call{}", guard), start);
    line(depth, "}");
  }

  void measure(int depth, std::string_view function, const std::string& value) {
    verb_.is_timer() ? time(depth, function, value) : count(depth, function, value);
  }

  // The flags that are up while the functions behind `within` are on the stack.
  void raise_flags() {
    for (size_t i = 0; has_flags() && i < query_.within.size(); i++) {
      const Span origin = query_.within[i][0].span;
      line(2, fmt::format("foreach function in {}_{} {{", name_, within_list(i)), origin);
      line(3, fmt::format("append preInsn function.entry (* {} += 1; *)", flag(i)), origin);
      line(3, fmt::format("prepend preInsn function.return (* {} -= 1; *)", flag(i)), origin);
      line(2, "}");
    }
  }

  // The in-line constraint that replaces the base for each function, or each object.
  void each() {
    const std::string value = value_name(true);
    line(1,
         fmt::format("constraint {} /Code/*{} is replace {} {{", value, of_objects() ? "" : "/*", verb_.base),
         query_.subjects[0].span);
    raise_flags();
    if (of_objects()) {
      line(2, "foreach function in $constraint[0].funcs {");
      measure(3, "function", value);
      line(2, "}");
    } else {
      measure(2, "$constraint[0]", value);
    }
    line(1, "}");
  }

  void base() {
    const uint32_t begin = out_.indent(1);
    out_.put(fmt::format("base is {} ", verb_.base));
    std::string_view before = "keyed by ";
    if (implies_path(query_)) {
      out_.put(std::exchange(before, ", "));
      out_.put(is_each_object(query_) ? kObject : kPath, query_.subjects[0].span, false);
    }
    for (const ast::Expr* key : keys_of(query_)) {
      out_.put(std::exchange(before, ", "));
      copy_key(*key);
    }
    out_.put(before == ", " ? " {" : "{");
    out_.end_line(begin, query_.span);
    raise_flags();
    int depth = 2;
    if (of_objects())
      line(depth++, fmt::format("foreach object in {} {{",
                                is_each() || is_every_object() ? "$modules" : name_ + "_objects"));
    line(depth, fmt::format("foreach function in {} {{", of_objects() ? "object.funcs"
                                                         : is_each()  ? "$procedures"
                                                                      : name_ + "_functions"));
    if (counts_outermost()) {
      insert(depth + 1, "append preInsn function.entry", name_ + "_depth += 1;");
      insert(depth + 1, "prepend preInsn function.return", name_ + "_depth -= 1;");
    }
    measure(depth + 1, "function", value_name(false));
    line(depth, "}");
    if (of_objects()) line(--depth, "}");
    if (has_site(query_)) note_blocks();
    line(1, "}");
  }

  // Where the query is about such a function itself, a block is known to it: from before its return, until behind its
  // entry.
  void note_blocks() {
    line(2, fmt::format("foreach function in {}_{} {{", name_, kAllocatorList));
    line(3, "prepend preInsn function.return (* allocated($return); *)");
    line(2, "}");
    line(2, fmt::format("foreach function in {}_{} {{", name_, kFillerList));
    line(3, "prepend preInsn function.return (* if (int($return) == 0) allocated(readAddress($arg[0])); *)");
    line(2, "}");
    line(2, fmt::format("foreach function in {}_{} {{", name_, kReleaseList));
    line(3, "append preInsn function.entry (* released($arg[0]); *)");
    line(2, "}");
  }

  const ast::Query& query_;
  const Verb& verb_;
  std::string name_, flavor_;
  const std::vector<const Source*>& texts_;
  uint32_t first_;
  Writer out_;
};

}  // namespace

Span Expansion::origin(Span in_mdl) const {
  const Passage* best = nullptr;
  for (const Passage& one : passages) {
    if (one.begin > in_mdl.begin || one.end < in_mdl.end) continue;
    if (best == nullptr || one.end - one.begin < best->end - best->begin) best = &one;
  }
  if (best == nullptr) return passages.empty() ? in_mdl : passages.front().origin;
  if (!best->verbatim) return best->origin;
  const uint32_t begin = best->origin.begin + in_mdl.begin - best->begin;
  return {best->origin.file, begin, begin + in_mdl.end - in_mdl.begin};
}

Expansion expand(std::vector<ast::Query> queries, const std::vector<const Source*>& texts,
                 std::string_view flavor, Diagnostics& diagnostics) {
  Expansion result;
  std::set<std::string> taken;
  for (ast::Query& query : queries) {
    const size_t before = diagnostics.errors();
    const std::string own_name = identifier(query);
    add_subjects(query);
    check(query, diagnostics);
    if (diagnostics.errors() > before) continue;
    std::string name = query.names.empty() ? own_name : query.names[0].text;
    if (query.names.empty())
      for (int i = 2; taken.contains(name); i++) name = fmt::format("{}_{}", own_name, i);
    if (!taken.insert(name).second) {
      diagnostics.report(DiagnosticCode::redefinition, query.names[0].span, name);
      continue;
    }
    if (!result.mdl.empty()) result.mdl += "\n";
    Expander(query, std::move(name), flavor, texts, texts[0]->ordinal(), result).expand();
  }
  return result;
}

}  // namespace mdl::query
