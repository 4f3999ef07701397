#include "mdlc/lsp/documents.h"

#include "mdlc/lsp/places.h"
#include "mdlc/search.h"

namespace mdl::lsp {

const Document* Documents::open(const std::string& uri, int64_t version, std::string text) {
  if (!documents_.contains(uri) && documents_.size() == kMaxDocuments) return nullptr;
  Document& document = documents_[uri];
  document.uri = uri;
  document.version = version;
  document.text = {path_of(uri), std::move(text)};
  document.analysis = analyze_document(document.text, others(), options_);
  document.index = index_of(*document.analysis);
  return &document;
}

const Document* Documents::find(const std::string& uri) const {
  auto found = documents_.find(uri);
  return found == documents_.end() ? nullptr : &found->second;
}

// The files of the command line, as they are in the editor or else on the disk. One that is
// missing is left out: the names that it would define are then.
std::vector<Text> Documents::others() const {
  std::vector<Text> texts;
  for (const std::string& name : options_.files) {
    auto path = mdlc::find_file(name, options_.directories);
    if (!path) continue;
    std::string absolute = path_of(uri_of(*path));
    if (const Document* open = find(uri_of(*path))) {
      texts.push_back(open->text);
      continue;
    }
    Sources sources;
    if (auto read = sources.read(*path); read) texts.push_back({absolute, std::string(sources[0].text())});
  }
  return texts;
}

}  // namespace mdl::lsp
