// Threads asleep in one system call each. An attach must not wake them: none may see EINTR
// or return for another reason, and each must still wake when it is asked to.
//
//   sleepers [SECONDS]
//
// Raw system calls, because the C library restarts or hides some results. Commands:
//
//   report    answers {"event":"report","threads":N,"woken":{CALL:ERRNO,...}}: the calls that
//             returned although nobody asked them to (0 = returned without an error)
//   wake      everybody who can be woken is; answers {"event":"woken","awake":N,"expected":N}
//   quit      ends with status 0
//
// `short_sleep` and `short_poll` are different: they sleep for 30 ms again and again and note
// an EINTR, and a sleep that was too short or more than two seconds too long.
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

#include "protocol.h"

namespace {

constexpr timespec kLong{3600, 0};

struct Sleeper {
  const char* name;
  std::atomic<bool> returned{false};
  std::atomic<long> result{0};  // of the call, or -errno
};

std::list<Sleeper> sleepers;
std::list<std::thread> threads;
std::atomic<bool> waking{false};
std::atomic<bool> ending{false};
std::atomic<int> short_interrupted{0}, short_wrong_length{0}, short_done{0};

// Starts a thread that makes one call and notes how it came back.
template <typename Call>
void sleeper(const char* name, Call call) {
  Sleeper& entry = sleepers.emplace_back();
  entry.name = name;
  threads.emplace_back([&entry, call] {
    long result = call();
    entry.result = result < 0 ? -errno : result;
    entry.returned = true;
  });
}

// Sleeps shortly, over and over, until the end.
template <typename Call>
void short_sleeper(Call call) {
  threads.emplace_back([call] {
    while (!ending) {
      timespec before, after;
      clock_gettime(CLOCK_MONOTONIC, &before);
      long result = call();
      int error = errno;
      clock_gettime(CLOCK_MONOTONIC, &after);
      double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                       1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
      if (result < 0 && error == EINTR) ++short_interrupted;
      if (seconds < 0.030 || seconds > 2.0) ++short_wrong_length;
      ++short_done;
    }
  });
}

int listening_socket() {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(fd, 1) != 0) abort();
  return fd;
}

int new_epoll(int fd) {
  int epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) abort();
  return epoll;
}

// What wakes the sleepers.
int event;         // an eventfd that many wait on, without reading it
int pipes[2];      // read
int packets[2];    // recv
int receiving[2];  // recv with SO_RCVTIMEO
int listener;      // accept
int semaphores;    // semop
int queue;         // msgrcv
uint32_t futex_word = 0;
pid_t child;  // wait4

void start_event_waiters() {
  sleeper("epoll_wait", [epoll = new_epoll(event)] {
    epoll_event got;
    return syscall(SYS_epoll_wait, epoll, &got, 1, -1);
  });
  sleeper("epoll_pwait", [epoll = new_epoll(event)] {
    epoll_event got;
    return syscall(SYS_epoll_pwait, epoll, &got, 1, 3600 * 1000, nullptr, 8);
  });
  sleeper("poll", [] {
    pollfd wanted{event, POLLIN, 0};
    return syscall(SYS_poll, &wanted, 1, 3600 * 1000);
  });
  sleeper("poll_forever", [] {
    pollfd wanted{event, POLLIN, 0};
    return syscall(SYS_poll, &wanted, 1, -1);
  });
  sleeper("ppoll", [] {
    pollfd wanted{event, POLLIN, 0};
    timespec limit = kLong;
    return syscall(SYS_ppoll, &wanted, 1, &limit, nullptr, 8);
  });
  sleeper("select", [] {
    fd_set wanted;
    FD_ZERO(&wanted);
    FD_SET(event, &wanted);
    timeval limit{3600, 0};
    return syscall(SYS_select, event + 1, &wanted, nullptr, nullptr, &limit);
  });
}

void start_descriptor_waiters() {
  sleeper("read", [] {
    char c;
    return syscall(SYS_read, pipes[0], &c, 1);
  });
  sleeper("recvfrom", [] {
    char c;
    return syscall(SYS_recvfrom, packets[0], &c, 1, 0, nullptr, nullptr);
  });
  sleeper("recv_with_timeout", [] {
    char c;
    return syscall(SYS_recvfrom, receiving[0], &c, 1, 0, nullptr, nullptr);
  });
  sleeper("accept", [] { return syscall(SYS_accept4, listener, nullptr, nullptr, 0); });
}

