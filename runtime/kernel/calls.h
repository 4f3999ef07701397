// The calls that a broker makes for somebody else, and how one is asked for. A call is known by its place in the list.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/kernel/channel.h"
#include "runtime/kernel/direct.h"
#include "runtime/kernel/wire.h"

namespace mdl::kernel {

template <auto... F>
struct List {};

using Calls =
    List<direct::seize, direct::interrupt, direct::go_on, direct::go_to_system_call, direct::detach,
         direct::read_registers, direct::write_registers, direct::read_signal_mask, direct::write_signal_mask,
         direct::read_signal, direct::read_system_call, direct::read_restartable, direct::read_dispatch,
         direct::read_filter, direct::look_at_event, direct::take_event, direct::next_event, direct::step,
         direct::open_handle, direct::stop_again, direct::own_id, direct::hurry, direct::start_program,
         direct::let_program_go, direct::end_program, direct::end_program_with_us, direct::open_memory,
         direct::open_writer, direct::duplicate_writer, direct::close_writer, direct::read_writer,
         direct::overwrite, direct::apply_edits, direct::read_memory_of, direct::compare_memory,
         direct::proc_text, direct::proc_link, direct::stat_proc, direct::open_proc, direct::open_regular,
         direct::open_below_root, direct::own_text, direct::own_link, direct::stat_own, direct::system_text,
         direct::processes, direct::threads_of, direct::sharers_of, direct::live_thread, direct::lock_file,
         direct::look_at_lock_file, direct::remove_lock_file, direct::publish, direct::log,
         direct::break_lock, direct::newcomers>;

template <auto F>
struct Tag {};

template <auto F, auto... All>
constexpr uint32_t number_in(List<All...>) {
  uint32_t number = 0;
  (void)((std::is_same_v<Tag<F>, Tag<All>> || (++number, false)) || ...);
  return number;
}

// The conversation with the broker, if there is one. Threads take turns.
class Asking {
 public:
  virtual ~Asking() = default;
  virtual std::span<std::byte> begin() = 0;  // room for a question
  // Sends it. Does not return where there is no answer: this process cannot go on then.
  virtual Channel::Answer end(const wire::Writer& question) = 0;
  virtual void done() = 0;
};
Asking* asking();
[[noreturn]] void give_up(const char* why);

// A turn, which ends where memory for the answer is missing, too: others wait for it.
struct Turn {
  Asking& asking;
  std::span<std::byte> room = asking.begin();
  ~Turn() { asking.done(); }
};

template <auto F, typename R, typename... A>
R ask_as(R (*)(A...), std::type_identity_t<A>... arguments) {
  Asking* const other = asking();
  if (!other) return F(static_cast<A>(arguments)...);
  const Turn turn{*other};
  wire::Writer question(turn.room);
  wire::put(question, number_in<F>(Calls{}));
  (wire::Parameter<A>::ask(question, arguments), ...);
  const Channel::Answer answer = other->end(question);
  wire::Reader reader(answer.bytes);
  (wire::Parameter<A>::receive(reader, arguments), ...);
  R out{};
  if constexpr (std::is_same_v<R, direct::Opened>)
    out.file = answer.file;
  else
    wire::get(reader, out);
  if (!reader.is_whole()) give_up("its answer is not one");
  errno = answer.error;
  return out;
}

// Several calls in one question: each is its number and arguments behind their size.
inline constexpr uint32_t kSeveral = UINT32_MAX - 1;
inline constexpr size_t kRoomOfOne = 4096;  // of a question or an answer among several
inline constexpr size_t kMostAtOnce = 512;

template <auto F, typename R, typename... A>
std::vector<Outcome<R>> ask_part(Asking& other, R (*)(A...), std::span<const std::tuple<A...>> calls) {
  std::vector<Outcome<R>> out(calls.size());
  const Turn turn{other};
  std::array<std::byte, kRoomOfOne> room;
  wire::Writer questions(turn.room);
  wire::put(questions, kSeveral);
  for (const auto& call : calls) {
    wire::Writer question(room);
    wire::put(question, number_in<F>(Calls{}));
    std::apply([&](auto&&... one) { (wire::Parameter<A>::ask(question, one), ...); }, call);
    wire::put_bytes(questions, std::span(room).first(question.used()));
  }
  const Channel::Answer answer = other.end(questions);
  wire::Reader answers(answer.bytes);
  for (size_t i = 0; i < calls.size(); i++) {
    wire::get(answers, out[i].error);
    wire::Reader reader(wire::get_bytes(answers));
    std::apply([&](auto&&... one) { (wire::Parameter<A>::receive(reader, one), ...); }, calls[i]);
    wire::get(reader, out[i].value);
    if (!reader.is_whole()) give_up("its answer is not one");
  }
  return out;
}

template <auto F, typename R, typename... A>
std::vector<Outcome<R>> ask_several(R (*)(A...), const std::vector<std::tuple<A...>>& calls) {
  std::vector<Outcome<R>> out;
  Asking* const other = asking();
  for (size_t first = 0; other && first < calls.size(); first += kMostAtOnce) {
    const auto part = std::span(calls).subspan(first, std::min(kMostAtOnce, calls.size() - first));
    for (const Outcome<R>& one : ask_part<F>(*other, F, part)) out.push_back(one);
  }
  for (size_t i = out.size(); i < calls.size(); i++) {
    const R value = std::apply(F, calls[i]);
    out.push_back({value, errno});
  }
  return out;
}

// Makes the call so many times, by one question for many.
template <auto F, typename Arguments>
auto ask_each(size_t count, Arguments of) {
  std::vector<decltype(of(0))> calls;
  for (size_t i = 0; i < count; i++) calls.push_back(of(i));
  return ask_several<F>(F, calls);
}

// Makes the call, here or by the broker.
template <auto F, typename... A>
auto ask(A&&... arguments) {
  return ask_as<F>(F, std::forward<A>(arguments)...);
}

}  // namespace mdl::kernel
