// mdlc's own parts: what it writes for make, the fixes that it makes, and its language server's ears.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "mdlc/depfile.h"
#include "mdlc/fix.h"
#include "mdlc/lsp/context.h"
#include "mdlc/lsp/transport.h"

namespace mdl {
namespace {

TEST(Depfile, EscapesWhatMakeReads) {
  EXPECT_EQ(mdlc::dependencies("a.plan", {"b.mdl"}), "a.plan: \\\n  b.mdl\n");
  EXPECT_EQ(mdlc::dependencies("my plan", {"a#b", "$x", R"(c\ d)", "é"}),
            "my\\ plan: \\\n  a\\#b \\\n  $$x \\\n  c\\\\\\ d \\\n  é\n");
}

Span span(uint32_t begin, uint32_t end) {
  return {0, begin, end};
}

TEST(Fix, EditsOfADiagnosticAreMadeTogetherOrNotAtAll) {
  Sources sources;
  sources.add("m.mdl", "one two three");
  Diagnostics diagnostics;
  diagnostics.report(DiagnosticCode::obsolete, span(0, 3), "x").edit(span(0, 3), "1").edit(span(8, 13), "3");
  diagnostics.report(DiagnosticCode::obsolete, span(4, 7), "x").edit(span(4, 7), "2");
  // Touches an edit that is made: left for another run, with both of its edits.
  diagnostics.report(DiagnosticCode::obsolete, span(8, 13), "x").edit(span(3, 3), "!").edit(span(9, 10), "?");
  const auto files = mdlc::fixed_files(diagnostics, sources);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].text, "1 2 3");
  EXPECT_EQ(files[0].fixes, 2u);
}

TEST(Fix, WithoutEditsNoFileChanges) {
  Sources sources;
  sources.add("m.mdl", "one");
  Diagnostics diagnostics;
  diagnostics.report(DiagnosticCode::obsolete, span(0, 3), "x");
  EXPECT_TRUE(mdlc::fixed_files(diagnostics, sources).empty());
}

lsp::Context context_of(std::string text) {
  const size_t cursor = text.find('^');
  text.erase(cursor, 1);
  return lsp::context_at(Source(0, "m.mdl", text), static_cast<uint32_t>(cursor));
}

TEST(Context, KnowsWhereTheCursorIs) {
  EXPECT_EQ(context_of("^").place, lsp::Place::top);
  EXPECT_EQ(context_of("metric m { ^").place, lsp::Place::metric);
  EXPECT_EQ(context_of("metric m { name \"a^b\"; }").place, lsp::Place::nowhere);
  EXPECT_EQ(context_of("// ^").place, lsp::Place::nowhere);
  const lsp::Context code = context_of(
      "metric m { counter t; base is counter { foreach f in $procedures { append f.entry (* ^ *) } } }");
  EXPECT_EQ(code.place, lsp::Place::code);
  ASSERT_EQ(code.loops.size(), 1u);
  EXPECT_EQ(code.loops[0].variable, "f");
  const lsp::Context member =
      context_of("metric m { base is counter { foreach f in $procedures { append f.^");
  EXPECT_EQ(member.object, "f");
}

class Pipe {
 public:
  explicit Pipe(std::string bytes) {
    EXPECT_EQ(pipe(ends_), 0);
    writer_ = std::thread([this, bytes = std::move(bytes)] {
      for (std::string_view left = bytes; !left.empty();) {
        const ssize_t done = write(ends_[1], left.data(), left.size());
        if (done <= 0) break;
        left.remove_prefix(static_cast<size_t>(done));
      }
      close(ends_[1]);
    });
  }
  ~Pipe() {
    writer_.join();
    close(ends_[0]);
  }
  int reader() const { return ends_[0]; }

 private:
  int ends_[2] = {};
  std::thread writer_;
};

using Kind = lsp::Transport::Received::Kind;

TEST(Transport, GoesOnBehindABadMessage) {
  Pipe pipe(
      "Content-Length: 2\r\n\r\n{}Content-Length: x\r\n\r\nContent-Type: y\r\ncontent-length: 4\r\n\r\nnull");
  lsp::Transport transport(pipe.reader(), -1);
  auto first = transport.receive();
  EXPECT_EQ(first.kind, Kind::message);
  EXPECT_EQ(first.text, "{}");
  EXPECT_EQ(transport.receive().kind, Kind::bad);
  auto last = transport.receive();
  EXPECT_EQ(last.kind, Kind::message);
  EXPECT_EQ(last.text, "null");
  EXPECT_EQ(transport.receive().kind, Kind::end);
}

TEST(Transport, ForgetsWhatIsTooLong) {
  const std::string large(lsp::Transport::kMaxBytes + 1, ' ');
  Pipe pipe("Content-Length: " + std::to_string(large.size()) + "\r\n\r\n" + large +
            "Content-Length: 1\r\n\r\n1");
  lsp::Transport transport(pipe.reader(), -1);
  EXPECT_EQ(transport.receive().kind, Kind::bad);
  EXPECT_EQ(transport.receive().text, "1");
}

}  // namespace
}  // namespace mdl
