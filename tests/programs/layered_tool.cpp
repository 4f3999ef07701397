// What is preloaded: a tool that wraps MPI's functions by their profiling names, and the C library's
// allocator and mutexes, reads and writes, and does its own counting behind each call.
#include <pthread.h>
#include <unistd.h>

#include "layered_mpi.h"

static volatile unsigned long calls;

#define WRAP(type, name, parameters, next, arguments) \
  extern "C" type next parameters;                    \
  extern "C" type name parameters {                   \
    type result = next arguments;                     \
    calls = calls + 1;                                \
    return result;                                    \
  }
#define WRAP_MPI(name, parameters, arguments) WRAP(int, MPI_##name, parameters, PMPI_##name, arguments)

WRAP_MPI(Send, (const void* b, int n, long t, int to, int tag, long c), (b, n, t, to, tag, c))
WRAP_MPI(Isend, (const void* b, int n, long t, int to, int tag, long c, int* r), (b, n, t, to, tag, c, r))
WRAP_MPI(Recv, (void* b, int n, long t, int from, int tag, long c, int* s), (b, n, t, from, tag, c, s))
WRAP_MPI(Mrecv, (void* b, int n, long t, int* m, int* s), (b, n, t, m, s))
WRAP_MPI(Start, (int* r), (r))
WRAP_MPI(Startall, (int n, int* r), (n, r))
WRAP_MPI(Bcast, (void* b, int n, long t, int root, long c), (b, n, t, root, c))
WRAP_MPI(Allreduce, (const void* b, void* to, int n, long t, int op, long c), (b, to, n, t, op, c))

WRAP(void*, malloc, (size_t n), __libc_malloc, (n))
WRAP(void*, calloc, (size_t n, size_t of), __libc_calloc, (n, of))
WRAP(void*, realloc, (void* old, size_t n), __libc_realloc, (old, n))
WRAP(ssize_t, read, (int fd, void* to, size_t n), __read, (fd, to, n))
WRAP(ssize_t, write, (int fd, const void* from, size_t n), __write, (fd, from, n))

extern "C" void __libc_free(void* block);
extern "C" void free(void* block) {
  __libc_free(block);
  calls = calls + 1;
}
