#include "runtime/focus/exclusion.h"

#include <fmt/format.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>

#include "format/pattern.h"
#include "runtime/arch/description.h"
#include "runtime/image/frames.h"

namespace mdl::focus {
namespace {

// On any machine; each has others besides (arch::Description::own_abi). `*` at either end stands for
// anything.
struct AbiRow {
  std::string_view name;
  OwnAbi abi;
  bool unframed = false;  // only without call frame information in an object that has some
};
constexpr AbiRow kOwnAbi[] = {
    {"__tls_get_addr*", OwnAbi::never},       // callers keep registers over it on some compilers
    {"___tls_get_addr", OwnAbi::never},       // the same
    {"_dl_tlsdesc*", OwnAbi::never},          // changes the result's register only
    {"__fentry__", OwnAbi::never},            // runs before the prologue, all registers live
    {"mcount", OwnAbi::never},                // the same
    {"_mcount", OwnAbi::never},               // the same
    {"__mcount", OwnAbi::never},              // the same
    {"_dl_runtime_resolve*", OwnAbi::never},  // all argument registers live, its own stack layout
    {"_dl_runtime_profile*", OwnAbi::never},  // the same
    {"__morestack*", OwnAbi::never},          // split stacks: returns to another stack
    {"__restore_rt", OwnAbi::never},          // the return of a signal handler: never called
    {"Builtins_*", OwnAbi::never,
     true},                      // V8's, made by V8: exceptions and dispatch enter them in the middle
    {"vfork", OwnAbi::unusual},  // returns twice on one stack
    {"__vfork", OwnAbi::unusual},
    {"__libc_vfork", OwnAbi::unusual},
    {"*setjmp", OwnAbi::unusual},     // returns twice: setjmp, _setjmp, __sigsetjmp, sigsetjmp
    {"_start", OwnAbi::unusual},      // the program's entry point: no caller, no return address
    {"_dl_start*", OwnAbi::unusual},  // ld.so's, linked into static programs
    {"_init", OwnAbi::unusual},       // pieces of crti.o and crtn.o put together by the linker
    {"_fini", OwnAbi::unusual},
};

bool fits_pattern(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return name == pattern;
}

OwnAbi own_abi(std::string_view name, bool unframed) {
  for (const std::string_view pattern : arch::kMachine.own_abi)
    if (fits_pattern(pattern, name)) return OwnAbi::never;
  for (const AbiRow& row : kOwnAbi)
    if (fits_pattern(row.name, name) && (unframed || !row.unframed)) return row.abi;
  return OwnAbi::no;
}

}  // namespace

// Its stack is in a register of its own, and a continuation is an address in the middle of a function, before
// which data lie: jumps to it are seen nowhere, and what is decoded there is not what runs. It has no call
// frame information, or (ghc -g) such as says that the frame is open, counted from that register.
bool is_haskell(const image::Object& object, const image::Function& function) {
  return object.has_haskell &&
         !(object.frame_table &&
           image::frame_is_closed(*object.frame_table, function.address, *object.budget));
}

bool is_ocaml(const image::Function& function) {
  constexpr std::string_view kBegin = "caml";
  const std::string_view name = function.name;
  if (!name.starts_with(kBegin) || name.size() <= kBegin.size()) return false;
  const char module = name[kBegin.size()];
  return module >= 'A' && module <= 'Z' && name.find_first_of("_.") != name.npos;
}

OwnAbi own_abi(const image::Object& object, const image::Function& function) {
  const bool unframed = object.frame_table && !object.frame_table->find(function.address);
  if (object.is_mono || is_haskell(object, function)) return OwnAbi::never;
  OwnAbi result = own_abi(std::string_view(function.name), unframed);
  for (const std::string& alias : function.aliases)
    result = std::max(result, own_abi(std::string_view(alias), unframed));
  return result;
}

struct Exclusions::Patterns {
  struct Plain {
    std::string path;
    bool no_case = false;
  };
  std::vector<Plain> plain;
  std::vector<format::Pattern> regular;
};

Exclusions::Exclusions(std::unique_ptr<Patterns> patterns) : patterns_(std::move(patterns)) {}
Exclusions::Exclusions(Exclusions&&) noexcept = default;
Exclusions::~Exclusions() = default;

Result<Exclusions> Exclusions::make(const std::vector<format::Exclude>& excludes) {
  auto patterns = std::make_unique<Patterns>();
  for (const format::Exclude& exclude : excludes) {
    if (!exclude.regex) {
      patterns->plain.push_back({exclude.pattern, exclude.no_case});
      continue;
    }
    auto pattern = format::Pattern::make(exclude.pattern, exclude.no_case);
    if (!pattern)
      return Error{fmt::format("the plan excludes by the regular expression `{}`, which cannot be used: {}",
                               exclude.pattern.substr(0, 80), pattern.error().text),
                   Status::plan_rejected};
    patterns->regular.push_back(std::move(*pattern));
  }
  return Exclusions(std::move(patterns));
}

// A plain pattern names a resource, and with it all that is below.
bool Exclusions::matches(const std::string& path) const {
  for (const Patterns::Plain& plain : patterns_->plain) {
    const llvm::StringRef whole(path), wanted(plain.path);
    const bool starts = plain.no_case ? whole.starts_with_insensitive(wanted) : whole.starts_with(wanted);
    if (starts && (whole.size() == wanted.size() || whole[wanted.size()] == '/')) return true;
  }
  return std::any_of(patterns_->regular.begin(), patterns_->regular.end(),
                     [&](const format::Pattern& pattern) { return pattern.is_in(path); });
}

bool Exclusions::excludes(const image::Object& object) const {
  if (patterns_->plain.empty() && patterns_->regular.empty()) return false;
  const auto is_excluded = [&](const std::string& name) { return matches("/Code/" + name); };
  return is_excluded(object.name) || std::ranges::any_of(object.aliases, is_excluded);
}

bool Exclusions::excludes(const image::Object& object, const image::Function& function) const {
  if (patterns_->plain.empty() && patterns_->regular.empty()) return false;
  const auto is_excluded = [&](const std::string& name) {
    const std::string prefix = "/Code/" + name + "/";
    return matches(prefix + function.name) ||
           std::ranges::any_of(function.aliases,
                               [&](const std::string& alias) { return matches(prefix + alias); });
  };
  return is_excluded(object.name) || std::ranges::any_of(object.aliases, is_excluded);
}

}  // namespace mdl::focus
