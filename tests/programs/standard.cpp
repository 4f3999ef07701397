// What the standard metrics measure, done a known number of times.
//
//   standard [SECONDS]
//
// Each command runs one function of its own name, do_NAME, so that a test can ask for a metric at
// that function and the talk of protocol.h stays out of it:
//   io N       N writes of 10 bytes into a pipe, 2 N reads of 5 and N that fail, then N/2 polls of 2 ms
//   locks N    N acquisitions of a mutex, N of a read-write lock, N failed tries; N/10 waits of 1 ms
//   waits N    N waits on a condition, a semaphore and a barrier, each for at least 1 ms
//   heap N     N of malloc(100), calloc(3, 50), realloc to 300, free, free
//   leak N     N of malloc(1000), kept, and of malloc(5000), released
//   sleep N    N ms asleep in do_sleep's callee, N ms of work in do_sleep itself
//   faults N   N pages touched for the first time, N/100 sleeps
//   messages N N sends of 3 doubles with tag 7, N receives of them with tag 9
// and answers {"event":"done", ...} with what it did; times in nanoseconds by CLOCK_MONOTONIC around it.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "protocol.h"

namespace {

uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void nap(unsigned ms) {
  timespec time{ms / 1000, static_cast<long>(ms % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
}

}  // namespace

#define TASK extern "C" __attribute__((noipa, used)) std::string

extern "C" __attribute__((noipa, used)) void asleep(unsigned ms) {
  nap(ms);
  asm volatile("");
}

TASK do_io(unsigned long n) {
  int ends[2];
  if (pipe(ends) != 0) _exit(98);
  char bytes[10] = {};
  for (unsigned long i = 0; i < n; i++) {
    if (write(ends[1], bytes, 10) != 10 || read(ends[0], bytes, 5) != 5) _exit(98);
    if (read(-1, bytes, 5) != -1) _exit(98);  // an error: an operation, but no bytes
    if (read(ends[0], bytes, 5) != 5) _exit(98);
  }
  pollfd none{ends[0], POLLIN, 0};
  for (unsigned long i = 0; i < n / 2; i++) poll(&none, 1, 2);
  close(ends[0]);
  close(ends[1]);
  return protocol::field("operations", 4 * n) + "," + protocol::field("read", 10 * n) + "," +
         protocol::field("written", 10 * n) + "," + protocol::field("poll_ms", n / 2 * 2);
}

TASK do_locks(unsigned long n) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
  for (unsigned long i = 0; i < n; i++) {
    pthread_mutex_lock(&mutex);
    if (pthread_mutex_trylock(&mutex) == 0) _exit(98);
    pthread_mutex_unlock(&mutex);
    i % 2 ? pthread_rwlock_rdlock(&shared) : pthread_rwlock_wrlock(&shared);
    pthread_rwlock_unlock(&shared);
  }
  for (unsigned long i = 0; i < n / 10; i++) {
    sem_t held;
    sem_init(&held, 0, 0);
    std::thread holder([&] {
      pthread_mutex_lock(&mutex);
      sem_post(&held);
      // 2 is glibc's "locked, and somebody waits": then a millisecond more, however busy the machine is.
      while (__atomic_load_n(&mutex.__data.__lock, __ATOMIC_ACQUIRE) != 2) sched_yield();
      nap(1);
      pthread_mutex_unlock(&mutex);
    });
    while (sem_trywait(&held) != 0) sched_yield();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    holder.join();
  }
  return protocol::field("acquired", 2 * n + n / 10) + "," + protocol::field("failed", n) + "," +
         protocol::field("waited_ms", n / 10) + "," + protocol::field("threads", n / 10);
}

TASK do_waits(unsigned long n) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, 2);
  sem_t ready;
  sem_init(&ready, 0, 0);
  for (unsigned long i = 0; i < n; i++) {
    std::thread other([&] {
      nap(2);
      sem_post(&ready);
      nap(2);
      pthread_barrier_wait(&barrier);
    });
    timespec late{};
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 10;
    while (sem_timedwait(&ready, &late) != 0) {
    }
    pthread_barrier_wait(&barrier);
    other.join();
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 2'000'000;
    if (until.tv_nsec >= 1'000'000'000) until.tv_nsec -= 1'000'000'000, until.tv_sec++;
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_mutex_unlock(&mutex);
  }
  pthread_barrier_destroy(&barrier);
  return protocol::field("waits", n);
}

