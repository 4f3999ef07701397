// The fields of a definition: in any order, each at most once.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/support/diagnostics.h"

namespace mdl::sema {

// A definition as messages name it: "metric 'm'", located at its first line.
struct Subject {
  std::string_view noun;
  const ast::Name& name;
  Span span;  // of the definition
};

// Whether a field has to be there, and what is said when it is not.
enum class Need : uint8_t { optional, required };

class Settings {
 public:
  Settings(Subject subject, const std::vector<ast::Setting>& settings, Diagnostics& diagnostics)
      : subject_(subject), settings_(settings), diagnostics_(diagnostics) {}

  // The field `key`, or null. A doubled one, and a missing one that is required, is
  // reported at the definition's first line.
  const ast::Setting* find(std::string_view key, Need need);

  // The value of a field that takes one of a few words; `fallback` where there is none.
  std::string choice(std::string_view key, std::span<const std::string_view> choices, Need need,
                     std::string fallback);
  // The text of a field with one value.
  std::string text(std::string_view key, Need need);
  // The words of `flavor`.
  std::vector<std::string> flavors(Need need);

  void missing(std::string_view key);
  void doubled(std::string_view key, Span first, Span second);

 private:
  Span first_line() const { return {subject_.span.file, subject_.span.begin, subject_.name.span.end}; }

  Subject subject_;
  const std::vector<ast::Setting>& settings_;
  Diagnostics& diagnostics_;
};

// The words of a setting, each reported when it comes again.
std::vector<std::string> distinct(const std::vector<ast::Literal>& values, Diagnostics& diagnostics);

}  // namespace mdl::sema
