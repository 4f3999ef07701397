// What the sleepers sleep in, and what wakes them (sleepers.cpp).
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "sleepers.h"

std::list<Sleeper> sleepers;

namespace {

constexpr timespec kLong{3600, 0};

std::list<std::thread> threads;
std::string wanted;  // ",read,futex,", or "" for all

// Starts a thread that makes one call and notes how it came back.
template <typename Call>
void sleeper(const char* name, Call call) {
  if (!wanted.empty() && wanted.find("," + std::string(name) + ",") == wanted.npos) return;
  Sleeper& entry = sleepers.emplace_back();
  entry.name = name;
  threads.emplace_back([&entry, call] {
    long result = call();
    while (result < 0 && errno == EINTR) {
      ++entry.interrupted;
      result = call();
    }
    entry.result = result < 0 ? -errno : result;
    entry.returned = true;
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
int event;           // an eventfd that many wait on, without reading it
int pipes[2];        // read
int packets[2];      // recv
int receiving[2];    // recv with SO_RCVTIMEO
int listener;        // accept
int semaphores;      // semop, semtimedop
int accepting;       // accept with SO_RCVTIMEO
int full_pipe[2];    // write
int full_socket[2];  // send with SO_SNDTIMEO
int locked_file;     // flock, and fcntl by a child
int watched;         // an inotify descriptor
mqd_t messages;      // mq_timedreceive
uint32_t owned_futex = 0;
int queue;  // msgrcv
uint32_t futex_word = 0;
pid_t child, other_child;  // wait4, waitid
std::string folder;        // in TMPDIR, which a test removes with all that a killed one leaves

void start_event_waiters() {
  sleeper("epoll_wait", [epoll = new_epoll(event)] {
    epoll_event got;
    return syscall(SYS_epoll_wait, epoll, &got, 1, -1);
  });
  sleeper("epoll_pwait", [epoll = new_epoll(event)] {
    epoll_event got;
    return syscall(SYS_epoll_pwait, epoll, &got, 1, 3600 * 1000, nullptr, 8);
  });
  sleeper("epoll_pwait_with_mask", [epoll = new_epoll(event)] {
    epoll_event got;
    const uint64_t mask = (1 << (SIGUSR1 - 1)) | (1 << (SIGUSR2 - 1));
    return syscall(SYS_epoll_pwait, epoll, &got, 1, -1, &mask, 8);
  });
  sleeper("epoll_pwait2", [epoll = new_epoll(event)] {
    epoll_event got;
    timespec limit = kLong;
    return syscall(SYS_epoll_pwait2, epoll, &got, 1, &limit, nullptr, 8);
  });
  sleeper("pselect6", [] {
    fd_set wanted;
    FD_ZERO(&wanted);
    FD_SET(event, &wanted);
    timespec limit = kLong;
    return syscall(SYS_pselect6, event + 1, &wanted, nullptr, nullptr, &limit, nullptr);
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
  sleeper("recvmsg_with_timeout", [] {
    char c;
    iovec part{&c, 1};
    msghdr message{};
    message.msg_iov = &part, message.msg_iovlen = 1;
    return syscall(SYS_recvmsg, receiving[0], &message, 0);
  });
  sleeper("send_with_timeout", [] { return syscall(SYS_sendto, full_socket[0], "s", 1, 0, nullptr, 0); });
  sleeper("write", [] { return syscall(SYS_write, full_pipe[1], "p", 1); });
  sleeper("inotify", [] {
    char got[256];
    return syscall(SYS_read, watched, got, sizeof got);
  });
  sleeper("flock", [] { return syscall(SYS_flock, locked_file, LOCK_EX); });
  sleeper("mq_timedreceive", [] {
    char got[8];
    timespec until{4'000'000'000, 0};
    return syscall(SYS_mq_timedreceive, messages, got, sizeof got, nullptr, &until);
  });
  sleeper("accept_with_timeout", [] { return syscall(SYS_accept4, accepting, nullptr, nullptr, 0); });
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
  sleeper("clock_nanosleep_until", [] {
    timespec time{4'000'000'000, 0};
    return syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &time, nullptr);
  });
  sleeper("rt_sigtimedwait_forever", [] {
    const uint64_t set = 1 << (SIGUSR1 - 1);
    return syscall(SYS_rt_sigtimedwait, &set, nullptr, nullptr, 8);
  });
  sleeper("semtimedop", [] {
    sembuf down{1, -1, 0};
    timespec limit = kLong;
    return syscall(SYS_semtimedop, semaphores, &down, 1, &limit);
  });
  sleeper("pause", [] { return syscall(SYS_pause); });
  sleeper("rt_sigsuspend", [] {
    const uint64_t mask = 1 << (SIGUSR1 - 1);
    return syscall(SYS_rt_sigsuspend, &mask, 8);
  });
  sleeper("futex_until", [] {
    timespec until{4'000'000'000, 0};
    return syscall(SYS_futex, &futex_word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &until,
                   nullptr, FUTEX_BITSET_MATCH_ANY);
  });
  sleeper("futex_lock_pi",
          [] { return syscall(SYS_futex, &owned_futex, FUTEX_LOCK_PI_PRIVATE, 0, nullptr, nullptr, 0); });
  sleeper("waitid", [] {
    siginfo_t info;
    return syscall(SYS_waitid, P_PID, other_child, &info, WEXITED, nullptr);
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

template <typename Send>
void fill(Send send) {
  while (send() > 0) {
  }
}

void open_what_is_full() {
  char some[4096] = {};
  timeval limit{3600, 0};
  if (pipe(full_pipe) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, full_socket) != 0 ||
      setsockopt(full_socket[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
    abort();
  fcntl(full_pipe[1], F_SETFL, O_NONBLOCK);
  fill([&] { return write(full_pipe[1], some, sizeof some); });
  fcntl(full_pipe[1], F_SETFL, 0);
  fill([&] { return send(full_socket[0], some, sizeof some, MSG_DONTWAIT); });
}

void open_files() {
  const char* place = getenv("TMPDIR");
  folder = std::string(place ? place : "/tmp") + "/mdl-sleepers-XXXXXX";
  if (!mkdtemp(folder.data())) abort();
  const std::string path = folder + "/lock";
  locked_file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  watched = inotify_init();
  mq_attr attributes{};
  attributes.mq_maxmsg = 1, attributes.mq_msgsize = 8;
  const std::string name = "/mdl-sleepers-" + std::to_string(getpid());
  messages = mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  if (locked_file < 0 || watched < 0 || messages < 0 ||
      inotify_add_watch(watched, folder.c_str(), IN_DELETE) < 0)
    abort();
  mq_unlink(name.c_str());
}

}  // namespace

void open_everything() {
  event = eventfd(0, 0);
  listener = listening_socket();
  accepting = listening_socket();
  semaphores = semget(IPC_PRIVATE, 2, 0600);
  queue = msgget(IPC_PRIVATE, 0600);
  timeval limit{3600, 0};
  if (pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, packets) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM, 0, receiving) != 0 || semaphores < 0 || queue < 0 ||
      setsockopt(receiving[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(accepting, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
    abort();
  }
  open_what_is_full();
  open_files();
  owned_futex = static_cast<uint32_t>(syscall(SYS_gettid));  // as FUTEX_LOCK_PI leaves it to its owner
  child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int own = open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC);
    if (own < 0 || flock(own, LOCK_EX) != 0) _exit(1);
    while (true) pause();
  }
  other_child = fork();
  if (other_child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  while (flock(locked_file, LOCK_EX | LOCK_NB) == 0) {  // the child is not there yet
    flock(locked_file, LOCK_UN);
    usleep(1000);
  }
}

void start_sleepers(const std::string& only) {
  if (!only.empty()) wanted = "," + only + ",";
  start_event_waiters();
  start_descriptor_waiters();
  start_other_waiters();
}

bool can_be_woken(const std::string& name) {
  for (const char* never : {"nanosleep", "clock_nanosleep", "clock_nanosleep_until", "io_getevents", "pause",
                            "rt_sigsuspend", "futex_lock_pi"})
    if (name == never) return false;
  return true;
}

void wake_all() {
  uint64_t one = 1;
  struct {
    long type;
    char text[8];
  } message{1, "m"};
  sembuf up[2] = {{0, 1, 0}, {1, 1, 0}};
  char many[65536];
  if (write(event, &one, sizeof one) != sizeof one || write(pipes[1], "p", 1) != 1 ||
      send(packets[1], "s", 1, 0) != 1 || send(receiving[1], "tt", 2, 0) != 2 ||
      semop(semaphores, up, 2) != 0 || msgsnd(queue, &message, sizeof message.text, 0) != 0 ||
      mq_send(messages, "m", 1, 0) != 0 || read(full_pipe[0], many, sizeof many) <= 0) {
    abort();
  }
  while (recv(full_socket[1], many, sizeof many, MSG_DONTWAIT) > 0) {
  }
  __atomic_store_n(&futex_word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 100, nullptr, nullptr, 0);
  kill(getpid(), SIGUSR1);
  usleep(20000);  // one signal of a kind is pending at a time
  kill(getpid(), SIGUSR1);
  unlink((folder + "/lock").c_str());  // inotify
  kill(child, SIGKILL);                // wait4, and the lock that flock waits for
  kill(other_child, SIGKILL);          // waitid
  for (int to : {listener, accepting}) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(to, reinterpret_cast<sockaddr*>(&address), &size);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, reinterpret_cast<sockaddr*>(&address), size) != 0) abort();
  }
}

void close_everything() {
  kill(child, SIGKILL);
  kill(other_child, SIGKILL);
  unlink((folder + "/lock").c_str());
  rmdir(folder.c_str());
  semctl(semaphores, 0, IPC_RMID);
  msgctl(queue, IPC_RMID, nullptr);
}
