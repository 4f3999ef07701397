// Source files and places in them.
//
// A place is a span of bytes in the file with a given ordinal (its position on the command
// line); lines and columns are worked out from the line table only when someone reads
// them. Columns count bytes from 1, as compilers and editors expect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/manifest.h"

namespace mdl {

// Bytes [begin, end) of file `file`. An empty span is a place between two bytes.
struct Span {
  uint32_t file = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const Span&) const = default;
};

// The smallest span that covers both, which are in one file.
Span join(Span a, Span b);

class Source {
 public:
  // The limit of parse(); 5,000 metrics are about 2 MB.
  static constexpr size_t kMaxBytes = size_t{8} << 20;

  // `text` may be any bytes: parse() says what is wrong with them.
  Source(uint32_t ordinal, std::string path, std::string text);

  uint32_t ordinal() const { return ordinal_; }
  const std::string& path() const { return path_; }
  std::string_view text() const { return text_; }
  std::string_view text(Span span) const;

  // Line and column of a byte; an offset beyond the end is the end.
  format::Position position(uint32_t offset) const;
  // The text of line `line` (from 1) without its line end, and the offset of its first byte.
  std::string_view line(uint32_t line) const;
  uint32_t line_begin(uint32_t line) const;

 private:
  uint32_t ordinal_;
  std::string path_;
  std::string text_;
  std::vector<uint32_t> lines_;  // offset of each line's first byte
};

// The files of one compilation, by ordinal. References stay valid as files are added.
class Sources {
 public:
  const Source& add(std::string path, std::string text);
  Result<const Source*> read(const std::string& path);  // from the file system

  size_t size() const { return files_.size(); }
  const Source& operator[](uint32_t ordinal) const { return files_[ordinal]; }
  format::Position position(Span span) const;  // of its first byte

 private:
  std::deque<Source> files_;
};

}  // namespace mdl