void start_other_waiters() {
  sleeper("futex",
          [] { return syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0); });
  sleeper("futex_with_timeout", [] {
    timespec limit = kLong;
    return syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, &limit, nullptr, 0);
  });
  sleeper("nanosleep", [] {
    timespec time = kLong;
    return syscall(SYS_nanosleep, &time, nullptr);
  });
  sleeper("clock_nanosleep", [] {
    timespec time = kLong;
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr);
  });
  sleeper("rt_sigtimedwait", [] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    timespec time = kLong;
    return syscall(SYS_rt_sigtimedwait, &set, nullptr, &time, 8);
  });
  sleeper("semop", [] {
    sembuf down{0, -1, 0};
    return syscall(SYS_semop, semaphores, &down, 1);
  });
  sleeper("msgrcv", [] {
    struct {
      long type;
      char text[8];
    } message;
    return syscall(SYS_msgrcv, queue, &message, sizeof message.text, 1, 0);
  });
  sleeper("wait4", [] { return syscall(SYS_wait4, child, nullptr, 0, nullptr); });
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 1, &context) == 0) {
    sleeper("io_getevents", [context] {
      io_event got;
      return syscall(SYS_io_getevents, context, 1, 1, &got, nullptr);
    });
  }
}

// Those that nothing but time or a signal wakes stay asleep.
bool can_be_woken(const std::string& name) {
  return name != "nanosleep" && name != "clock_nanosleep" && name != "io_getevents";
}

void wake_all() {
  uint64_t one = 1;
  struct {
    long type;
    char text[8];
  } message{1, "m"};
  sembuf up{0, 1, 0};
  if (write(event, &one, sizeof one) != sizeof one || write(pipes[1], "p", 1) != 1 ||
      send(packets[1], "s", 1, 0) != 1 || send(receiving[1], "t", 1, 0) != 1 ||
      semop(semaphores, &up, 1) != 0 || msgsnd(queue, &message, sizeof message.text, 0) != 0) {
    abort();
  }
  __atomic_store_n(&futex_word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 100, nullptr, nullptr, 0);
  kill(getpid(), SIGUSR1);
  kill(child, SIGKILL);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  int client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client, reinterpret_cast<sockaddr*>(&address), size) != 0) abort();
}

void open_everything() {
  event = eventfd(0, 0);
  listener = listening_socket();
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  queue = msgget(IPC_PRIVATE, 0600);
  timeval limit{3600, 0};
  if (pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, packets) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM, 0, receiving) != 0 || semaphores < 0 || queue < 0 ||
      setsockopt(receiving[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
    abort();
  }
  child = fork();
  if (child == 0) {
    alarm(300);
    while (true) pause();
  }
}

void report() {
  std::string woken;
  for (Sleeper& entry : sleepers) {
    if (!entry.returned) continue;
    long result = entry.result;
    woken += std::string(woken.empty() ? "" : ",") + "\"" + entry.name +
             "\":" + std::to_string(result < 0 ? -result : 0);
  }
  protocol::say_event(
      "report", protocol::field("threads", sleepers.size()) + ",\"woken\":{" + woken + "}," +
                    protocol::field("short_interrupted", static_cast<unsigned>(short_interrupted)) + "," +
                    protocol::field("short_wrong_length", static_cast<unsigned>(short_wrong_length)) + "," +
                    protocol::field("short_done", static_cast<unsigned>(short_done)));
}

void wake_and_count() {
  wake_all();
  unsigned expected = 0, awake = 0;
  for (int tries = 0; tries < 500; ++tries) {
    expected = awake = 0;
    for (Sleeper& entry : sleepers) {
      if (!can_be_woken(entry.name)) continue;
      ++expected;
      if (entry.returned && entry.result >= 0) ++awake;
    }
    if (awake == expected) break;
    usleep(10000);
  }
  protocol::say_event("woken", protocol::field("awake", awake) + "," + protocol::field("expected", expected));
}

void end() {
  kill(child, SIGKILL);
  semctl(semaphores, 0, IPC_RMID);
  msgctl(queue, IPC_RMID, nullptr);
  _exit(0);
}

}  // namespace

// Something to instrument that nobody calls while the sleepers sleep.
extern "C" __attribute__((noinline, used)) void t_sleepers_idle() {
  asm volatile("nop; nop; nop; nop; nop; nop");
}

int main(int argc, char** argv) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGALRM, [](int) { end(); });
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  open_everything();
  start_event_waiters();
  start_descriptor_waiters();
  start_other_waiters();
  short_sleeper([] {
    timespec time{0, 30'000'000};
    return syscall(SYS_nanosleep, &time, nullptr);
  });
  short_sleeper([] { return syscall(SYS_poll, nullptr, 0, 31); });
  usleep(100000);
  t_sleepers_idle();

  protocol::say_event("ready");
  while (true) {
    std::string word = protocol::next_command().word;
    if (word == "report") {
      report();
    } else if (word == "wake") {
      wake_and_count();
    } else {
      end();
    }
  }
}
