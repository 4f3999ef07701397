// What one mdl-inject says to another that measures the same process for it, and how it answers: messages on a local
// socket (guests.h serves, mdl-inject/guest.h asks). Both are one build of one program, or the first answer refuses.
//
// A message is its size, its kind and its fields; a field is a number, a text, or a list of fields behind their count.
// A reader never reads behind the end of what came, and takes nothing of a message in which something is wrong.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/output/series.h"

namespace mdl::inject::guest_wire {

// What all versions of the two have in common are the first message, Hello, and Refusal.
inline constexpr uint32_t kProtocol = 1;
// Of this program, from its own notes; "" where it has none.
std::string build_id();

enum class Kind : uint8_t {
  // The guest's. At first it says who it is and what it asks for.
  hello = 1,
  request,
  sample,  // it wants the values of now
  leave,   // its last values
  // The host's answers.
  refusal = 64,
  welcome,  // to the hello
  joined,
  points,
  farewell,  // behind the last points
};

struct Hello {
  uint32_t protocol = kProtocol;
  std::string build;
};
struct Request {
  std::string plan;              // its bytes
  std::vector<std::string> ids;  // of its metrics, as they are called there
  std::vector<std::string> metrics, foci, queries, spare;
  std::string flavor;
  bool allow_calls = false, allow_reads = false, strict = false, raw_times = false;
  std::optional<double> budget;
  uint64_t max_keys = 0, max_pause_ms = 0;
};
struct Refusal {
  std::string why;
};
struct Joined {
  std::string done;  // in words
};
// Series that are new, and points: `series` of each is an id of this or of a message before.
struct Points {
  bool final = false;
  std::vector<output::Series> series;
  std::vector<std::pair<uint32_t, output::Point>> points;
};
struct Farewell {
  bool host_ends = false;  // and not the process, nor this guest
  int32_t status = 0;
  std::string why = {};
};

// The fields of a message, for both directions.
template <typename Archive>
void fields(Archive& all, Hello& of) {
  all(of.protocol, of.build);
}
template <typename Archive>
void fields(Archive& all, Request& of) {
  all(of.plan, of.ids, of.metrics, of.foci, of.queries, of.spare, of.flavor, of.allow_calls, of.allow_reads,
      of.strict, of.raw_times, of.budget, of.max_keys, of.max_pause_ms);
}
template <typename Archive>
void fields(Archive& all, Refusal& of) {
  all(of.why);
}
template <typename Archive>
void fields(Archive& all, Joined& of) {
  all(of.done);
}
template <typename Archive>
void fields(Archive& all, Points& of) {
  all(of.final, of.series, of.points);
}
template <typename Archive>
void fields(Archive& all, Farewell& of) {
  all(of.host_ends, of.status, of.why);
}
template <typename Archive>
void fields(Archive& all, output::Series& of) {
  all(of.id, of.kind, of.metric, of.name, of.focus, of.process, of.units, of.family, of.key, of.aggregate,
      of.asked);
}
template <typename Archive>
void fields(Archive& all, output::Number& of) {
  all(of.total, of.delta, of.rate);
}
template <typename Archive>
void fields(Archive& all, values::Bucket& of) {
  all(of.index, of.count);
}
template <typename Archive>
void fields(Archive& all, values::Distribution& of) {
  all(of.sum, of.buckets);
}
template <typename Archive>
void fields(Archive& all, output::Observed& of) {
  all(of.sum, of.of);
}
template <typename Archive>
void fields(Archive& all, output::Unknown& of) {
  all(of.number);
}
template <typename Archive>
void fields(Archive& all, output::Summary& of) {
  all(of.number, of.count, of.sum);
}
template <typename Archive>
void fields(Archive& all, output::Anomaly& of) {
  all(of.function, of.vanished, of.unmatched);
}
template <typename Archive>
void fields(Archive& all, output::Point& of) {
  all(of.time_ns, of.elapsed_s, of.value, of.refused, of.complete, of.suspect, of.anomalies, of.anomalies_of,
      of.overhead);
}

template <typename T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <typename T>
concept Structure = std::is_class_v<T> && !requires(T one) {
  one.begin();
};

class Packer {
 public:
  template <typename... T>
  void operator()(T&... all) {
    (put(all), ...);
  }
  std::string take() { return std::move(out_); }

