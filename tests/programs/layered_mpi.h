// A stand-in for an MPI library: MPI_* are weak names of PMPI_*, as in Open MPI and MPICH. Types are their
// sizes.
#pragma once

#include <cstddef>

constexpr int kProcNull = -1, kAnyTag = -1;

#define MPI_FUNCTIONS(X)                                                                          \
  X(Send, (const void* buffer, int count, long type, int to, int tag, long comm))                 \
  X(Isend, (const void* buffer, int count, long type, int to, int tag, long comm, int* request))  \
  X(Recv, (void* buffer, int count, long type, int from, int tag, long comm, int* status))        \
  X(Mrecv, (void* buffer, int count, long type, int* message, int* status))                       \
  X(Sendrecv, (const void* buffer, int count, long type, int to, int tag, void* in, int in_count, \
               long in_type, int from, int in_tag, long comm, int* status))                       \
  X(Start, (int* request))                                                                        \
  X(Startall, (int count, int* requests))                                                         \
  X(Bcast, (void* buffer, int count, long type, int root, long comm))                             \
  X(Allreduce, (const void* buffer, void* result, int count, long type, int op, long comm))       \
  X(Ibarrier, (long comm, int* request))                                                          \
  X(Type_size, (long type, int* size))

#define DECLARE(name, parameters)        \
  extern "C" int PMPI_##name parameters; \
  extern "C" int MPI_##name parameters;
MPI_FUNCTIONS(DECLARE)
#undef DECLARE
