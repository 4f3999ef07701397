#include "runtime/process/arrival.h"

#include <elf.h>

#include <cerrno>
#include <optional>

#include "base/nap.h"
#include "runtime/arch/description.h"
#include "runtime/image/image.h"
#include "runtime/process/remote.h"
#include "runtime/process/seccomp.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopping = 2s;               // for a thread that naps for 0.1 ms
constexpr uint64_t kMostOfStack = 16 << 20;  // arguments and environment, as pointers

// The address of the value that the kernel has put on the stack for AT_ENTRY. From the stack pointer on lie
// argc, the arguments, 0, the environment, 0, and the vector, on every
// machine (Linux, fs/binfmt_elf.c, create_elf_tables).
std::optional<uint64_t> find_entry_word(const TargetMemory& memory, uint64_t stack, uint64_t entry) {
  std::vector<uint64_t> words(512);
  int zeros = 0;
  uint64_t key_at = 0;
  for (uint64_t at = stack; at < stack + kMostOfStack;) {
    const uint64_t room = (arch::kPage - at % arch::kPage) / sizeof(uint64_t);
    words.resize(room);
    if (!memory.read(at, std::as_writable_bytes(std::span(words)))) return std::nullopt;
    for (const uint64_t word : words) {
      if (zeros < 2) {
        zeros += at != stack && word == 0;
      } else if (key_at == 0) {
        if (word == AT_NULL) return std::nullopt;
        key_at = word == AT_ENTRY ? at : 1;
      } else if (key_at == 1) {
        key_at = 0;
      } else {
        return word == entry ? std::optional(at) : std::nullopt;
      }
      at += sizeof word;
    }
  }
  return std::nullopt;
}

Result<void> may_wait(pid_t pid) {
  const Confinement confinement = read_confinement(pid);
  for (const arch::PlannedCall& call : arch::entry_stub_calls())
    if (std::string why = why_denied(confinement, call); !why.empty()) return Error{why};
  return {};
}

}  // namespace

Result<Arrival> Arrival::prepare(pid_t pid) {
  if (auto ok = check_target(pid); !ok) return ok.error();
  auto memory = TargetMemory::open(pid);
  if (!memory) return memory.error();
  Arrival out(pid, std::move(*memory));
  arch::ThreadRegisters registers{};
  if (!read_registers(pid, registers)) return Error{"it has ended"};
  out.entry_ = out.memory_.auxiliary(AT_ENTRY).value_or(0);
  if (out.entry_ == 0) return Error{"its entry cannot be found"};
  if (arch::pc(registers) == out.entry_)
    return Error{"it has no loader (it is static): it can be attached to when it runs"};
  if (auto ok = may_wait(pid); !ok) return ok.error();
  if (auto ok = out.place_stub(registers); !ok) return ok.error();
  return out;
}

Result<void> Arrival::place_stub(const arch::ThreadRegisters& registers) {
  auto word = find_entry_word(memory_, arch::stack_pointer(registers), entry_);
  if (!word) return Error{"its entry cannot be found"};
  word_ = *word;
  auto image = image::read_image(pid_, image::Depth::code);
  if (!image) return image.error();
  const pid_t own = read_status(pid_).inner_pid;
  const size_t size = arch::entry_stub(kStubMark, own, entry_, word_, 0).code.size();
  auto place = find_slack(*image, size, memory_);
  if (!place) return Error{"there is no free room behind its code or its loader's"};
  address_ = *place;
  stub_ = arch::entry_stub(kStubMark, own, entry_, word_, address_);
  original_.resize(size);
  if (memory_.read(address_, original_) && memory_.write(address_, std::as_bytes(std::span(stub_.code))) &&
      memory_.write(word_, std::as_bytes(std::span(&address_, 1))))
    return {};
  memory_.write(address_, original_);
  return Error{"its code cannot be written to"};
}

void Arrival::begin() {
  let_go_or_reap(pid_, 0);
}

Arrival::State Arrival::look() const {
  uint64_t word = 0;
  if (!memory_.read(word_, std::as_writable_bytes(std::span(&word, 1)))) return State::gone;
  if (word == entry_) return State::here;
  return memory_.is_of(pid_) && !has_ended(pid_) ? State::on_its_way : State::gone;
}

Result<TargetMemory> Arrival::take() {
  const Error lost{"it ended, or executed another program, before its entry, or went on by itself"};
  for (int attempt = 0; !kernel::seize(pid_); attempt++) {
    if (errno != EPERM || attempt == 200 || !is_alive_thread(pid_)) return lost;
    nap(500);  // another mdl-inject has a look
  }
  arch::ThreadRegisters registers{};
  std::vector<std::byte> stack(stub_.stack);
  // A thread that is not in the stub has left it.
  if (!stop_in(pid_, memory_, std::span(&stub_.waits, 1), false, kStopping, registers) ||
      !memory_.read(arch::stack_pointer(registers), stack)) {
    stop_tracing(pid_);
    return lost;
  }
  memory_.hold(pid_);
  if (!write_registers(pid_, arch::leave_entry_stub(registers, stack, entry_))) return lost;
  if (!memory_.write(address_, original_)) return Error{"what was put behind its code cannot be taken away"};
  return std::move(memory_);
}

}  // namespace mdl::process
