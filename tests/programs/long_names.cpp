// Functions whose mangled names have more than a hundred letters and many repeated parts, as templates of templates have them.
//
// Commands: `go N` calls each of the three N times; answers {"event":"done","calls":..} with what one of them has had.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol.h"

namespace {

template <int depth>
struct Nested {
  using Type = std::map<std::string, std::vector<typename Nested<depth - 1>::Type>>;
};
template <>
struct Nested<0> {
  using Type = std::string;
};

uint64_t calls;

}  // namespace

template <typename Value>
__attribute__((noinline, used)) size_t t_long(const Value& value) {
  asm volatile("" ::: "memory");
  return value.size();
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  const Nested<2>::Type a;
  const Nested<3>::Type b;
  const Nested<4>::Type c;
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); command.word != "quit" && !command.word.empty();
       command = protocol::next_command()) {
    size_t sum = 0;
    for (uint64_t i = 0; i < command.number; ++i, ++calls) sum += t_long(a) + t_long(b) + t_long(c);
    protocol::say_event("done", protocol::field("calls", sum == 0 ? calls : 0));
  }
  return 0;
}
