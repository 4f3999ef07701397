// Texts that a function is given, in places that change, end, are gone or never were.
//
//   texts [SECONDS]
//
// Answers carry {"pid":..,"rounds":N,"handled":N,"many":N}, since the program's start (a child's: since it was made).
// In each round t_text is called once with each of these: "alpha", "beta" and "", all from one buffer of its thread;
// "edge", at the end of the last page that is mapped there, and "unended", which has no end there; 300 times 'x';
// "Zürich\n"; a null pointer; an address of nothing; the middle of a page that cannot be
// read; "across", in two pages; "unended" once more, which ends. Its second argument is the
// text's place in this list, from 1. Behind each such call t_texts is called with the same text, "odd" or "even" as its
// place is, the same text, and the place.
//
//   go N       four threads, N rounds each
//   storm N    two threads make rounds while N signals come to each, whose handler calls t_text with "handled", 1, and
//              t_texts with "handled", a null pointer, "there", 1
//   many N     N different texts: "text 0", "text 1" and so on, continuing where it was; behind each, t_texts is called
//              with "many", that text, "many", 1
//   fork N     a child makes N rounds and answers itself; the parent answers then
//   quit       ends with status 0
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "protocol.h"
#include "totals.h"

extern "C" __attribute__((noipa, used)) long t_text(const char* text, long amount) {
  asm volatile("" : "+r"(text), "+r"(amount));
  return amount * 3 + (text == nullptr);
}

extern "C" __attribute__((noipa, used)) long t_texts(const char* first, const char* second, const char* third,
                                                     long amount) {
  asm volatile("" : "+r"(first), "+r"(second), "+r"(third), "+r"(amount));
  return amount * 5 + (first == third);
}

namespace {

std::atomic<unsigned long> rounds, handled, many;
char* edge;    // behind the last byte that is mapped
char* closed;  // a page without access
char ended[8];

void map_edges() {
  const auto map = [](size_t pages, int protection) {
    return static_cast<char*>(mmap(nullptr, pages * 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  edge = map(3, PROT_READ | PROT_WRITE) + 8192;
  munmap(edge, 4096);
  closed = map(1, PROT_NONE);
}

void give(const char* text, long amount) {
  t_text(text, amount);
  t_texts(text, amount % 2 ? "odd" : "even", text, amount);
}

void round() {
  static thread_local char own[304];
  const auto buffered = [](const char* text, long amount) { give(std::strcpy(own, text), amount); };
  buffered("alpha", 1);
  buffered("beta", 2);
  buffered("", 3);
  static const bool written = [] {
    std::memcpy(edge - 12, "edge", 5);
    std::memcpy(edge - 7, "unended", 7);
    std::strcpy(edge - 4096 - 3, "across");
    std::memcpy(ended, "unended", 8);
    return true;
  }();
  give(edge - 12, written ? 4 : 0);
  give(edge - 7, 5);
  std::memset(own, 'x', 300);
  own[300] = 0;
  give(own, 6);
  buffered("Zürich\n", 7);
  give(nullptr, 8);
  give(reinterpret_cast<const char*>(0xdead00000000beef), 9);
  give(closed + 2000, 10);
  give(edge - 4096 - 3, 11);
  give(ended, 12);
  ++rounds;
}

void go(unsigned long number) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([number] {
      for (unsigned long k = 0; k < number; ++k) round();
    });
  for (std::thread& thread : threads) thread.join();
}

void on_signal(int) {
  t_text("handled", 1);
  t_texts("handled", nullptr, "there", 1);
  ++handled;
}

void answer(const char* event) {
  using protocol::field;
  protocol::say_event(event, field("pid", static_cast<unsigned long long>(getpid())) + "," +
                                 field("rounds", rounds) + "," + field("handled", handled) + "," +
                                 field("many", many));
}

void in_child(unsigned long number) {
  const pid_t child = fork();
  if (child != 0) {
    waitpid(child, nullptr, 0);
    return;
  }
  rounds = handled = many = 0;
  for (unsigned long i = 0; i < number; ++i) round();
  answer("child");
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  map_edges();
  std::signal(SIGUSR1, on_signal);
  answer("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      go(command.number);
    } else if (command.word == "storm") {
      under_signals(command.number, [](const std::atomic<bool>& ends) {
        while (!ends) round();
      });
    } else if (command.word == "many") {
      for (unsigned long i = 0; i < command.number; ++i) {
        const std::string text = "text " + std::to_string(many++);
        t_text(text.c_str(), 1);
        t_texts("many", text.c_str(), "many", 1);
      }
    } else if (command.word == "fork") {
      in_child(command.number);
    } else {
      break;
    }
    answer("done");
  }
  return 0;
}
