// Samples for people (table) and programs (ndjson, json, csv, prometheus).
//
// The contract of an ndjson line, which scripts rely on, is in docs/architecture.md. Each sample
// reaches the file in one piece, so that the reader of a pipe sees it at once and whole.
// Nothing is written by destructors: a document is complete only after end() succeeded.
// SIGPIPE must be ignored by the program; a reader that went away is then an error here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mdl::output {

// What went wrong with a flag or timer.
struct Anomaly {
  std::string function;    // or several
  uint64_t vanished = 0;   // frames that an exception or longjmp took
  uint64_t unmatched = 0;  // exits without an entry
};

// One request's values in one sample.
struct Row {
  uint64_t time_ns = 0;
  double elapsed_s = 0;
  pid_t pid = 0;
  std::string metric;  // identifier
  std::string name;    // display name
  std::string focus;   // "" = the whole program
  int64_t value = 0;
  int64_t delta = 0;
  std::optional<double> rate;  // delta per second; none where that means nothing
  std::string units;
  uint64_t refused = 0;                    // points that could not be instrumented
  bool complete = true;                    // false: the target ended before its last values could be read
  uint64_t anomalies = 0;                  // of the whole session
  std::vector<Anomaly> anomalies_of = {};  // of the request's flags and timers
  double overhead = -1;  // part of the process's time that the instrumentation takes; below 0: not known
  bool suspect = false;  // an exit of a function was missed: the value may be too high
  bool level = false;    // the value may fall, as a maximum or a size does: it has no rate
  uint32_t family = 0;   // rows of one that is not 0 are the children of one request with `*`
};

enum class Format : uint8_t { table, ndjson, json, csv, prometheus };

// By name as on the command line; "" is a table on a terminal, else ndjson.
Result<Format> format_named(std::string_view name, bool terminal);

// Where output goes: a file descriptor, written whole or not at all as far as it tells.
class Sink {
 public:
  // Truncates the file; "" is standard output.
  static Result<Sink> open(const std::string& path);
  Sink(int fd, std::string name, bool owned) : fd_(fd), name_(std::move(name)), owned_(owned) {}
  Sink(Sink&& other) noexcept;
  Sink& operator=(Sink&&) = delete;
  ~Sink();

  bool is_terminal() const;
  Result<void> write(std::string_view text);
  // True for a file: its contents can be replaced as a whole, so that a reader sees the old or the new ones.
  bool can_replace() const;
  Result<void> replace(std::string_view text);
  Result<void> close();  // reports what a delayed write found; a second call does nothing

 private:
  int fd_;
  std::string name_;
  bool owned_;
};

class Writer {
 public:
  virtual ~Writer() = default;
  virtual Result<void> begin() = 0;
  // `final`: the last sample. Rows are in the same order each time.
  virtual Result<void> sample(std::span<const Row> rows, bool final) = 0;
  virtual Result<void> end() = 0;
};

// The sink must outlive the writer. `colour` is for tables.
std::unique_ptr<Writer> make_writer(Format format, Sink& sink, bool colour);

}  // namespace mdl::output
