// A small main for fuzzers where libFuzzer is not at hand (g++): it runs the seeds, then
// mutations of them, for a given time.
//
//   fuzz_NAME [--seconds N] [--seed N] FILE|DIRECTORY...
//
// Where the environment has MDL_FUZZ_SECONDS, that is the time.
//
// The sequence of inputs depends on the seed and the files only, so a failure comes again.
// The input that kills the process, or takes more than kSlowSeconds, is written to the
// file fuzz-crash-input in the working directory; give that file as the argument to run it
// alone. Every such input becomes a seed or a regression test.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// A fuzzer that knows its format may change an input itself; 0 when it has nothing to do with this one.
extern "C" [[gnu::weak]] size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                                        unsigned seed);
extern "C" [[gnu::weak]] void __asan_set_death_callback(void (*callback)());

namespace {

constexpr unsigned kSlowSeconds = 20;
constexpr size_t kMaxBytes = 1 << 18;
constexpr const char* kCrashFile = "fuzz-crash-input";

using Input = std::vector<uint8_t>;

// The input being run, for the signal handler.
const uint8_t* current_data = nullptr;
size_t current_size = 0;

void save_current() {
  int fd = open(kCrashFile, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return;
  size_t done = 0;
  while (done < current_size) {
    ssize_t n = write(fd, current_data + done, current_size - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
}

void on_signal(int number) {
  save_current();
  const char text[] = "fuzz: crashed or too slow; the input is in fuzz-crash-input\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
  ::signal(number, SIG_DFL);
  raise(number);
}

// On a stack of its own: running out of stack is one of the things to find.
void install_handlers() {
  static uint8_t stack[1 << 16];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  std::vector<int> signals{SIGABRT, SIGALRM};
  if (__asan_set_death_callback != nullptr)
    __asan_set_death_callback(save_current);  // it reports the rest better than we could
  else
    signals.insert(signals.end(), {SIGSEGV, SIGBUS, SIGFPE, SIGILL});
  for (int signal : signals) sigaction(signal, &action, nullptr);
}

void run(const Input& input) {
  current_data = input.data();
  current_size = input.size();
  alarm(kSlowSeconds);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
}

// SplitMix64 (Steele, Lea, Flood, 2014): small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : next() % limit; }

 private:
  uint64_t state_;
};

using Offset = Input::difference_type;

// Copies a piece of `from` into `input`, over what is there or between.
void splice(Random& random, Input& input, const Input& from) {
  size_t begin = random.below(from.size());
  size_t length = std::min<size_t>(1 + random.below(random.below(4) == 0 ? 512 : 16), from.size() - begin);
  size_t at = random.below(input.size() + 1);
  size_t replaced = random.below(2) == 0 ? 0 : std::min(length, input.size() - at);
  Input piece(from.begin() + static_cast<Offset>(begin), from.begin() + static_cast<Offset>(begin + length));
  input.erase(input.begin() + static_cast<Offset>(at), input.begin() + static_cast<Offset>(at + replaced));
  input.insert(input.begin() + static_cast<Offset>(at), piece.begin(), piece.end());
}

void mutate_once(Random& random, Input& input, const std::vector<Input>& seeds) {
  if (input.empty()) return splice(random, input, seeds[random.below(seeds.size())]);
  size_t at = random.below(input.size());
  switch (random.below(7)) {
    case 0:
      input[at] ^= static_cast<uint8_t>(1u << random.below(8));
      break;
    case 1:
      input[at] = static_cast<uint8_t>(random.next());
      break;
    case 2: {  // edges of numbers, where formats break
      constexpr uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
      input[at] = kEdges[random.below(std::size(kEdges))];
      break;
    }
    case 3: {
      size_t length = std::min<size_t>(1 + random.below(32), input.size() - at);
      input.erase(input.begin() + static_cast<Offset>(at), input.begin() + static_cast<Offset>(at + length));
      break;
    }
    case 4:
      splice(random, input, Input(input));
      break;
    case 5:
      splice(random, input, seeds[random.below(seeds.size())]);
      break;
    case 6:  // rarely: cuts off the end, or doubles everything
      if (random.below(8) == 0)
        input.resize(at);
      else if (Input copy = input; random.below(8) == 0)
        input.insert(input.end(), copy.begin(), copy.end());
      break;
  }
  if (input.size() > kMaxBytes) input.resize(kMaxBytes);
}

// By the fuzzer's own hand; false when it has none, or does not want this input.
bool mutate_by_format(Random& random, Input& input) {
  if (LLVMFuzzerCustomMutator == nullptr || random.below(8) == 0) return false;
  const size_t size = input.size();
  input.resize(std::max(kMaxBytes, size));
  const size_t changed =
      LLVMFuzzerCustomMutator(input.data(), size, input.size(), static_cast<unsigned>(random.next()));
  input.resize(changed == 0 ? size : changed);
  return changed != 0;
}

Input read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(in), {});
}

std::vector<Input> read_seeds(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> seeds;
  for (const auto& file : files) seeds.push_back(read_file(file));
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  uint64_t seed = 1;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; i++) {
    bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--seconds") == 0)
      seconds = std::strtod(argv[++i], nullptr);
    else if (has_value && std::strcmp(argv[i], "--seed") == 0)
      seed = std::strtoull(argv[++i], nullptr, 10);
    else
      paths.emplace_back(argv[i]);
  }
  if (const char* wanted = std::getenv("MDL_FUZZ_SECONDS")) seconds = std::strtod(wanted, nullptr);
  std::vector<Input> seeds = read_seeds(paths);
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s [--seconds N] [--seed N] FILE|DIRECTORY...\n", argv[0]);
    return 2;
  }
  install_handlers();
  for (const Input& input : seeds) run(input);

  Random random(seed);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t runs = seeds.size();
  while (std::chrono::steady_clock::now() < end) {
    Input input = seeds[random.below(seeds.size())];
    if (!mutate_by_format(random, input))
      for (size_t changes = 1 + random.below(8); changes > 0; changes--) mutate_once(random, input, seeds);
    run(input);
    runs++;
  }
  std::printf("%zu seeds, %zu inputs, no failure\n", seeds.size(), runs);
  return 0;
}
