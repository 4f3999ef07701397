// Two source files of one program, each with a static function of the same name, with their truth.
//
//   sources [SECONDS]
//
// Commands: `go N` calls, N times over, s_first once, twin of this file two times, shop::Clerk::serve once, which has
// shop::Shelf<long>::put inside, s_there, which calls twin of the other file three times, and s_both twice: its code, and a
// copy in main.
#include "protocol.h"

void s_there();

extern "C" __attribute__((noinline)) void s_first() {
  asm volatile("" ::: "memory");
}

static volatile long shared;

extern "C" void s_both() {
  shared = shared + 1;
}

static void (*volatile both)() = s_both;

static __attribute__((noinline)) long twin(long value) {
  asm volatile("" : "+r"(value));
  return value + 1;
}

namespace shop {

template <typename T>
struct Shelf {
  T put(T value) {
    asm volatile("" : "+r"(value));
    return value + 1;
  }
};

struct Clerk {
  __attribute__((noinline, used)) long serve(long value) {
    asm volatile("" : "+r"(value));
    return Shelf<long>().put(value);
  }
};

}  // namespace shop

int main(int argc, char** argv) {
  const auto round = [](unsigned long) {
    s_first();
    twin(twin(1));
    shop::Clerk().serve(1);
    s_there();
    s_both();
    both();
  };
  return protocol::go(argc, argv, round, [] { return std::string(); });
}
