#include "runtime/session/socket_names.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/say.h"
#include "format/kinds.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::inject {
namespace {

constexpr std::string_view kSocket = "socket:[";

std::optional<uint64_t> parsed(std::string_view text, int base = 10) {
  uint64_t out = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::string_view take_word(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

// Calls `take` with each line behind the heading.
template <typename Take>
void each_line(std::string_view table, Take take) {
  for (size_t at = table.find('\n'); at < table.size();) {
    const size_t begin = at + 1;
    at = std::min(table.find('\n', begin), table.size());
    take(table.substr(begin, at - begin));
  }
}

struct End {
  std::string address;
  uint64_t port = 0;
  std::string text() const { return fmt::format("{}:{}", address, port); }
};

// As the kernel writes it: words of 32 bits in hexadecimal, each as it lies in memory, and the port.
std::optional<End> end_of(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < colon / 8; ++i) {
    const auto word = parsed(text.substr(8 * i, 8), 16);
    if (!word) return std::nullopt;
    words[i] = static_cast<uint32_t>(*word);
  }
  const auto port = parsed(text.substr(colon + 1), 16);
  if (!port) return std::nullopt;
  const bool is_mapped = colon == 32 && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  char name[INET6_ADDRSTRLEN];
  if (colon == 8 || is_mapped) {
    inet_ntop(AF_INET, is_mapped ? &words[3] : words.data(), name, sizeof name);
    return End{name, *port};
  }
  inet_ntop(AF_INET6, words.data(), name, sizeof name);
  return End{fmt::format("[{}]", name), *port};
}

}  // namespace

void read_internet_sockets(std::string_view table, std::map<uint64_t, std::string>& out) {
  each_line(table, [&](std::string_view line) {
    std::array<std::string_view, 10> words;
    for (std::string_view& word : words) word = take_word(line);
    const auto local = end_of(words[1]), peer = end_of(words[2]);
    const auto inode = parsed(words[9]);
    if (!local || !peer || !inode || *inode == 0) return;
    out[*inode] = peer->port ? peer->text() : "local " + local->text();
  });
}

// A path may have any byte in it, so that it can look like more lines. Each socket has a line of its own: an inode that
// two lines have is known by none.
void read_unix_sockets(std::string_view table, std::map<uint64_t, std::string>& out) {
  std::set<uint64_t> seen;
  each_line(table, [&](std::string_view line) {
    std::array<std::string_view, 7> words;
    for (std::string_view& word : words) word = take_word(line);
    const auto inode = parsed(words[6]);
    if (!inode || *inode == 0) return;
    if (!seen.insert(*inode).second)
      out.erase(*inode);
    else if (line.size() > 1)
      out.emplace(*inode, "unix:" + escaped(line.substr(1)));
  });
}

std::string SocketNames::name_of(const std::string& text) {
  if (text.starts_with('<')) return text;
  if (!text.starts_with(kSocket))
    return fmt::format("{}{}{}", format::kFiles, text.starts_with('/') ? "" : "/", text);
  const std::string_view rest = std::string_view(text).substr(kSocket.size());
  const auto inode = parsed(rest.substr(0, rest.find(']')));
  if (!is_read_) read();
  const auto known = inode ? names_.find(*inode) : names_.end();
  return fmt::format("{}/{}", format::kSockets, known == names_.end() ? text : known->second);
}

void SocketNames::read() {
  names_.clear();
  is_read_ = true;
  read_unix_sockets(kernel::proc_text(pid_, "net/unix"), names_);
  for (const char* name : {"net/tcp", "net/tcp6", "net/udp", "net/udp6"})
    read_internet_sockets(kernel::proc_text(pid_, name), names_);
}

}  // namespace mdl::inject
