// The calls that a broker makes for somebody else, and how one is asked for. A call is known by its place in the list.
#pragma once

#include <cerrno>
#include <tuple>
#include <type_traits>
#include <utility>

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

// Makes the call, here or by the broker.
template <auto F, typename... A>
auto ask(A&&... arguments) {
  return ask_as<F>(F, std::forward<A>(arguments)...);
}

}  // namespace mdl::kernel
