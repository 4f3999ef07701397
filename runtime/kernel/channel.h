// A conversation between this process and a child of it: one question at a time, one answer to each. Bytes lie in memory
// that both share, which is faster than a socket by half; descriptors go through a socket.
//
// The one who answers copies a question before looking at it, and does not read the memory otherwise: the other
// may change it at any moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mdl::kernel {

class Channel {
 public:
  static constexpr size_t kRoom = size_t{5} << 20;  // of a question, and of an answer

  struct Answer {
    std::span<const std::byte> bytes;  // until the next question
    int error = 0;                     // of errno(3)
    int file = -1;                     // a descriptor that came with it, the caller's to close
  };

  // To be made before the child is, which gets it by the fork.
  static std::optional<Channel> make();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&&) = delete;
  ~Channel();

  // Of the side that asks.
  void asks();
  std::span<std::byte> room();  // for the question
  // Nothing when the other side has ended.
  std::optional<Answer> ask(size_t size);
  // Returns when the other side has ended.
  void wait_gone() const;

  // Of the side that answers.
  void answers();
  // The size of the next question, which is copied to `into`. Nothing when the other
  // side has ended, or the size cannot be one.
  std::optional<size_t> next(std::span<std::byte> into);
  // `size` bytes are in room(). The file, if there is one, stays with the caller.
  void answer(size_t size, int error, int file);

 private:
  struct Shared;
  Channel(Shared* shared, int asking, int answering) : shared_(shared), ends_{asking, answering} {}
  bool is_connected() const;
  void take_side(int ours);
  void pass_turn(uint32_t to);
  bool wait_turn(uint32_t wanted);

  Shared* shared_;
  int ends_[2];  // of the socket; -1 where it is closed
  int own_ = -1;
  bool may_spin_ = false;
  int slept_ = 0;  // times in a row that to spin was in vain
};

}  // namespace mdl::kernel
