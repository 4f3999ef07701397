// Source text: any bytes are parsed and analyzed without a crash; what is accepted lowers
// to IR that the verifier accepts, before and after the passes; every diagnostic can be shown; the formatter
// keeps every token and comment, and has nothing to change in what it made.
//
// An input that begins with `{` is what a client says to the language server, a message a line; one that begins with
// `Content-`, the bytes that it sends.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "compiler/ast/dump.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/passes.h"
#include "compiler/reformat/layout.h"
#include "compiler/reformat/printer.h"
#include "compiler/sema/analyze.h"
#include "mdlc/lsp/server.h"

using namespace mdl;

namespace {

std::string formatted(const ast::File& file, const Source& source) {
  return print(items_of(source, mark_tokens(file, source)));
}

// Tokens and comments, a line each.
std::string content(const Source& source) {
  std::string text;
  for (const Item& item : items_of(source, {})) {
    for (const Comment& comment : item.comments) text += fmt::format("{}\n", comment.text);
    text += fmt::format("{}\n", item.text);
  }
  return text;
}

void check_formatter(const ast::File& file, const Source& source, Standard standard) {
  Source once(0, "once.mdl", formatted(file, source));
  Diagnostics diagnostics;
  ast::File again = parse(once, standard, diagnostics);
  bool kept = content(once) == content(source) && !diagnostics.has_errors();
  if (kept && formatted(again, once) == once.text()) return;
  std::fprintf(stderr, "%s is formatted to\n%s\n", std::string(source.text()).c_str(),
               std::string(once.text()).c_str());
  std::abort();
}

void check_verified(const Program& program) {
  for (const ir::Snippet& snippet : program.snippets) {
    if (Result<void> verified = ir::verify(snippet); !verified) {
      std::fprintf(stderr, "%s\n", verified.error().text.c_str());
      std::abort();
    }
  }
}

std::string framed(std::string_view messages) {
  std::string out;
  while (!messages.empty()) {
    const std::string_view line = messages.substr(0, messages.find('\n'));
    messages.remove_prefix(std::min(line.size() + 1, messages.size()));
    out += fmt::format("Content-Length: {}\r\n\r\n{}", line.size(), line);
  }
  return out;
}

void serve(std::string_view bytes) {
  const int in = memfd_create("client", MFD_CLOEXEC);
  const int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (in < 0 || out < 0 || write(in, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  lseek(in, 0, SEEK_SET);
  mdlc::Options options;
  options.target = backend::all_targets()[0];
  options.cpu = options.target->cpu;
  (void)lsp::serve(options, in, out);
  close(in), close(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('{')) return serve(framed(text)), 0;
  if (text.starts_with("Content-")) return serve(text), 0;
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
  if (!diagnostics.has_errors()) check_formatter(files[0], source, options.standard);
  if (files[0].readable) {
    Program program = analyze(files, sources, options, diagnostics);
    if (!diagnostics.has_errors()) {
      check_verified(program);
      if (!passes::run_passes(program, {})) std::abort();
      check_verified(program);
    }
  }
  render_text(diagnostics, sources);
  return 0;
}
