#include "layered_mpi.h"

#define DO __attribute__((noinline, noipa))

namespace {
DO void work(const void* with) {
  asm volatile("" : : "r"(with) : "memory");
}
}  // namespace

#define LEAF(name, parameters, with)         \
  extern "C" DO int PMPI_##name parameters { \
    work(with);                              \
    asm volatile("" ::: "memory");           \
    return 0;                                \
  }
LEAF(Send, (const void* buffer, int, long, int, int, long), buffer)
LEAF(Isend, (const void* buffer, int, long, int, int, long, int*), buffer)
LEAF(Recv, (void* buffer, int, long, int, int, long, int*), buffer)
LEAF(Mrecv, (void* buffer, int, long, int*, int*), buffer)
LEAF(Start, (int* request), request)
LEAF(Bcast, (void* buffer, int, long, int, long), buffer)
LEAF(Allreduce, (const void* buffer, void*, int, long, int, long), buffer)
LEAF(Ibarrier, (long, int* request), request)

extern "C" DO int PMPI_Type_size(long type, int* size) {
  *size = static_cast<int>(type);
  return 0;
}
// Of one family, and made of each other.
extern "C" DO int PMPI_Sendrecv(const void* buffer, int count, long type, int to, int tag, void* in,
                                int in_count, long in_type, int from, int in_tag, long comm, int* status) {
  int done = PMPI_Send(buffer, count, type, to, tag, comm);
  done |= PMPI_Recv(in, in_count, in_type, from, in_tag, comm, status);
  asm volatile("" : "+r"(done));
  return done;
}
extern "C" DO int PMPI_Startall(int count, int* requests) {
  int done = 0;
  for (int i = 0; i < count; ++i) done |= PMPI_Start(&requests[i]);
  asm volatile("" : "+r"(done));
  return done;
}

#define WEAK(name, parameters) \
  extern "C" int MPI_##name parameters __attribute__((weak, alias("PMPI_" #name)));
MPI_FUNCTIONS(WEAK)
