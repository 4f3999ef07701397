// Functions whose ways out only their code tells, in a file without symbols of its own:
//
//   go N      calls each of them N times. Answers {"event":"done","calls":..,"returns":{NAME:..}}
//
// t_throws throws from a part of its code that the compiler places elsewhere, and ends with a tail call.
// t_either throws or returns there. t_method has a switch, and ends with a call through a table of methods.
// listed_in_data and passed_on go on behind a part, and nothing calls them by name: a table in the data has the
// address of the first, an operand of an instruction that of the second. called_last has a part, too, and is what two
// functions end with.
#include "protocol.h"

#define COUNTED extern "C" __attribute__((noinline, used, visibility("default")))

volatile int sink;

COUNTED int t_work(int x) {
  sink = x;
  return x + 1;
}

COUNTED int t_throws(unsigned x) {
  if (x % 3 == 0) throw 1;
  return t_work(static_cast<int>(x));
}

COUNTED int t_either(unsigned x) {
  if (__builtin_expect(x % 3 == 0, 0)) {
    if (x % 2 == 0) throw 2;
    return 7;
  }
  return t_work(static_cast<int>(x) + 1);
}

struct Object {
  int (*const* methods)(const Object*, unsigned long, unsigned long, ...);
};

COUNTED int t_method_a(const Object*, unsigned long, unsigned long, ...) {
  return sink;
}
COUNTED int t_method_b(const Object*, unsigned long, unsigned long, ...) {
  return sink + 1;
}

// A method takes any arguments, so their number is in %rax. Compilers then load the table of methods into the
// register that holds the switch's table elsewhere.
COUNTED int t_method(const Object* object, unsigned long which, unsigned long index) {
  switch (which) {
    case 0:
      return t_work(3) + 3;
    case 1:
      sink = 4;
      return t_work(5) ^ 7;
    case 2:
      sink = 5;
      return 9;
    case 3:
      return sink ^ 0x55;
    case 4:
      sink = t_work(2);
      return sink - 100;
    case 5:
      sink = t_work(7);
      return t_work(sink) + 5;
  }
  return object->methods[index](object, which, index);
}

__attribute__((noinline, cold)) int rare(int x) {
  sink = x;
  return sink - 1;
}

COUNTED int listed_in_data(unsigned x) {
  int rest = static_cast<int>(x) + 5;
  if (__builtin_expect(x % 16 == 0, 0)) rest = rare(rest) ^ rare(sink);
  sink = rest;
  return t_work(rest) + rest;
}

COUNTED int passed_on(unsigned x) {
  int rest = static_cast<int>(x) + 9;
  if (__builtin_expect(x % 32 == 0, 0)) rest = rare(rest) + rare(sink);
  sink = rest;
  return t_work(rest) - rest;
}

COUNTED int called_last(unsigned x) {
  int rest = static_cast<int>(x) + 3;
  if (__builtin_expect(x % 8 == 0, 0)) rest = rare(rest) | rare(sink);
  sink = rest;
  return t_work(rest) + 7 * rest;
}

__attribute__((noinline)) int ends_with_it(unsigned x) {
  sink = static_cast<int>(x);
  return called_last(x + 1);
}

__attribute__((noinline)) int so_does_this(unsigned x) {
  sink = static_cast<int>(x);
  return called_last(x * 3);
}

int (*volatile listed[])(unsigned) = {listed_in_data};

__attribute__((noinline)) int call(int (*function)(unsigned), unsigned x) {
  asm volatile("" : "+r"(function));  // the compiler does not know which one it is
  return function(x);
}

int main() {
  int (*const methods[])(const Object*, unsigned long, unsigned long, ...) = {t_method_a, t_method_b};
  const Object object{methods};
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    unsigned long throws = 0, either = 0, method = 0;
    for (unsigned i = 0; i < command.number; ++i) {
      try {
        sink = t_throws(i);
        ++throws;
      } catch (int) {
      }
      try {
        sink = t_either(i);
        ++either;
      } catch (int) {
      }
      sink = listed[0](i);
      sink = call(passed_on, i);
      sink = i % 2 == 0 ? ends_with_it(i) : so_does_this(i);
      sink = t_method(&object, i % 12, i % 2);
      ++method;
    }
    protocol::say_event("done", protocol::field("calls", command.number) + ",\"returns\":{" +
                                    protocol::field("t_throws", throws) + "," +
                                    protocol::field("t_either", either) + "," +
                                    protocol::field("t_method", method) + "}");
  }
  return 0;
}
