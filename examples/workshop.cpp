// A program to try the examples on: threads that take orders, send messages, compute and write a file.
//
//   g++ -std=c++20 -O2 -g -pthread examples/workshop.cpp -o workshop
//   ./workshop              a round of work each millisecond, until it is ended
//   ./workshop --by-line    a round for each line that it reads; answers with what the round did
//
// The functions are kept from being inlined, so that there is something to count.

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#define KEPT __attribute__((noinline, noclone))

std::mutex order_lock, stock_lock;
constexpr int kRows = 64, kColumns = 64, kWorkers = 3;
std::array<double, kRows * kColumns> grid;
volatile double* grid_begin = grid.data();
volatile long orders, messages;
int journal = -1;

struct Done {  // of one thread in one round
  long orders = 0, refused = 0, messages = 0, bytes = 0, cells = 0, saved = 0;
};

KEPT void check(int amount) {
  if (amount % 10 == 0) throw std::invalid_argument("no such amount");
}

KEPT int take_order(int amount, Done& done) {
  std::lock_guard held(order_lock);
  try {
    check(amount);
  } catch (const std::invalid_argument&) {
    done.refused++;
    return -1;
  }
  std::lock_guard also(stock_lock);
  orders = orders + 1;
  done.orders++;
  return amount;
}

KEPT void send_message(int tag, const char* text, size_t bytes) {
  asm volatile("" : : "r"(tag), "r"(text), "r"(bytes));
  messages = messages + 1;
}

KEPT void touch(double* cell) {
  *cell = *cell * 0.5 + 1;
}

KEPT void smooth_row(int row) {
  for (int column = 0; column < kColumns; column++) touch(&grid[row * kColumns + column]);
}

KEPT long checksum(const char* text, size_t bytes) {
  long sum = 0;
  for (size_t i = 0; i < bytes; i++) {
    sum = sum * 31 + text[i];
    asm volatile("" : "+r"(sum));  // one byte each time round
  }
  return sum;
}

KEPT void save(const char* text, size_t bytes, Done& done) {
  if (write(journal, text, bytes) == static_cast<ssize_t>(bytes)) done.saved += static_cast<long>(bytes);
  if (lseek(journal, 0, SEEK_CUR) > 1 << 20 && ftruncate(journal, 0) == 0) lseek(journal, 0, SEEK_SET);
}

KEPT int depth_of(int n) {
  const int below = n == 0 ? 0 : depth_of(n - 1);
  asm volatile("");  // no loop in its place
  return below + 1;
}

KEPT Done work(int worker) {
  static const char text[] = "the quick brown fox jumps over the lazy dog";
  Done done;
  for (int i = 0; i < 20; i++) {
    take_order(worker * 20 + i, done);
    const size_t bytes = 1 + static_cast<size_t>(i) * 2;
    send_message(worker + 1, text, bytes);
    done.messages++;
    done.bytes += static_cast<long>(bytes);
  }
  for (int row = worker; row < kRows; row += kWorkers) {
    smooth_row(row);
    done.cells += kColumns;
  }
  if (checksum(text, sizeof text) == 0 || depth_of(10) != 11) std::abort();
  if (worker == 0) save(text, sizeof text, done);
  return done;
}

int main(int count, char** words) {
  const bool by_line = count == 2 && std::string_view(words[1]) == "--by-line";
  if (count > 1 && !by_line) {
    std::fprintf(stderr, "workshop: no option but --by-line\n");
    return 2;
  }
  char name[] = "/tmp/workshop-XXXXXX";
  journal = mkstemp(name);
  if (journal < 0) {
    std::perror(name);
    return 1;
  }
  unlink(name);

  std::array<Done, kWorkers> done;
  pthread_barrier_t round;  // each round begins and ends at it
  pthread_barrier_init(&round, nullptr, kWorkers + 1);
  std::atomic<bool> open = true;
  std::array<std::thread, kWorkers> workers;
  for (int i = 0; i < kWorkers; i++)
    workers[i] = std::thread([&, i] {
      pthread_setname_np(pthread_self(), (std::string("worker-") + char('1' + i)).c_str());
      for (;;) {
        pthread_barrier_wait(&round);
        if (!open) return;
        done[i] = work(i);
        pthread_barrier_wait(&round);
      }
    });
  for (int character = 0; !by_line || (character = std::getchar()) != EOF;) {
    if (by_line && character != '\n') continue;
    pthread_barrier_wait(&round);
    pthread_barrier_wait(&round);
    if (!by_line) {
      usleep(1000);
      continue;
    }
    Done all;
    for (const Done& one : done) {
      all.orders += one.orders, all.refused += one.refused, all.messages += one.messages;
      all.bytes += one.bytes, all.cells += one.cells, all.saved += one.saved;
    }
    std::printf(
        "{\"orders\":%ld,\"refused\":%ld,\"messages\":%ld,\"bytes\":%ld,\"cells\":%ld,\"saved\":%ld}\n",
        all.orders, all.refused, all.messages, all.bytes, all.cells, all.saved);
    std::fflush(stdout);
  }
  open = false;
  pthread_barrier_wait(&round);
  for (std::thread& worker : workers) worker.join();
  return 0;
}
