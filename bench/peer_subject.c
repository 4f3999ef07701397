/* The function whose calls bench/peers.py has counted by others, and a loop around it that knows their number.
 *
 *   peer_subject CALLS THREADS [wait]
 *
 * Each thread makes so many calls. Prints {"ns":N,"calls":N,"counted":N}: the wall time of a call on a thread, how many there
 * were, and what a counter in this file says. With `wait` it prints "ready" first, and waits for a line before the calls.
 *
 * -DCOUNT_GLOBAL, -DCOUNT_THREAD and -DCOUNT_ATOMIC put a counter into the function; -DHOOKS has one for
 * -finstrument-functions.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_instrument_function))

static volatile unsigned long global_count;
static __thread unsigned long thread_count;
static atomic_ulong sum_of_counts;
static atomic_ulong sink;
static unsigned long calls;
static pthread_barrier_t begin;

#ifdef HOOKS
UNSEEN void __cyg_profile_func_enter(void* function, void* site) {
  (void)function, (void)site, thread_count++;
}
UNSEEN void __cyg_profile_func_exit(void* function, void* site) {
  (void)function, (void)site;
}
#endif

__attribute__((noinline, noipa)) unsigned long work(unsigned long x) {
#if defined COUNT_GLOBAL
  global_count++;
#elif defined COUNT_THREAD
  thread_count++;
#elif defined COUNT_ATOMIC
  atomic_fetch_add_explicit(&sum_of_counts, 1, memory_order_relaxed);
#endif
  x = 3 * x + 1;
  x ^= x >> 7;
  x += 0x2b;
  return x ^ (x << 3);
}

UNSEEN static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The threads do not wait for each other's processor, as far as there are so many. */
UNSEEN static void pin_to(long cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)(cpu % sysconf(_SC_NPROCESSORS_ONLN)), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static double took[64];

UNSEEN static void* loop(void* place) {
  pin_to((double*)place - took);
  pthread_barrier_wait(&begin);
  double began = now_ns();
  unsigned long sum = 0;
  for (unsigned long i = 0; i < calls; ++i) sum += work(i);
  *(double*)place = now_ns() - began;
  atomic_fetch_add(&sink, sum);
  atomic_fetch_add(&sum_of_counts, thread_count);
  return NULL;
}

UNSEEN int main(int argc, char** argv) {
  pthread_t threads[64];
  double all = 0;
  if (argc < 3) return 2;
  calls = strtoul(argv[1], NULL, 10);
  int count = atoi(argv[2]);
  if (count < 1 || count > 64) return 2;
  if (argc > 3 && !strcmp(argv[3], "wait")) {
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 1;
  }
  pthread_barrier_init(&begin, NULL, (unsigned)count);
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, loop, &took[i]);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL), all += took[i];
  printf("{\"ns\":%.3f,\"calls\":%lu,\"counted\":%lu}\n", all / count / (double)calls,
         calls * (unsigned long)count, (unsigned long)sum_of_counts + global_count);
  return 0;
}
