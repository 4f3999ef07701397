#include "compiler/query/check.h"

#include <algorithm>
#include <array>

#include "compiler/support/foreign_words.h"
#include "compiler/support/suggest.h"
#include "format/query_verbs.h"

namespace mdl::query {
namespace {

using Kind = ast::Subject::Kind;

constexpr std::string_view kSelf = "self";
constexpr std::array<Verb, 12> kVerbs = {{
    {"count", "counter", "Calls", "EventCounter"},
    {"calls", "counter", "Calls", "EventCounter"},
    {"sum", "counter", "Sum", "EventCounter", true},
    {"min", "minimum", "Values", "SampledFunction", true},
    {"max", "maximum", "Values", "SampledFunction", true},
    {"avg", "average", "Values", "SampledFunction", true},
    {"hist", "histogram", "Values", "EventCounter", true},
    {"time", "wallTimer", "ns", "SampledFunction"},
    {"cpu", "processTimer", "ns", "SampledFunction"},
    {.word = kSelf, .base = "wallTimer", .units = "ns", .style = "SampledFunction", .is_own = true},
    {.word = "latency", .base = "histogram", .units = "ns", .style = "EventCounter", .is_duration = true},
    {.word = "bytes", .base = "counter", .units = "Bytes", .style = "EventCounter", .is_bytes = true},
}};
static_assert(std::ranges::equal(kVerbs, format::kQueryVerbs, {}, &Verb::word));
// What calls took, added up when they have returned, because a timer cannot tell which calls are meant.
constexpr Verb kOfCalls[] = {
    {.word = "time", .base = "counter", .units = "ns", .style = "SampledFunction", .is_duration = true},
    {.word = "cpu",
     .base = "counter",
     .units = "ns",
     .style = "SampledFunction",
     .is_duration = true,
     .is_cpu = true},
    {.word = kSelf,
     .base = "counter",
     .units = "ns",
     .style = "SampledFunction",
     .is_duration = true,
     .is_own = true},
};

// Words that have a meaning for whoever asks, and what he can ask for today.
struct NotYet {
  std::string_view word, instead;
};
constexpr NotYet kValuesNotYet[] = {
    {"caller", "`count F by caller` has a value for each place that F is called from"},
    {"$caller", "`count F by caller` has a value for each place that F is called from"},
    {"symbol", "`count F by symbol($arg[0])` has a value for each; an address can be compared with a number"},
    {"str",
     "`count F by str($arg[0])` has a value for each text; here a string is an address, and its first 8 "
     "bytes are readAddress($arg[0])"},
    {"fd", "a file descriptor can be compared with a number: if int($arg[0]) == 7"},
    {"file",
     "`bytes by file` has a line for each file; `count F by file($arg[0])` asks about other functions"},
    {"socket",
     "`bytes by socket` has a line for each peer; `count F by socket($arg[0])` asks about other functions"},
};

// Keys that are shown as what a value is the number of, and functions that are given such a value.
struct Shown {
  std::string_view word, of, example;
};
constexpr Shown kShown[] = {
    {"fd", "a descriptor", "count read by fd($arg[0])"},
    {"file", "a descriptor", "count read by file($arg[0])"},
    {"socket", "a descriptor", "count recv by socket($arg[0])"},
    {"descriptor", "a descriptor", "count read by descriptor($arg[0])"},
    {"str", "the address of a text", "count open by str($arg[0])"},
    {"symbol", "an address", "count free by symbol($arg[0])"},
    {"memory", "an address", "count memcpy by memory($arg[0])"},
    {"site", "a block of the heap", "count free by site($arg[0])"},
    {"mutex", "a lock", "count pthread_mutex_lock by mutex($arg[0])"},
    {"rwlock", "a lock", "count pthread_rwlock_rdlock by rwlock($arg[0])"},
    {"condition", "a condition variable", "count pthread_cond_wait by condition($arg[0])"},
    {"semaphore", "a semaphore", "count sem_wait by semaphore($arg[0])"},
    {"barrier", "a barrier", "count pthread_barrier_wait by barrier($arg[0])"},
};

template <size_t N>
const NotYet* find(const NotYet (&rows)[N], std::string_view word) {
  const auto row =
      std::find_if(std::begin(rows), std::end(rows), [&](const NotYet& one) { return one.word == word; });
  return row == std::end(rows) ? nullptr : row;
}

// Calls `visit` with each name in an expression.
template <typename Visit>
void each_name(const ast::Expr& e, Visit visit) {
  if (const auto* name = std::get_if<ast::NameUse>(&e.node)) visit(*name, e.span);
  ast::each_child(e, [&](const ast::Expr& child) { each_name(child, visit); });
}

bool is_duration(std::string_view name) {
  return name == kElapsed || name == "$elapsed";
}
bool is_own_duration(std::string_view name) {
  return name == kSelfElapsed || name == "$self_elapsed";
}
// What is known at the return only.
bool is_late(std::string_view name) {
  return name == "$return" || name == kCpuElapsed || name == "errno" || name == "$errno" ||
         is_duration(name) || is_own_duration(name);
}

bool has_late_name(const ast::Expr& e) {
  bool found = false;
  each_name(e, [&](const ast::NameUse& name, Span) { found = found || is_late(name.text); });
  return found;
}

// A name, with or without `()`.
bool is_word(const ast::Expr& e, std::string_view word) {
  const auto* call = std::get_if<ast::Call>(&e.node);
  const auto* name = std::get_if<ast::NameUse>(call && call->args.empty() ? &call->callee->node : &e.node);
  return name != nullptr && name->text == word;
}

// What a key computes: `symbol`, `fd`, `str` and their like have a meaning as keys alone.
const ast::Expr& value_of_key(const ast::Expr& key) {
  const auto* call = std::get_if<ast::Call>(&key.node);
  const auto* callee = call ? std::get_if<ast::NameUse>(&call->callee->node) : nullptr;
  return callee && call->args.size() == 1 && format::key_call(callee->text) ? call->args[0] : key;
}

bool is_comparison(ast::BinaryOp op) {
  using enum ast::BinaryOp;
  return op == lt || op == le || op == gt || op == ge || op == eq || op == ne;
}

// `time read > 1000000`: what the comparison is meant to be.
std::string as_condition(const Verb& verb, const std::string& function, const ast::Binary& comparison) {
  const auto* number = std::get_if<ast::Integer>(&comparison.right->node);
  return fmt::format("a condition stands behind 'if': `{} {} if {} {} {}`", verb.word, function,
                     verb.units == "ns" ? kElapsed : "$arg[0]", ast::spelling(comparison.op),
                     number == nullptr ? 1000 : number->value);
}

// What a value may be meant for where a function's name should stand: (f), f(), f(int), libc/malloc, f > 5.
std::string name_in(const Verb& verb, const ast::Expr& e) {
  const auto word = [](const ast::Expr& part) {
    const auto* name = std::get_if<ast::NameUse>(&part.node);
    return name == nullptr ? std::string() : name->text;
  };
  if (const auto* call = std::get_if<ast::Call>(&e.node); call && !word(*call->callee).empty())
    return call->args.empty()
               ? fmt::format("a name stands without `()`: {}", word(*call->callee))
               : fmt::format("a name with its parameters stands in quotes: \"{}(int)\"", word(*call->callee));
  if (!word(e).empty()) return fmt::format("a name stands without parentheses: {} {}", verb.word, word(e));
  const auto* parts = std::get_if<ast::Binary>(&e.node);
  if (parts != nullptr && is_comparison(parts->op) && !word(*parts->left).empty())
    return as_condition(verb, word(*parts->left), *parts);
  if (parts != nullptr && parts->op == ast::BinaryOp::div && !word(*parts->left).empty() &&
      !word(*parts->right).empty())
    return fmt::format("a function of an object is a path: /Code/{}/{}", word(*parts->left),
                       word(*parts->right));
  return "";
}

bool is_thread(const ast::Expr& key) {
  return is_word(key, "thread");
}

bool is_about_some_calls(const ast::Query& query) {
  if (!keys_of(query).empty() || !query.conditions.empty() || is_by_path(query) || query.within.size() > 1)
    return true;
  const auto is_focus = [](const ast::Subject& one) {
    return one.kind == Kind::function && one.item.find('/') != one.item.npos;
  };
  if (query.within.empty()) return false;
  const bool is_self_of_each = query.verb.text == kSelf && is_each_object(query);
  return is_self_of_each || query.within[0].size() > 1 || !is_focus(query.within[0][0]);
}

class Checker {
 public:
  Checker(const ast::Query& query, Diagnostics& diagnostics)
      : query_(query), diagnostics_(diagnostics), verb_(verb_of(query)) {}

