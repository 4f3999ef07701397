// Source text: any bytes are parsed and analyzed without a crash; what is accepted lowers
// to IR that the verifier accepts; every diagnostic can be shown.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "compiler/ast/dump.h"
#include "compiler/ir/verify.h"
#include "compiler/sema/analyze.h"

using namespace mdl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The last byte chooses the standard and the flavor, so that seeds stay plain text.
  uint8_t choice = size == 0 ? 0 : data[size - 1];
  SemaOptions options;
  options.standard = (choice & 1) != 0 ? Standard::classic : Standard::mdl26;
  if ((choice & 2) != 0) options.flavor = "unix";

  Sources sources;
  Diagnostics diagnostics;
  const Source& source = sources.add("input.mdl", std::string(reinterpret_cast<const char*>(data), size));
  std::vector<ast::File> files;
  files.push_back(parse(source, options.standard, diagnostics));
  ast::dump(files[0], source);
  if (!diagnostics.has_errors()) {
    Program program = analyze(files, sources, options, diagnostics);
    for (const ir::Snippet& snippet : program.snippets) {
      if (diagnostics.has_errors()) break;
      if (Result<void> verified = ir::verify(snippet); !verified) {
        std::fprintf(stderr, "%s\n", verified.error().text.c_str());
        std::abort();
      }
    }
  }
  render_text(diagnostics, sources);
  return 0;
}
