// Completion: the words that could stand at a place.
#pragma once

#include <string>
#include <vector>

#include "mdlc/lsp/analysis.h"

namespace mdl::lsp {

// Values of the protocol's CompletionItemKind.
enum class ItemKind : uint8_t { function = 3, field = 5, variable = 6, keyword = 14, constant = 21 };

struct Completion {
  std::string label;
  ItemKind kind = ItemKind::keyword;
  std::string detail;  // "a procedure", or ""
};

std::vector<Completion> complete(const Analysis& analysis, uint32_t offset);

}  // namespace mdl::lsp
