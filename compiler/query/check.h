// The rules of queries that their grammar does not say.
#pragma once

#include <string_view>

#include "compiler/ast/query.h"
#include "compiler/support/diagnostics.h"

namespace mdl::query {

// What the first word of a query measures.
struct Verb {
  std::string_view word;
  std::string_view base;  // the type of its value: a counter, a histogram, a timer
  std::string_view units, style;
  bool takes_value = false;  // sum VALUE at FUNCTION
  bool is_duration = false;  // about how long each call ran
  bool is_own = false;       // without the time that the function is in one of its callees
  bool is_cpu = false;       // on a processor
  bool is_bytes = false;     // what functions that read and write return, where that is a number of bytes

  bool observes() const { return base != "counter" && !is_timer(); }
  bool adds_times() const { return is_duration && !observes(); }
  bool is_timer() const { return base == "wallTimer" || base == "processTimer"; }
};

// Null for a word that begins no query. `time F by KEY`, `time F if COND` and `time F within G`, where G has no object,
// have a counter, to which each call adds how long it ran; so have `cpu` and `self`.
const Verb* verb_of(const ast::Query& query);

// The functions of the C library that `bytes` means where it names none. Each has the descriptor as its first argument.
inline constexpr std::string_view kReadAndWrite[] = {"read",     "pread",   "readv",  "preadv",  "recv",
                                                     "recvfrom", "recvmsg", "write",  "pwrite",  "writev",
                                                     "pwritev",  "send",    "sendto", "sendmsg", "sendfile"};

// The keys besides `thread`, and whether that is one.
std::vector<const ast::Expr*> keys_of(const ast::Query& query);
bool by_thread(const ast::Query& query);

// Whether each function, or each object, has its line by a key, its path, and no request of its own: `count get*`,
// `calls /Code/app/* by caller`, `calls /Code/* by caller`. That is one measurement, however many there are, and has no
// line for those that were not called.
bool is_by_path(const ast::Query& query);
// `function`, as a key; and whether the function, or the object, is a key that the query does not name.
bool is_function(const ast::Expr& key);
bool implies_path(const ast::Query& query);
// `caller`, likewise.
bool is_caller(const ast::Expr& key);
// Whether a key is `site(VALUE)`.
bool has_site(const ast::Query& query);
// A line for each object: `/Code/*`.
bool is_each_object(const ast::Query& query);

// The name of the duration of a call, as a query has it.
inline constexpr std::string_view kElapsed = "elapsed";
bool is_elapsed(const ast::Expr& e);
// How long the function itself ran in the call, without what it calls.
inline constexpr std::string_view kSelfElapsed = "self_elapsed";
bool is_self_elapsed(const ast::Expr& e);
// The processor time of a call; and whether an expression is one of the three.
inline constexpr std::string_view kCpuElapsed = "$cpu_elapsed";
bool is_time(const ast::Expr& e);
// `errno`, which is $errno in MDL.
bool is_errno(const ast::Expr& e);
// `file`: the file of the descriptor that `bytes` is about.
bool is_file(const ast::Expr& e);
bool is_socket(const ast::Expr& e);

// Whether the query's code reads $return or the duration, so that its place is the return unless it is said.
bool reads_result(const ast::Query& query);

// Reports what is wrong or cannot be measured.
void check(const ast::Query& query, Diagnostics& diagnostics);

}  // namespace mdl::query
