#include "mdlc/lsp/transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

namespace mdl::lsp {
namespace {

constexpr size_t kChunk = size_t{1} << 16;
constexpr size_t kMaxLine = 1024;  // of a header
constexpr size_t kMaxHeaders = 32;

bool is_named(std::string_view header, std::string_view name) {
  return header.size() > name.size() && header[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), header.begin(), [](char a, char b) { return a == (b | 0x20); });
}

std::optional<uint64_t> number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool Transport::fill() {
  buffer_.resize(kChunk);
  ssize_t got = 0;
  do got = read(in_, buffer_.data(), buffer_.size());
  while (got < 0 && errno == EINTR);
  buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
  at_ = 0;
  return got > 0;
}

int Transport::byte() {
  if (at_ == buffer_.size() && !fill()) return -1;
  return static_cast<unsigned char>(buffer_[at_++]);
}

bool Transport::line(std::string& text) {
  text.clear();
  for (int c = byte(); c != -1; c = byte()) {
    if (c == '\n') {
      if (!text.empty() && text.back() == '\r') text.pop_back();
      return true;
    }
    if (text.size() <= kMaxLine) text += static_cast<char>(c);
  }
  return false;
}

Transport::Received Transport::receive() {
  using Kind = Received::Kind;
  std::optional<uint64_t> length;
  std::string wrong, text;
  for (size_t headers = 0;; headers++) {
    if (!line(text)) return {Kind::end, ""};
    if (text.empty()) break;
    if (text.size() > kMaxLine) wrong = "a header is too long";
    if (headers == kMaxHeaders) wrong = "too many headers";
    if (!is_named(text, "content-length")) continue;
    length = number(std::string_view(text).substr(sizeof "content-length"));
    if (!length) wrong = "Content-Length is no number";
  }
  if (wrong.empty() && !length) wrong = "Content-Length is missing";
  if (!length) return {Kind::bad, wrong};
  Received received = body(*length);
  if (received.kind == Kind::message && !wrong.empty()) return {Kind::bad, wrong};
  return received;
}

// A body that is too long is read and forgotten.
Transport::Received Transport::body(uint64_t length) {
  bool keeps = length <= kMaxBytes;
  Received received{Received::Kind::message, ""};
  for (uint64_t left = length; left > 0;) {
    if (at_ == buffer_.size() && !fill()) return {Received::Kind::end, ""};
    auto some = static_cast<size_t>(std::min<uint64_t>(left, buffer_.size() - at_));
    if (keeps) received.text.append(buffer_, at_, some);
    at_ += some;
    left -= some;
  }
  if (keeps) return received;
  return {Received::Kind::bad, fmt::format("a message is longer than {} bytes", kMaxBytes)};
}

bool Transport::send(std::string_view json) {
  std::string bytes = fmt::format("Content-Length: {}\r\n\r\n{}", json.size(), json);
  for (std::string_view left = bytes; !left.empty();) {
    ssize_t done = write(out_, left.data(), left.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    left.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

}  // namespace mdl::lsp
