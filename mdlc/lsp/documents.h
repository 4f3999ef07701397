// The documents that the client has open, each with what the compiler knows about it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mdlc/lsp/analysis.h"
#include "mdlc/lsp/names.h"

namespace mdl::lsp {

struct Document {
  std::string uri;
  int64_t version = 0;
  Text text;
  std::unique_ptr<Analysis> analysis;  // never null
  Index index;
};

class Documents {
 public:
  static constexpr size_t kMaxDocuments = 256;

  // The files of the command line are part of every document's program.
  explicit Documents(const mdlc::Options& options) : options_(options) {}

  // Null when too many are open.
  const Document* open(const std::string& uri, int64_t version, std::string text);
  void close(const std::string& uri) { documents_.erase(uri); }
  const Document* find(const std::string& uri) const;

 private:
  std::vector<Text> others() const;

  const mdlc::Options& options_;
  std::map<std::string, Document, std::less<>> documents_;
};

}  // namespace mdl::lsp
