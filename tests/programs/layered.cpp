// Calls of functions that a preloaded library wraps (layered_tool.cpp), and the truth of how many it made.
//
//   layered [SECONDS]
//
// Commands, each N times: `messages`, `heap`, `io`. The answers say what was done, as the program sees it.
#include <fcntl.h>

#include "layered_mpi.h"
#include "protocol.h"

#define DO extern "C" __attribute__((noinline, used))

namespace {

int pipes[2];

// The tag comes from a long: bits are above it.
using SendOfLongs = int (*)(const void*, long, long, long, long, long, int*);
SendOfLongs volatile send_of_longs = reinterpret_cast<SendOfLongs>(reinterpret_cast<void*>(&MPI_Isend));

}  // namespace

DO void do_messages(unsigned long n) {
  char buffer[64];
  int request = 0, requests[3] = {}, status = 0;
  for (unsigned long i = 0; i < n; ++i) {
    MPI_Send(buffer, 3, 8, 0, 7, 0);
    MPI_Send(buffer, 3, 8, kProcNull, 7, 0);
    send_of_longs(buffer, 2, 4, 1, 5L << 32 | 7, 0, &request);
    PMPI_Send(buffer, 1, 1, 2, 9, 0);
    MPI_Recv(buffer, 64, 1, 0, 9, 0, &status);
    MPI_Recv(buffer, 64, 1, 0, kAnyTag, 0, &status);
    MPI_Mrecv(buffer, 64, 1, &request, &status);
    MPI_Sendrecv(buffer, 5, 2, 0, 11, buffer, 64, 1, 0, 12, 0, &status);
    MPI_Start(&request);
    MPI_Startall(3, requests);
    MPI_Bcast(buffer, 1, 1, 0, 0);
    MPI_Allreduce(buffer, buffer, 1, 1, 0, 0);
    MPI_Ibarrier(0, &request);
  }
  asm volatile("" ::: "memory");
}

static std::string after_messages(unsigned long n) {
  return protocol::field("messages", n * 12) + "," + protocol::field("bytes", n * (24 + 8 + 1 + 10)) + "," +
         protocol::field("tag7", 2 * n) + "," + protocol::field("tag9", 2 * n) + "," +
         protocol::field("tag11", 2 * n) + "," + protocol::field("any_tag", n) + "," +
         protocol::field("collectives", 3 * n);
}

DO void do_heap(unsigned long n) {
  for (unsigned long i = 0; i < n; ++i) {
    void* volatile one = malloc(24);
    void* volatile two = calloc(3, 16);
    void* volatile three = realloc(nullptr, 8);
    one = realloc(one, 4096);
    free(one), free(two), free(three), free(nullptr);
  }
  asm volatile("" ::: "memory");
}

static std::string after_heap(unsigned long n) {
  return protocol::field("calls", 4 * n) + "," + protocol::field("bytes", (24 + 48 + 8 + 4096) * n) + "," +
         protocol::field("frees", 3 * n);
}

DO void do_io(unsigned long n) {
  char buffer[16] = {};
  ssize_t moved = 0;
  for (unsigned long i = 0; i < n; ++i) {
    moved += write(pipes[1], buffer, 10);
    moved += read(pipes[0], buffer, sizeof buffer);
    moved += read(-1, buffer, 1) + 1;
  }
  asm volatile("" : : "r"(moved) : "memory");
}

static std::string after_io(unsigned long n) {
  return protocol::field("operations", 3 * n) + "," + protocol::field("read", 10 * n) + "," +
         protocol::field("written", 10 * n);
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  if (pipe(pipes) != 0) return 1;
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command();; command = protocol::next_command()) {
    std::string did;
    if (command.word == "messages")
      do_messages(command.number), did = after_messages(command.number);
    else if (command.word == "heap")
      do_heap(command.number), did = after_heap(command.number);
    else if (command.word == "io")
      do_io(command.number), did = after_io(command.number);
    else
      return 0;
    protocol::say_event("done", did);
  }
}
