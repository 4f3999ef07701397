#include "runtime/kernel/channel.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

namespace mdl::kernel {
namespace {

constexpr uint32_t kAsks = 0, kAnswers = 1;  // whose turn it is
constexpr int kSpins = 2000;                 // some 10 to 50 us: as long as it takes to sleep and to be woken
// On a busy machine the other side has no processor while this one spins. After so many times in vain it is tried once
// in so many times.
constexpr int kInVain = 3, kSeldom = 32;

void send_file(int socket, int file) {
  char word = 0;
  iovec data{&word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(head), &file, sizeof file);
  (void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

int receive_file(int socket) {
  char word;
  iovec data{&word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  int file = -1;
  if (const cmsghdr* head = CMSG_FIRSTHDR(&message)) std::memcpy(&file, CMSG_DATA(head), sizeof file);
  return file;
}

bool has_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

}  // namespace

struct Channel::Shared {
  std::atomic<uint32_t> turn = kAsks, sleepers = 0;
  uint64_t size = 0;
  int32_t error = 0, has_file = 0;
  alignas(64) std::byte bytes[kRoom];
};

std::optional<Channel> Channel::make() {
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    munmap(memory, sizeof(Shared));
    return std::nullopt;
  }
  return Channel(new (memory) Shared, ends[0], ends[1]);  // its bytes are zeros, and untouched
}

Channel::Channel(Channel&& other) noexcept
    : shared_(std::exchange(other.shared_, nullptr)), own_(other.own_), may_spin_(other.may_spin_) {
  std::swap(ends_, other.ends_);
}

Channel::~Channel() {
  if (!shared_) return;
  munmap(shared_, sizeof(Shared));
  for (int end : ends_)
    if (end >= 0) close(end);
}

void Channel::asks() {
  take_side(0);
}

void Channel::answers() {
  take_side(1);
}

// Processes that are forked from here on have no part in it.
void Channel::take_side(int ours) {
  close(std::exchange(ends_[1 - ours], -1));
  own_ = ends_[ours], may_spin_ = has_processors();
  madvise(shared_, sizeof(Shared), MADV_DONTFORK);
}

std::span<std::byte> Channel::room() {
  return shared_->bytes;
}

// The other side has its end of the socket for as long as it lives.
bool Channel::is_connected() const {
  pollfd end{own_, 0, 0};
  return poll(&end, 1, 0) == 0;
}

void Channel::wait_gone() const {
  pollfd end{own_, 0, 0};
  while (poll(&end, 1, -1) != 1) continue;
}

void Channel::pass_turn(uint32_t to) {
  shared_->turn.store(to);
  if (shared_->sleepers.load() != 0) syscall(SYS_futex, &shared_->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool Channel::wait_turn(uint32_t wanted) {
  const bool spins = may_spin_ && (slept_ < kInVain || slept_ % kSeldom == 0);
  for (int spin = 0; spins && spin < kSpins; spin++) {
    if (shared_->turn.load(std::memory_order_acquire) == wanted) return slept_ = 0, true;
    __builtin_ia32_pause();
  }
  slept_++;
  while (shared_->turn.load() != wanted) {
    shared_->sleepers++;
    const timespec patience{1, 0};
    syscall(SYS_futex, &shared_->turn, FUTEX_WAIT, wanted == kAsks ? kAnswers : kAsks, &patience, nullptr, 0);
    shared_->sleepers--;
    if (shared_->turn.load() != wanted && !is_connected()) return false;
  }
  return true;
}

std::optional<Channel::Answer> Channel::ask(size_t size) {
  shared_->size = size;
  pass_turn(kAnswers);
  if (!wait_turn(kAsks)) return std::nullopt;
  Answer out{.bytes = std::span(shared_->bytes).first(shared_->size), .error = shared_->error};
  if (shared_->has_file) out.file = receive_file(own_);
  return out;
}

std::optional<size_t> Channel::next(std::span<std::byte> into) {
  if (!wait_turn(kAnswers)) return std::nullopt;
  const uint64_t size = *const_cast<const volatile uint64_t*>(&shared_->size);
  if (size > into.size()) return std::nullopt;
  std::memcpy(into.data(), shared_->bytes, size);
  return size;
}

void Channel::answer(size_t size, int error, int file) {
  if (file >= 0) send_file(own_, file);
  shared_->size = size, shared_->error = error, shared_->has_file = file >= 0;
  pass_turn(kAsks);
}

}  // namespace mdl::kernel
