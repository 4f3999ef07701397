// Descriptors whose numbers are used again and again.
//
//   descriptors [SECONDS]
//
// It makes a folder of its own and says it: {"folder":PATH,"port":N}, the port of a TCP connection on loopback.
//
//   go N       a thread makes N rounds, another writes N times 4 bytes to the connection, a third 5 bytes to a socket of a
//              pair. In each round the files `one`, `two` and `three` of the folder are opened in turn, as the same
//              descriptor, given to t_at and written to, 1, 2 and 3 bytes. Answers {"reused":N}: as how many numbers
//   storm N    a thread makes rounds while N signals come to it, whose handler gives t_at the descriptor of `handled`.
//              Answers {"rounds":N,"handled":N}
//   odd N      N times t_at is given -1, a descriptor that is closed, a file of a name of 200 bytes in a folder of 200, one
//              that is deleted, one whose name has a line's end, a pipe, and a socket of a pair
//   fork N     a child makes N rounds; the parent answers then
//   root N     from now on it is in an empty folder, which has no /proc; N times t_at is given `handled`
//   quit       ends with status 0
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "protocol.h"
#include "totals.h"

extern "C" __attribute__((noipa, used)) long t_at(int descriptor, long amount) {
  asm volatile("" : "+r"(descriptor), "+r"(amount));
  return amount * 3 + descriptor;
}

namespace {

std::string folder;
int handled_at, pair[2], connection;
std::atomic<unsigned long> handled;

int make(const std::string& name) {
  return open((folder + "/" + name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void put(int to, size_t bytes) {
  if (write(to, "12345", bytes) != static_cast<ssize_t>(bytes)) _exit(98);
}

int round() {
  int used = 0;
  long amount = 0;
  for (const char* name : {"one", "two", "three"}) {
    used = make(name);
    t_at(used, ++amount);
    put(used, static_cast<size_t>(amount));
    close(used);
  }
  return used;
}

uint16_t connect_to_self() {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(listener, 1) != 0) _exit(97);
  getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
  connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(connection, reinterpret_cast<sockaddr*>(&at), size) != 0) _exit(97);
  std::thread([at_end = accept(listener, nullptr, nullptr)] {
    char some[4096];
    while (recv(at_end, some, sizeof some, 0) > 0) {
    }
  }).detach();
  return ntohs(at.sin_port);
}

void go(unsigned long number) {
  std::set<int> used;
  std::thread files([&] {
    for (unsigned long i = 0; i < number; i++) used.insert(round());
  });
  std::thread tcp([&] {
    for (unsigned long i = 0; i < number; i++) put(connection, 4);
  });
  std::thread local([&] {
    char some[5];
    for (unsigned long i = 0; i < number; i++) {
      put(pair[0], 5);
      if (recv(pair[1], some, sizeof some, MSG_WAITALL) != 5) _exit(96);
    }
  });
  files.join(), tcp.join(), local.join();
  protocol::say_event("done", protocol::field("reused", used.size()));
}

void odd(unsigned long number) {
  const std::string deep(200, 'd'), newline = "line\nend";
  mkdir((folder + "/" + deep).c_str(), 0700);
  const int closed = make("closed"), named = make(deep + "/" + std::string(200, 'n')), gone = make("gone"),
            broken = make(newline);
  unlink((folder + "/gone").c_str());
  close(closed);
  int ends[2];
  if (pipe(ends) != 0) _exit(95);  // the first end is `closed` again
  close(ends[0]);
  for (unsigned long i = 0; i < number; i++)
    for (const int one : {-1, closed, named, gone, broken, ends[1], pair[0]}) t_at(one, 1);
  for (const int one : {named, gone, broken, ends[1]}) close(one);
  protocol::say_event("done");
}

void on_signal(int) {
  t_at(handled_at, 1);
  ++handled;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  char made[] = "/tmp/descriptors-XXXXXX";
  folder = mkdtemp(made);
  handled_at = make("handled");
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 97;
  const uint16_t port = connect_to_self();
  std::signal(SIGUSR1, on_signal);
  protocol::say_event("ready", "\"folder\":\"" + folder + "\"," + protocol::field("port", port));
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      go(command.number);
    } else if (command.word == "odd") {
      odd(command.number);
    } else if (command.word == "storm") {
      std::atomic<unsigned long> rounds = 0;
      under_signals(command.number, [&](const std::atomic<bool>& ends) {
        static std::mutex one;  // only one thread opens, so that it gets the same number
        const std::lock_guard alone(one);
        while (!ends) round(), ++rounds;
      });
      protocol::say_event("done",
                          protocol::field("rounds", rounds) + "," + protocol::field("handled", handled));
    } else if (command.word == "fork") {
      const pid_t child = fork();
      if (child == 0) {
        for (unsigned long i = 0; i < command.number; i++) round();
        protocol::say_event("child", protocol::field("pid", static_cast<unsigned long long>(getpid())));
        exit(0);
      }
      waitpid(child, nullptr, 0);
      protocol::say_event("done");
    } else if (command.word == "root") {
      mkdir((folder + "/empty").c_str(), 0700);
      if (chroot((folder + "/empty").c_str()) != 0) _exit(94);
      for (unsigned long i = 0; i < command.number; i++) t_at(handled_at, 1);
      protocol::say_event("done");
    } else {
      return 0;
    }
  }
}
