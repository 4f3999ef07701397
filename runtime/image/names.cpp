// Matching of names that people type against linkage names. Demangling is slow (a big
// program has a hundred thousand names), so a name is demangled only when it could match.
#include <algorithm>

#include "llvm/ADT/StringRef.h"
#include "runtime/image/image.h"

namespace mdl::image {
namespace {

constexpr std::string_view kIdentifier = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

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

}  // namespace

std::string without_arguments(std::string_view name) {
  std::string out;
  int depth = 0;
  for (const char c : name) {
    if (c == '<') depth++;
    if (depth == 0) out += c;
    if (c == '>' && depth > 0) depth--;
  }
  return out;
}

bool is_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("_R");
}

NameTest::NameTest(std::string_view wanted) : wanted_(wanted), identifier_(certain_identifier(wanted)) {}

bool NameTest::is_demangled(const std::string& name) const {
  if (!is_mangled(name) || llvm::StringRef(name).find(identifier_) == llvm::StringRef::npos) return false;
  const DemangledName demangled = demangle(name);
  return demangled.full == wanted_ || demangled.plain == wanted_;
}

bool NameTest::operator()(const Function& function) const {
  return function.name == wanted_ || std::ranges::find(function.aliases, wanted_) != function.aliases.end() ||
         is_demangled(function.name) ||
         std::ranges::any_of(function.aliases, [&](const std::string& alias) { return is_demangled(alias); });
}

bool matches(const Function& function, std::string_view wanted) {
  return NameTest(wanted)(function);
}

}  // namespace mdl::image
