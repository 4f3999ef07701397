// Calls as bytes, and back. Both sides are this program, so a value that can be copied is its bytes; texts and lists
// are a count and theirs. A reader never reads behind the end of what it was given, and says in the end whether
// all was there: what it reads may have been made up.
//
// A parameter is put into the question, taken out of it on the other side, and, where the call may change it, put into
// the answer: Parameter<T> of a declared parameter type T says how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/kernel/edit.h"

namespace mdl::kernel::wire {

class Writer {
 public:
  explicit Writer(std::span<std::byte> room) : room_(room) {}
  void put(std::span<const std::byte> bytes) {
    fits_ = fits_ && bytes.size() <= room_.size() - used_;
    if (fits_ && !bytes.empty()) std::memcpy(room_.data() + used_, bytes.data(), bytes.size());
    if (fits_) used_ += bytes.size();
  }
  size_t used() const { return used_; }
  bool fits() const { return fits_; }

 private:
  std::span<std::byte> room_;
  size_t used_ = 0;
  bool fits_ = true;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // Of this many bytes; none where there are not so many.
  std::span<const std::byte> get(uint64_t size) {
    whole_ = whole_ && size <= bytes_.size();
    const auto out = bytes_.first(whole_ ? size : 0);
    bytes_ = bytes_.subspan(out.size());
    return out;
  }
  bool is_whole() const { return whole_ && bytes_.empty(); }  // all was there, and nothing is left

 private:
  std::span<const std::byte> bytes_;
  bool whole_ = true;
};

template <typename T>
requires std::is_trivially_copyable_v<T>
void put(Writer& to, const T& value) {
  to.put(std::as_bytes(std::span(&value, 1)));
}
template <typename T>
requires std::is_trivially_copyable_v<T>
void get(Reader& from, T& value) {
  if (const auto bytes = from.get(sizeof value); bytes.size() == sizeof value)
    std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
}

// Bytes in one piece, behind their number.
inline void put_bytes(Writer& to, std::span<const std::byte> bytes) {
  put(to, uint64_t{bytes.size()});
  to.put(bytes);
}
inline std::span<const std::byte> get_bytes(Reader& from) {
  uint64_t size = 0;
  get(from, size);
  return from.get(size);
}

template <typename List>
concept Contiguous = std::is_trivially_copyable_v<typename List::value_type> && requires(List list) {
  list.resize(1);
};

template <Contiguous List>
void put(Writer& to, const List& list) {
  put_bytes(to, std::as_bytes(std::span(list)));
}
template <Contiguous List>
void get(Reader& from, List& list) {
  const auto bytes = get_bytes(from);
  list.resize(bytes.size() / sizeof(typename List::value_type));
  if (!list.empty()) std::memcpy(list.data(), bytes.data(), list.size() * sizeof(typename List::value_type));
}

inline void put(Writer& to, const Edited& edited) {
  put(to, edited.changed);
  put(to, edited.foreign);
  put(to, edited.failed);
}
inline void get(Reader& from, Edited& edited) {
  get(from, edited.changed);
  get(from, edited.foreign);
  get(from, edited.failed);
}

// A value. `Kept` holds it on the other side while the call is made.
template <typename T>
struct Parameter {
  using Kept = T;
  static void ask(Writer& to, const T& value) { put(to, value); }
  static void take(Reader& from, Kept& kept) { get(from, kept); }
  static T pass(Kept& kept) { return kept; }
  static void answer(Writer&, const Kept&) {}
  static void receive(Reader&, const T&) {}
};

// It keeps its value where the call does not change it.
template <typename T>
struct Parameter<T&> {
  using Kept = T;
  static void ask(Writer& to, const T& value) { put(to, value); }
  static void take(Reader& from, Kept& kept) { get(from, kept); }
  static T& pass(Kept& kept) { return kept; }
  static void answer(Writer& to, const Kept& kept) { put(to, kept); }
  static void receive(Reader& from, T& value) { get(from, value); }
};

template <>
struct Parameter<std::span<const std::byte>> {
  using Kept = std::span<const std::byte>;  // of the question
  static void ask(Writer& to, Kept bytes) { put_bytes(to, bytes); }
  static void take(Reader& from, Kept& kept) { kept = get_bytes(from); }
  static Kept pass(Kept& kept) { return kept; }
  static void answer(Writer&, Kept) {}
  static void receive(Reader&, Kept) {}
};

template <>
struct Parameter<std::string_view> {
  using Kept = std::string_view;  // of the question
  static void ask(Writer& to, Kept text) { put_bytes(to, std::as_bytes(std::span(text))); }
  static void take(Reader& from, Kept& kept) {
    const auto bytes = get_bytes(from);
    kept = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static Kept pass(Kept& kept) { return kept; }
  static void answer(Writer&, Kept) {}
  static void receive(Reader&, Kept) {}
};

// To be filled.
template <>
struct Parameter<std::span<std::byte>> {
  using Kept = std::vector<std::byte>;
  static constexpr uint64_t kMost = uint64_t{1} << 20;
  static void ask(Writer& to, std::span<std::byte> into) { put(to, uint64_t{into.size()}); }
  static void take(Reader& from, Kept& kept) {
    uint64_t size = 0;
    get(from, size);
    if (size > kMost) from.get(UINT64_MAX);  // which there are not
    kept.resize(size > kMost ? 0 : size);
  }
  static std::span<std::byte> pass(Kept& kept) { return kept; }
  static void answer(Writer& to, const Kept& kept) { to.put(kept); }
  static void receive(Reader& from, std::span<std::byte> into) {
    if (const auto bytes = from.get(into.size()); !bytes.empty())
      std::memcpy(into.data(), bytes.data(), bytes.size());
  }
};

template <>
struct Parameter<std::span<const Edit>> {
  using Kept = std::vector<Edit>;  // their bytes are those of the question
  static void ask(Writer& to, std::span<const Edit> edits) {
    put(to, uint64_t{edits.size()});
    for (const Edit& edit : edits) {
      put(to, edit.address);
      put_bytes(to, std::as_bytes(edit.from));
      put_bytes(to, std::as_bytes(edit.to));
    }
  }
  static void take(Reader& from, Kept& kept) {
    uint64_t count = 0;
    get(from, count);
    const auto code = [&] {
      const auto bytes = get_bytes(from);
      return std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    };
    for (uint64_t address = 0; count > 0; count--) {
      get(from, address);
      const auto before = code(), after = code();
      if (before.size() != after.size() || address + before.size() <= address)
        return (void)from.get(UINT64_MAX);
      kept.push_back({address, before, after});
    }
  }
  static std::span<const Edit> pass(Kept& kept) { return kept; }
  static void answer(Writer&, const Kept&) {}
  static void receive(Reader&, std::span<const Edit>) {}
};

}  // namespace mdl::kernel::wire