  void check() {
    once();
    value();
    subjects();
    within();
    keys();
    values();
    place();
  }

 private:
  void not_yet(Span span, std::string_view what, const NotYet& row) {
    diagnostics_.report(DiagnosticCode::query_not_yet, span, fmt::format("'{}'", what))
        .hint(std::string(row.instead));
  }
  void clash(Span span, std::string_view what, std::string_view with, std::string hint) {
    diagnostics_.report(DiagnosticCode::query_clash, span, what, with).hint(std::move(hint));
  }

  // Whether the value has the time so far in it: that of a timer has, and `time` and `cpu` unless they are about some
  // calls only.
  bool is_running_time() const {
    const bool is_of_some = !keys_of(query_).empty() || !query_.conditions.empty() || !query_.within.empty();
    return verb_->is_timer() || (verb_->adds_times() && !verb_->is_own && !is_of_some);
  }

  // Each clause stands once, but for `within`.
  void once() {
    if (query_.conditions.size() > 1)
      clash(query_.conditions[1].span, "a second 'if'", "the first one", "write `if A && B`");
    if (query_.keys.size() > 1) clash(query_.keys[1][0].span, "a second 'by'", "the first one", "");
    if (query_.names.size() > 1) clash(query_.names[1].span, "a second 'as'", "the first one", "");
  }

