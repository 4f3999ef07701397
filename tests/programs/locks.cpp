// Locks of all kinds, taken as often as they are told.
//
//   locks [SECONDS]
//
//   go N     three threads: each takes cache_lock N times, log_lock 2 N times, the mutex on the heap N times,
//            table_lock N times to read and once to write, waits N times at `meeting`, and N times on `slots`;
//            the first of them waits N times on `ready`, which another signals. Answers {"heap":ADDRESS}
//   quit     ends with status 0
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "protocol.h"

extern "C" {
pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER, log_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
pthread_barrier_t meeting;
sem_t slots;
}

extern "C" __attribute__((noipa, used)) void t_take(pthread_mutex_t* mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
}

namespace {

constexpr unsigned kThreads = 3;
pthread_mutex_t waiting = PTHREAD_MUTEX_INITIALIZER;
unsigned long signals = 0;

// Exactly one wait for each signal: the next one is given when it has been taken.
void meet_condition(unsigned thread) {
  if (thread == 0) {
    pthread_mutex_lock(&waiting);
    signals = 1;
    while (signals == 1) pthread_cond_wait(&ready, &waiting);
    pthread_mutex_unlock(&waiting);
  } else if (thread == 1) {
    for (bool given = false; !given;) {
      pthread_mutex_lock(&waiting);
      given = signals == 1;
      if (given) signals = 0, pthread_cond_signal(&ready);
      pthread_mutex_unlock(&waiting);
    }
  }
}

void go(unsigned thread, unsigned long times, pthread_mutex_t* heap) {
  for (unsigned long i = 0; i < times; i++) {
    t_take(&cache_lock), t_take(&log_lock), t_take(&log_lock), t_take(heap);
    pthread_rwlock_rdlock(&table_lock), pthread_rwlock_unlock(&table_lock);
    pthread_barrier_wait(&meeting);
    sem_post(&slots), sem_wait(&slots);
    meet_condition(thread);
  }
  pthread_rwlock_wrlock(&table_lock), pthread_rwlock_unlock(&table_lock);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(strtoul(argv[1], nullptr, 10)) : 120);
  pthread_barrier_init(&meeting, nullptr, kThreads);
  sem_init(&slots, 0, 0);
  const auto heap = std::make_unique<pthread_mutex_t>();
  pthread_mutex_init(heap.get(), nullptr);
  protocol::say_event("ready", protocol::field("heap", reinterpret_cast<uintptr_t>(heap.get())));
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++) threads.emplace_back(go, i, command.number, heap.get());
    for (std::thread& thread : threads) thread.join();
    protocol::say_event("done");
  }
}
