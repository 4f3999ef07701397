#include "compiler/parse/broken.h"

#include <algorithm>

namespace mdl::parser {
namespace {

using P = MdlParser;

bool is_mended(antlr4::tree::ParseTree* tree) {
  std::vector<antlr4::tree::ParseTree*> left{tree};
  while (!left.empty()) {
    antlr4::tree::ParseTree* node = left.back();
    left.pop_back();
    if (dynamic_cast<antlr4::tree::ErrorNode*>(node) != nullptr) return true;
    auto* rule = dynamic_cast<antlr4::ParserRuleContext*>(node);
    if (rule != nullptr && rule->exception) return true;
    left.insert(left.end(), node->children.begin(), node->children.end());
  }
  return false;
}

bool is_word(size_t type) {
  return type == P::ID || (type >= P::KW_LIST && type <= P::KW_REGEX);
}

bool ends(size_t type) {
  return type == P::RBRACE || type == P::SEMI;
}

bool defines(size_t type) {
  return type == P::KW_LIST || type == P::KW_METRIC || type == P::KW_CONSTRAINT;
}

}  // namespace

bool is_broken(const Source& source, antlr4::ParserRuleContext* tree, const std::vector<Span>& wrong_tokens) {
  Span span = span_of(source, tree);
  auto inside = [&](const Span& wrong) { return span.begin <= wrong.begin && wrong.begin < span.end; };
  return std::any_of(wrong_tokens.begin(), wrong_tokens.end(), inside) || is_mended(tree);
}

// `metric m`, `resourceList (procedure, "l"`, and `metrc m` where a definition may begin.
std::vector<ast::Name> broken_names(const Source& source, antlr4::CommonTokenStream& tokens,
                                    const std::vector<ast::Definition>& whole) {
  std::vector<ast::Name> names;
  std::vector<antlr4::Token*> outside;
  auto add = [&](Span span) { names.push_back({std::string(source.text(span)), span}); };
  auto take = [&] {
    for (size_t i = 0; i + 1 < outside.size(); i++) {
      size_t type = outside[i]->getType(), next = outside[i + 1]->getType();
      bool first = type == P::ID && (i == 0 || ends(outside[i - 1]->getType()));
      if ((defines(type) || first) && is_word(next)) add(span_of(source, outside[i + 1]));
      bool short_list = type == P::KW_LIST && next == P::LPAREN && i + 4 < outside.size();
      if (!short_list || outside[i + 4]->getType() != P::STRING) continue;
      Span quoted = span_of(source, outside[i + 4]);
      add({quoted.file, quoted.begin + 1, quoted.end - 1});
    }
    outside.clear();
  };
  size_t next = 0;
  for (antlr4::Token* token : tokens.getTokens()) {
    uint32_t begin = span_of(source, token).begin;
    while (next < whole.size() && whole[next].span.end <= begin) next++;
    if (next < whole.size() && whole[next].span.begin <= begin)
      take();
    else if (token->getChannel() == antlr4::Token::DEFAULT_CHANNEL)
      outside.push_back(token);
  }
  take();
  return names;
}

}  // namespace mdl::parser