extern "C" __attribute__((noipa, used)) void do_heap(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) {
    void* volatile a = malloc(100);
    void* volatile b = calloc(3, 50);
    void* volatile c = realloc(a, 300);
    free(c);
    free(b);
    free(nullptr);
  }
}

// The answer's own text needs the heap, too: it is made outside.
std::string heap(unsigned long n) {
  do_heap(n);
  return protocol::field("calls", 3 * n) + "," + protocol::field("bytes", (100 + 150 + 300) * n) + "," +
         protocol::field("frees", 2 * n);
}

TASK do_leak(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) {
    void* volatile kept = malloc(1000);
    void* volatile released = malloc(5000);
    asm volatile("" : : "r"(kept) : "memory");
    free(released);
  }
  return protocol::field("least", 1000 * n) + "," + protocol::field("most", 1032 * n);
}

struct Slept {
  uint64_t wall, asleep, cpu;  // ns
};

extern "C" __attribute__((noipa, used)) void do_sleep(unsigned long ms, Slept* out) {
  uint64_t begun = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  asleep(static_cast<unsigned>(ms));
  uint64_t woken = clock_ns(CLOCK_MONOTONIC);
  volatile uint64_t sum = 0;
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu < ms * 1'000'000)
    for (int i = 0; i < 20000; i++) sum = sum + 1;
  *out = {clock_ns(CLOCK_MONOTONIC) - begun, woken - begun, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu};
}

std::string sleep_and_work(unsigned long ms) {
  Slept slept;
  do_sleep(ms, &slept);
  return protocol::field("wall", slept.wall) + "," + protocol::field("asleep", slept.asleep) + "," +
         protocol::field("cpu", slept.cpu);
}

TASK do_faults(unsigned long n) {
  size_t size = n * 4096;
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) _exit(98);
  madvise(pages, size, MADV_NOHUGEPAGE);
  for (unsigned long i = 0; i < n; i++) static_cast<volatile char*>(pages)[i * 4096] = 1;
  munmap(pages, size);
  for (unsigned long i = 0; i < n / 100; i++) nap(1);
  return protocol::field("pages", n) + "," + protocol::field("sleeps", n / 100);
}

constexpr uint64_t kReceives = 10'000;  // ns

// As much of MPI as the metrics look at: a send, a receive and the size of a type.
extern "C" {
__attribute__((noipa, used)) int PMPI_Type_size(long type, int* size) {
  *size = static_cast<int>(type);
  return 0;
}
__attribute__((noipa, used)) int MPI_Send(const void* buffer, int count, long, int, int, long) {
  asm volatile("" : : "r"(buffer), "r"(count) : "memory");
  return 0;
}
__attribute__((noipa, used)) int MPI_Recv(void* buffer, int count, long, int, int, long) {
  const uint64_t begun = clock_ns(CLOCK_MONOTONIC);
  asm volatile("" : : "r"(buffer), "r"(count) : "memory");
  while (clock_ns(CLOCK_MONOTONIC) - begun < kReceives) continue;
  return 0;
}
}

TASK do_messages(unsigned long n) {
  double buffer[3];
  for (unsigned long i = 0; i < n; i++) {
    MPI_Send(buffer, 3, 8, 0, 7, 0);
    asm volatile("" : : : "memory");
    MPI_Recv(buffer, 3, 8, 0, 9, 0);
    asm volatile("" : : : "memory");
  }
  return protocol::field("messages", 2 * n) + "," + protocol::field("wait", n * kReceives) + "," +
         protocol::field("bytes", n * 24) + "," + protocol::field("tag7", n) + "," +
         protocol::field("tag9", n);
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  const std::pair<const char*, std::string (*)(unsigned long)> tasks[] = {
      {"io", do_io},     {"locks", do_locks},       {"waits", do_waits},   {"heap", heap},
      {"leak", do_leak}, {"sleep", sleep_and_work}, {"faults", do_faults}, {"messages", do_messages}};
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); !command.word.empty();
       command = protocol::next_command()) {
    if (command.word == "quit") return 0;
    for (const auto& [word, task] : tasks)
      if (command.word == word) {
        uint64_t begun = clock_ns(CLOCK_MONOTONIC);
        std::string did = task(command.number);
        protocol::say_event("done",
                            did + "," + protocol::field("elapsed", clock_ns(CLOCK_MONOTONIC) - begun));
      }
  }
  return 0;
}