  void value() {
    const std::string form = fmt::format("{} VALUE at FUNCTION", verb_->word);
    if (verb_->takes_value && (!query_.value || query_.subjects.empty())) {
      diagnostics_
          .report(DiagnosticCode::query_missing, query_.value ? query_.value->span : query_.verb.span,
                  verb_->word, query_.value ? "a function behind 'at'" : "a value and a function")
          .hint(fmt::format("{}: `{} $arg[0] at malloc`, `{} $return at read`", form, verb_->word,
                            verb_->word));
      return;
    }
    if (!verb_->takes_value && query_.value) {
      const std::string meant = name_in(*verb_, *query_.value);
      diagnostics_
          .report(DiagnosticCode::query_part, query_.value->span, fmt::format("behind '{}'", verb_->word),
                  "the name of a function, and no value")
          .hint(meant.empty() ? "`sum VALUE at FUNCTION` and `hist VALUE at FUNCTION` take a value" : meant);
    } else if (query_.subjects.empty()) {
      diagnostics_.report(DiagnosticCode::query_missing, query_.verb.span, verb_->word, "a function")
          .hint(fmt::format("`{} malloc`, `{} /Code/OBJECT/*`", verb_->word, verb_->word));
    }
  }

  void subjects() {
    const std::vector<ast::Subject>& all = query_.subjects;
    for (const ast::Subject& one : all) {
      const bool is_one_of_many = one.kind == Kind::object || one.kind == Kind::each_object ||
                                  (one.kind == Kind::each_function && is_running_time());
      if (is_one_of_many && all.size() > 1)
        clash(one.span, "a path that stands for several functions", "another one",
              "ask in two queries: several may be measured at once");
      if (one.point && (verb_->is_timer() || verb_->is_duration || verb_->is_bytes))
        clash(one.point->span, fmt::format("'.{}'", one.point->text), fmt::format("'{}'", verb_->word),
              verb_->is_bytes ? "it adds up what is returned" : "time runs from the entry to the return");
      if (one.kind != Kind::function && verb_->is_bytes)
        diagnostics_.report(DiagnosticCode::query_part, one.span, "behind 'bytes'", "a function")
            .hint("`bytes by file` is about all that read and write, `bytes read by file` about one");
    }
    for (const ast::Subject& one : all)
      if (one.point && all[0].point && one.point->text != all[0].point->text)
        return clash(one.point->span, fmt::format("'.{}'", one.point->text),
                     fmt::format("'.{}'", all[0].point->text),
                     "ask in two queries: several may be measured at once");
    const auto named = std::ranges::find(all, Kind::each_named, &ast::Subject::kind);
    if (named != all.end() && is_running_time())
      diagnostics_.report(DiagnosticCode::query_pattern, named->span, printable(named->item))
          .hint(fmt::format("times have a line for each function of objects: `{} /Code/*/{}`",
                            query_.verb.text, named->item));
    if (all.empty() || query_.within.empty()) return;
    const Span within = query_.within[0][0].span;
    // Of an object the outermost calls would be meant, and those may have begun before the function did.
    const bool tells_calls_apart = !keys_of(query_).empty() || !query_.conditions.empty();
    const bool is_each = is_each_object(query_) && verb_->is_timer();
    const bool adds =
        (is_each_object(query_) || all[0].kind == Kind::object) && verb_->adds_times() && !verb_->is_own;
    if ((is_each || adds) && !tells_calls_apart)
      clash(within, "'within'",
            fmt::format("a value of '{}' for {}", verb_->word,
                        all[0].kind == Kind::object ? "an object" : "each object"),
            "`latency /Code/* within F` has how long each call ran, "
            "`time /Code/OBJECT within /Code/OBJECT/F` the time in one object");
  }

