#include "runtime/session/guest_wire.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "runtime/process/lock.h"

namespace mdl::inject::guest_wire {
namespace {

constexpr size_t kHead = sizeof(uint32_t) + sizeof(Kind);
constexpr size_t kMostAtOnce = size_t{1} << 20;  // that is read in one go
constexpr int kWaiting = 4;                      // that have called and were not taken yet

std::string note_in(const char* notes, size_t size) {
  ElfW(Nhdr) head{};
  const auto whole = [](size_t length) { return (length + 3) & ~size_t{3}; };
  for (size_t at = 0; at + sizeof head <= size;) {
    std::memcpy(&head, notes + at, sizeof head);
    const size_t name = at + sizeof head, text = name + whole(head.n_namesz);
    if (head.n_type == NT_GNU_BUILD_ID && text + head.n_descsz <= size)
      return std::string(notes + text, head.n_descsz);
    at = text + whole(head.n_descsz);
  }
  return {};
}

// No file: it goes with its owner. Everybody may call there, so both sides ask the kernel who the other is.
sockaddr_un address_of(pid_t target, socklen_t& size) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  const std::string name = "mdl-inject/" + process::lock_name(target);
  const size_t length = std::min(name.size(), sizeof out.sun_path - 1);
  std::memcpy(out.sun_path + 1, name.data(), length);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return out;
}

std::optional<Peer> peer_at(int file) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(file, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) return Peer{file, who.pid, who.uid};
  close(file);
  return std::nullopt;
}

int make_socket() {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

}  // namespace

std::string build_id() {
  std::string out;
  const auto look = [](dl_phdr_info* program, size_t, void* into) {
    for (int i = 0; i < program->dlpi_phnum; i++)
      if (const auto& part = program->dlpi_phdr[i]; part.p_type == PT_NOTE)
        if (std::string found =
                note_in(reinterpret_cast<const char*>(program->dlpi_addr + part.p_vaddr), part.p_memsz);
            !found.empty())
          *static_cast<std::string*>(into) = std::move(found);
    return 1;  // the first is the program itself
  };
  dl_iterate_phdr(look, &out);
  return out;
}

Line::~Line() {
  if (file_ >= 0) close(file_);
}

Line::Line(Line&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      longest_(other.longest_),
      wrong_(other.wrong_),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)) {}

Line& Line::operator=(Line&& other) noexcept {
  std::swap(file_, other.file_);
  longest_ = other.longest_, wrong_ = other.wrong_;
  in_ = std::move(other.in_), out_ = std::move(other.out_);
  return *this;
}

bool Line::receive() {
  char bytes[1 << 16];
  for (size_t all = 0; all < kMostAtOnce && !wrong_;) {
    const ssize_t got = recv(file_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    in_.append(bytes, static_cast<size_t>(got));
    all += static_cast<size_t>(got);
    if (in_.size() > longest_ + 2 * kHead) break;  // there is a whole one, or one that is too long
  }
  return !wrong_;
}

std::optional<Message> Line::next() {
  uint32_t size = 0;
  if (in_.size() < kHead || wrong_) return std::nullopt;
  std::memcpy(&size, in_.data(), sizeof size);
  wrong_ = size > longest_;
  if (wrong_ || in_.size() - kHead < size) return std::nullopt;
  Message out;
  std::memcpy(&out.kind, in_.data() + sizeof size, sizeof out.kind);
  out.fields = in_.substr(kHead, size);
  in_.erase(0, kHead + size);
  return out;
}

void Line::send(Kind kind, std::string fields) {
  const auto size = static_cast<uint32_t>(fields.size());
  out_.append(reinterpret_cast<const char*>(&size), sizeof size);
  out_.append(reinterpret_cast<const char*>(&kind), sizeof kind);
  out_ += fields;
}

bool Line::flush() {
  size_t sent = 0;
  bool is_there = true;
  while (sent < out_.size()) {
    const ssize_t put = ::send(file_, out_.data() + sent, out_.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) is_there = errno == EAGAIN || errno == EWOULDBLOCK;
    if (put < 0) break;
    sent += static_cast<size_t>(put);
  }
  out_.erase(0, sent);
  return is_there;
}

int listen_for(pid_t target) {
  const int file = make_socket();
  if (file < 0) return -1;
  socklen_t size = 0;
  const sockaddr_un at = address_of(target, size);
  if (bind(file, reinterpret_cast<const sockaddr*>(&at), size) == 0 && listen(file, kWaiting) == 0)
    return file;
  close(file);
  return -1;
}

std::optional<Peer> call_host_of(pid_t target) {
  const int file = make_socket();
  if (file < 0) return std::nullopt;
  socklen_t size = 0;
  const sockaddr_un at = address_of(target, size);
  if (connect(file, reinterpret_cast<const sockaddr*>(&at), size) == 0) return peer_at(file);
  close(file);
  return std::nullopt;
}

std::optional<Peer> take_call(int listener) {
  const int file = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  return file < 0 ? std::nullopt : peer_at(file);
}

}  // namespace mdl::inject::guest_wire