 private:
  template <Scalar T>
  void put(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    out_ += text;
  }
  template <typename T>
  void put(std::vector<T>& list) {
    put(static_cast<uint32_t>(list.size()));
    for (T& one : list) put(one);
  }
  template <typename T>
  void put(std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename A, typename B>
  void put(std::pair<A, B>& both) {
    put(both.first), put(both.second);
  }
  void put(output::Value& value) {
    put(static_cast<uint8_t>(value.index()));
    std::visit([&](auto& one) { put(one); }, value);
  }
  template <Structure T>
  void put(T& of) {
    fields(*this, of);
  }
  std::string out_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  template <typename... T>
  void operator()(T&... all) {
    (get(all), ...);
  }
  bool is_whole() const { return right_ && bytes_.empty(); }  // all was there, and nothing is left

 private:
  std::string_view get_bytes(size_t size) {
    right_ = right_ && size <= bytes_.size();
    const std::string_view out = bytes_.substr(0, right_ ? size : 0);
    bytes_.remove_prefix(out.size());
    return out;
  }
  template <Scalar T>
  void get(T& value) {
    if (const auto bytes = get_bytes(sizeof value); bytes.size() == sizeof value)
      std::memcpy(&value, bytes.data(), sizeof value);
  }
  void get(bool& value) {
    uint8_t byte = 0;
    get(byte);
    right_ = right_ && byte <= 1;
    value = byte == 1;
  }
  void get(output::Series::Kind& kind) { get_below(kind, 3); }
  void get(format::Aggregate& kind) { get_below(kind, std::size(format::kAggregates)); }
  template <typename T>
  void get_below(T& value, size_t end) {
    uint8_t byte = 0;
    get(byte);
    right_ = right_ && byte < end;
    if (right_) value = static_cast<T>(byte);
  }
  void get(std::string& text) {
    uint32_t size = 0;
    get(size);
    text = get_bytes(size);
  }
  template <typename T>
  void get(std::vector<T>& list) {
    uint32_t size = 0;
    get(size);
    for (; right_ && size > 0; size--) get(list.emplace_back());
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool is_there = false;
    get(is_there);
    value.reset();
    if (is_there) get(value.emplace());
  }
  template <typename A, typename B>
  void get(std::pair<A, B>& both) {
    get(both.first), get(both.second);
  }
  void get(values::Bucket& bucket) {
    fields(*this, bucket);
    right_ = right_ && bucket.index < format::kHistogramBuckets;
  }
  void get(output::Value& value) {
    uint8_t which = 0;
    get(which);
    right_ = right_ && which < std::variant_size_v<output::Value>;
    if (which == 0) get(value.emplace<0>());
    if (which == 1) get(value.emplace<1>());
    if (which == 2) get(value.emplace<2>());
    if (which == 3) get(value.emplace<3>());
    static_assert(std::variant_size_v<output::Value> == 4);
  }
  template <Structure T>
  void get(T& of) {
    fields(*this, of);
  }
  std::string_view bytes_;
  bool right_ = true;
};

template <typename T>
std::string pack(T message) {
  Packer packer;
  fields(packer, message);
  return packer.take();
}
// Nothing where something is wrong with it.
template <typename T>
std::optional<T> unpack(std::string_view bytes) {
  T out;
  Unpacker unpacker(bytes);
  fields(unpacker, out);
  return unpacker.is_whole() ? std::optional(std::move(out)) : std::nullopt;
}

struct Message {
  Kind kind{};
  std::string fields;
};

// One end of the socket. Nothing waits: what cannot be written yet is kept.
class Line {
 public:
  // Of messages that come: longer ones are wrong.
  Line(int file, size_t longest) : file_(file), longest_(longest) {}
  ~Line();
  Line(Line&& other) noexcept;
  Line& operator=(Line&& other) noexcept;

  int file() const { return file_; }
  // Reads what is there, up to a limit. False when the other has gone, or something is wrong.
  bool receive();
  std::optional<Message> next();
  template <typename T>
  void send(Kind kind, T message) {
    send(kind, pack(std::move(message)));
  }
  void send(Kind kind, std::string fields = {});
  // False when the other has gone.
  bool flush();
  bool has_more_to_send() const { return !out_.empty(); }

 private:
  int file_;
  size_t longest_;
  bool wrong_ = false;
  std::string in_, out_;
};

// The socket of whoever serves others that would measure the process; -1 where there is none, or somebody else has it.
int listen_for(pid_t target);

struct Peer {
  int file = -1;
  pid_t pid = 0;
  uid_t user = 0;  // when it made its socket
};
// The one that serves others for the process: nothing, where there is none.
std::optional<Peer> call_host_of(pid_t target);
// One that has called; nothing, where nobody has.
std::optional<Peer> take_call(int listener);

}  // namespace mdl::inject::guest_wire
