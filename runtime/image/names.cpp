// Matching of names that people type against linkage names. Demangling is slow (a big
// program has a hundred thousand names), so a name is demangled only when it could match.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "llvm/Demangle/Demangle.h"
#include "runtime/image/image.h"

namespace mdl::image {
namespace {

struct Free {
  void operator()(char* text) const { std::free(text); }
};
using Text = std::unique_ptr<char, Free>;

constexpr std::string_view kIdentifier = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

bool is_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("_R");
}

// An identifier that the linkage name of whatever `wanted` names must contain; "" when none
// is certain (operators, conversions, what the mangling abbreviates).
std::string_view certain_identifier(std::string_view wanted) {
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  while (wanted.starts_with(anonymous)) wanted.remove_prefix(anonymous.size());
  if (wanted.find("operator") != std::string_view::npos || wanted.starts_with("std::")) return {};
  std::string_view head = wanted.substr(0, wanted.find_first_of("(<[{"));
  size_t before = head.find_last_not_of(kIdentifier);
  return before == std::string_view::npos ? head : head.substr(before + 1);
}

// Rust's older mangling is that of C++ with a hash at the end, and with escapes for what C++ has no letters
// for (the crate rustc-demangle, legacy.rs). The full name keeps the hash, the plain one is what programmers
// write.
constexpr size_t kHash = 19;  // "::h" and 16 digits

bool has_rust_hash(std::string_view name) {
  return name.size() > kHash && name.substr(name.size() - kHash, 3) == "::h" &&
         name.find_first_not_of("0123456789abcdef", name.size() - kHash + 3) == std::string_view::npos;
}

std::string rust_name(std::string_view name) {
  struct Escape {
    std::string_view escaped, text;
  };
  constexpr Escape kEscapes[] = {{"$SP$", "@"},  {"$BP$", "*"},  {"$RF$", "&"},  {"$LT$", "<"},
                                 {"$GT$", ">"},  {"$LP$", "("},  {"$RP$", ")"},  {"$C$", ","},
                                 {"..", "::"},   {"$u20$", " "}, {"$u27$", "'"}, {"$u5b$", "["},
                                 {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u7e$", "~"}};
  std::string out;
  while (!name.empty()) {
    const auto* escape = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                      [&](const Escape& one) { return name.starts_with(one.escaped); });
    // A part that would begin with an escape has an underscore in front.
    if (name.starts_with("_$") && (out.empty() || out.ends_with("::"))) {
      name.remove_prefix(1);
    } else if (escape == std::end(kEscapes)) {
      out += name.front();
      name.remove_prefix(1);
    } else {
      out += escape->text;
      name.remove_prefix(escape->escaped.size());
    }
  }
  return out;
}

}  // namespace

DemangledName demangle(const std::string& linkage_name) {
  if (linkage_name.starts_with("_R")) {
    Text text(llvm::rustDemangle(linkage_name));
    if (text) return {text.get(), text.get()};
  }
  if (linkage_name.starts_with("_Z")) {
    Text full(llvm::itaniumDemangle(linkage_name));
    if (full && has_rust_hash(full.get())) {
      std::string name = rust_name(full.get());
      std::string plain = name.substr(0, name.size() - kHash);
      return {std::move(name), std::move(plain)};
    }
    if (full) {
      llvm::ItaniumPartialDemangler parts;
      if (parts.partialDemangle(linkage_name.c_str()) || !parts.isFunction()) return {full.get(), full.get()};
      size_t size = 0;
      Text plain(parts.getFunctionName(nullptr, &size));
      return {full.get(), plain ? plain.get() : full.get()};
    }
  }
  return {linkage_name, linkage_name};
}

bool matches(const Function& function, std::string_view wanted) {
  if (function.name == wanted) return true;
  for (const std::string& alias : function.aliases)
    if (alias == wanted) return true;
  std::string_view identifier = certain_identifier(wanted);
  auto matches_demangled = [&](const std::string& name) {
    if (!is_mangled(name) || name.find(identifier) == std::string::npos) return false;
    DemangledName demangled = demangle(name);
    return demangled.full == wanted || demangled.plain == wanted;
  };
  if (matches_demangled(function.name)) return true;
  for (const std::string& alias : function.aliases)
    if (matches_demangled(alias)) return true;
  return false;
}

}  // namespace mdl::image