  void within() {
    for (const std::vector<ast::Subject>& list : query_.within)
      for (const ast::Subject& one : list) {
        const bool is_several = one.kind == Kind::each_function || one.kind == Kind::each_named;
        if (one.kind != Kind::function && !is_several)
          diagnostics_.report(DiagnosticCode::query_part, one.span, "behind 'within'", "a function")
              .hint("within /Code/OBJECT/FUNCTION");
        if (one.point)
          diagnostics_.report(DiagnosticCode::query_part, one.point->span, "behind 'within'",
                              "a function without a point: it is within from its entry to its return");
      }
  }

  void keys() {
    const std::vector<const ast::Expr*> all = keys_of(query_);
    for (const ast::Expr* key : all)
      if (const Shown* row = without_value(*key))
        diagnostics_.report(DiagnosticCode::query_missing, key->span, row->word, "a value")
            .hint(fmt::format("`by {}($arg[0])` where the first argument is {}: `{}`", row->word, row->of,
                              row->example));
    const size_t most = format::kMostKeysOfMetric - (implies_path(query_) ? 1 : 0);
    for (const std::vector<ast::Expr>& list : query_.keys)
      for (const ast::Expr& key : list) {
        if (is_thread(key) || without_value(key)) continue;
        const NotYet* not_yet_known = nullptr;
        if (!is_caller(key) && !is_function(key) && !(verb_->is_bytes && (is_file(key) || is_socket(key))))
          each_name(value_of_key(key), [&](const ast::NameUse& name, Span) {
            if (const NotYet* row = find(kValuesNotYet, name.text)) not_yet_known = row;
          });
        if (not_yet_known) {
          diagnostics_.report(DiagnosticCode::query_not_yet, key.span, "a value for each of these")
              .hint(std::string(not_yet_known->instead));
        } else if (all.size() > most && &key == all.back()) {
          diagnostics_
              .report(DiagnosticCode::query_not_yet, key.span,
                      fmt::format("a value for each of more than {}{}", most,
                                  most == format::kMostKeysOfMetric ? ""
                                  : is_each_object(query_)          ? ", besides the object"
                                                                    : ", besides the function"))
              .hint("ask in two queries, or compute one number of two: by $arg[0] * 1000 + $arg[1]");
        }
      }
  }

  // A key that is shown as what its value is of, and has none.
  const Shown* without_value(const ast::Expr& key) const {
    if (verb_->is_bytes && (is_file(key) || is_socket(key))) return nullptr;
    const auto row = std::ranges::find_if(kShown, [&](const Shown& one) { return is_word(key, one.word); });
    return row == std::end(kShown) ? nullptr : row;
  }

  // Names in values and conditions that this language does not have, and would take for functions of the application.
  void values() {
    const auto check = [&](const ast::Expr& e) {
      each_name(e, [&](const ast::NameUse& name, Span span) {
        if (const NotYet* row = find(kValuesNotYet, name.text)) not_yet(span, name.text, *row);
      });
    };
    if (query_.value) check(*query_.value);
    for (const ast::Expr& condition : query_.conditions) check(condition);
  }

