// Messages of the language server protocol as bytes: "Content-Length: N", an empty line, N
// bytes of JSON. Input may be anything; the part of it that is kept is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mdl::lsp {

class Transport {
 public:
  // A source of the largest size, escaped, fits.
  static constexpr size_t kMaxBytes = size_t{16} << 20;

  Transport(int in, int out) : in_(in), out_(out) {}

  struct Received {
    enum class Kind : uint8_t { message, bad, end };
    Kind kind = Kind::end;
    std::string text;  // message: the JSON; bad: what is wrong with the framing
  };
  // The next message. After a bad one, reading goes on behind it.
  Received receive();

  bool send(std::string_view json);  // false when nobody reads any more

 private:
  int byte();  // -1 at the end
  bool fill();
  bool line(std::string& text);  // without its end; false at the end of the input
  Received body(uint64_t length);

  int in_;
  int out_;
  std::string buffer_;
  size_t at_ = 0;
};

}  // namespace mdl::lsp
