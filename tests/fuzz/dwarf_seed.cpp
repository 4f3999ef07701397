// A seed for fuzz_dwarf: functions with parameters of many types. It is never run.
enum class Color : short { red = -1, green };
struct Big {
  long words[4];
};
struct Pair {
  int first, second;
};
typedef const volatile unsigned char Byte;

class Counter {
 public:
  int add(int count, bool on, Byte* text);

 private:
  long sum_ = 0;
};

int Counter::add(int count, bool on, Byte* text) {
  sum_ += on ? count : text[0];
  return static_cast<int>(sum_);
}

extern "C" Big big(short count, Color color, double real, unsigned long& where) {
  where += static_cast<unsigned long>(real);
  return {{count, static_cast<long>(color), 2, 3}};
}

extern "C" int pair(Pair both, char count) {
  return both.first + both.second + count;
}

extern "C" int seed(int count, ...) {
  Counter counter;
  Byte text[] = {1, 2};
  return counter.add(count, count > 3, text) + pair({count, 1}, 'x');
}