  // The result is known at the return only; what the arguments were at the entry is known there, too.
  void place() {
    if (verb_->is_timer() || query_.subjects.empty()) return;
    const auto& point = query_.subjects[0].point;
    const bool at_return = point ? point->text == "return" : reads_result(query_);
    const auto look = [&](const ast::Expr& e) {
      each_name(e, [&](const ast::NameUse& name, Span span) {
        if (is_late(name.text) && !at_return)
          clash(span, fmt::format("'{}'", name.text), "'.entry'", "it is known at the return only");
      });
    };
    if (query_.value) look(*query_.value);
    for (const ast::Expr& condition : query_.conditions) look(condition);
    for (const ast::Expr* key : keys_of(query_)) look(*key);
  }

  const ast::Query& query_;
  Diagnostics& diagnostics_;
  const Verb* verb_;
};

}  // namespace

const Verb* verb_of(const ast::Query& query) {
  const auto of_calls = std::ranges::find(kOfCalls, query.verb.text, &Verb::word);
  if (of_calls != std::end(kOfCalls) && is_about_some_calls(query)) return of_calls;
  const auto verb = std::find_if(kVerbs.begin(), kVerbs.end(),
                                 [&](const Verb& one) { return one.word == query.verb.text; });
  return verb == kVerbs.end() ? nullptr : &*verb;
}

std::vector<const ast::Expr*> keys_of(const ast::Query& query) {
  std::vector<const ast::Expr*> keys;
  for (const std::vector<ast::Expr>& list : query.keys)
    for (const ast::Expr& key : list)
      if (!is_thread(key)) keys.push_back(&key);
  return keys;
}

bool by_thread(const ast::Query& query) {
  return std::ranges::any_of(query.keys,
                             [](const auto& list) { return std::ranges::any_of(list, is_thread); });
}

bool is_by_path(const ast::Query& query) {
  const bool is_one_request = !keys_of(query).empty() || !query.within.empty() || query.subjects.size() > 1;
  return std::ranges::any_of(query.subjects, [&](const ast::Subject& one) {
    return one.kind == Kind::each_named || (one.kind == Kind::each_function && is_one_request) ||
           (one.kind == Kind::each_object && !keys_of(query).empty());
  });
}

bool is_each_object(const ast::Query& query) {
  return !query.subjects.empty() && query.subjects[0].kind == Kind::each_object;
}

bool is_function(const ast::Expr& key) {
  return is_word(key, "function");
}

bool implies_path(const ast::Query& query) {
  return is_by_path(query) &&
         std::ranges::none_of(keys_of(query), [](const ast::Expr* key) { return is_function(*key); });
}

bool is_caller(const ast::Expr& key) {
  return is_word(key, "caller") || is_word(key, "$caller");
}

bool has_site(const ast::Query& query) {
  return std::ranges::any_of(keys_of(query), [](const ast::Expr* key) {
    const auto* call = std::get_if<ast::Call>(&key->node);
    const auto* callee = call ? std::get_if<ast::NameUse>(&call->callee->node) : nullptr;
    return callee && call->args.size() == 1 && format::key_call(callee->text) == format::KeyName::site;
  });
}

bool is_elapsed(const ast::Expr& e) {
  const auto* name = std::get_if<ast::NameUse>(&e.node);
  return name != nullptr && is_duration(name->text);
}

bool is_self_elapsed(const ast::Expr& e) {
  const auto* name = std::get_if<ast::NameUse>(&e.node);
  return name != nullptr && is_own_duration(name->text);
}

bool is_time(const ast::Expr& e) {
  return is_elapsed(e) || is_self_elapsed(e) || is_word(e, kCpuElapsed);
}

bool is_errno(const ast::Expr& e) {
  return is_word(e, "errno");
}

bool is_file(const ast::Expr& e) {
  return is_word(e, "file");
}

bool is_socket(const ast::Expr& e) {
  return is_word(e, "socket");
}

bool reads_result(const ast::Query& query) {
  const Verb* verb = verb_of(query);
  return (verb != nullptr && (verb->is_duration || verb->is_bytes)) ||
         (query.value && has_late_name(*query.value)) ||
         std::ranges::any_of(keys_of(query), [](const ast::Expr* key) { return has_late_name(*key); }) ||
         std::any_of(query.conditions.begin(), query.conditions.end(), has_late_name);
}

void check(const ast::Query& query, Diagnostics& diagnostics) {
  Checker(query, diagnostics).check();
}

}  // namespace mdl::query
