// The stencil is called: it does not touch the stack and falls off its end, onto a `ret`
// that stands in for the rest of the trampoline. mdl_run_stencil loads every register but
// rsp, and the flags, from a table before the call and stores them after it.
#include "native.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "backend/plan_writer.h"
#include "runtime/plan/verify.h"

namespace mdl::exec {
namespace {

struct Context {
  uint64_t in[kRegisters + 1];  // and the flags
  uint64_t out[kRegisters + 1];
};
static_assert(sizeof(Context) == 34 * 8, "the assembly below knows the offsets");

extern "C" void mdl_run_stencil(Context* context, const void* code);
asm(R"(
    .text
    .globl mdl_run_stencil
    .type mdl_run_stencil, @function
mdl_run_stencil:
    pushq %rbx
    pushq %rbp
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    pushq %rdi
    pushq %rsi
    movq %rdi, %rax
    movq 8(%rax), %rcx
    movq 16(%rax), %rdx
    movq 24(%rax), %rbx
    movq 40(%rax), %rbp
    movq 48(%rax), %rsi
    movq 56(%rax), %rdi
    movq 64(%rax), %r8
    movq 72(%rax), %r9
    movq 80(%rax), %r10
    movq 88(%rax), %r11
    movq 96(%rax), %r12
    movq 104(%rax), %r13
    movq 112(%rax), %r14
    movq 120(%rax), %r15
    pushq 128(%rax)
    popfq
    movq (%rax), %rax
    callq *(%rsp)
    pushfq
    pushq %rax
    movq 24(%rsp), %rax
    movq %rcx, 144(%rax)
    popq %rcx
    movq %rcx, 136(%rax)
    popq %rcx
    movq %rcx, 264(%rax)
    movq %rdx, 152(%rax)
    movq %rbx, 160(%rax)
    movq %rbp, 176(%rax)
    movq %rsi, 184(%rax)
    movq %rdi, 192(%rax)
    movq %r8, 200(%rax)
    movq %r9, 208(%rax)
    movq %r10, 216(%rax)
    movq %r11, 224(%rax)
    movq %r12, 232(%rax)
    movq %r13, 240(%rax)
    movq %r14, 248(%rax)
    movq %r15, 256(%rax)
    addq $16, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbp
    popq %rbx
    retq
    .size mdl_run_stencil, .-mdl_run_stencil
)");

constexpr size_t kPageBytes = 1 << 16;
constexpr std::byte kRet{0xc3};  // ret

constexpr std::string_view kNames[kRegisters] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                                 "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr int kArguments[] = {7, 6, 2, 1, 8, 9};  // rdi rsi rdx rcx r8 r9
constexpr int kRax = 0, kRsp = 4, kR10 = 10, kR11 = 11;
constexpr uint64_t kFlagBits = 0x8d5;  // CF PF AF ZF SF OF (Intel SDM vol. 1, 3.4.3)

// The thread block of the tests: cells apart from each other, the rest is a pattern.
constexpr size_t kBlockWords = 512;
constexpr size_t kAnomalyWord = 3;
size_t cell_word(size_t cell) {
  return 17 + cell * 5;
}
uint64_t pattern(size_t word) {
  return 0x5a5a0000'0000a5a5u ^ (word << 20);
}

int64_t value_of(const plan::Hole& hole, const ir::Machine& machine) {
  switch (hole.kind) {
    case plan::HoleKind::cell:
      return static_cast<int64_t>(cell_word(hole.index)) * 8;
    case plan::HoleKind::guard:
      return static_cast<int64_t>(cell_word(0)) * 8;
    case plan::HoleKind::anomalies:
      return kAnomalyWord * 8;
    case plan::HoleKind::constant:
      return hole.index < machine.constants.size() ? machine.constants[hole.index] : 0;
    case plan::HoleKind::symbol:
    case plan::HoleKind::symbol_left:
    case plan::HoleKind::symbol_right:
    case plan::HoleKind::routine:
    case plan::HoleKind::thread:
    case plan::HoleKind::next:
      return 0;
  }
  return 0;
}

// `next` is `distance` bytes after the stencil's end.
std::vector<std::byte> filled(const plan::Stencil& stencil, const ir::Machine& machine,
                              int64_t distance = 0) {
  std::vector<std::byte> code = stencil.code;
  for (const plan::Hole& hole : stencil.holes) {
    int64_t value = value_of(hole, machine) + hole.addend;
    if (hole.kind == plan::HoleKind::next)
      value += static_cast<int64_t>(code.size()) + distance - static_cast<int64_t>(hole.offset);
    std::memcpy(code.data() + hole.offset, &value, hole.size);  // little-endian: the low bytes
  }
  return code;
}

bool is_declared(const plan::Stencil& stencil, std::string_view name) {
  for (const std::string& clobber : stencil.info.clobbers)
    if (clobber == name) return true;
  return name == "r10";
}

std::string compare_registers(const plan::Stencil& stencil, const Context& context) {
  for (int r = 0; r < kRegisters; r++)
    if (r != kRsp && context.in[r] != context.out[r] && !is_declared(stencil, kNames[r]))
      return fmt::format("{} changed, which is not in the clobber list", kNames[r]);
  uint64_t changed = (context.in[kRegisters] ^ context.out[kRegisters]) & kFlagBits;
  if (changed && !stencil.info.writes_flags) return "flags changed, which is not declared";
  return "";
}

}  // namespace

Result<Compiled> compile(const std::vector<ir::Snippet>& snippets) {
  const backend::Target& target = *backend::find_target("x86_64");
  Program program;
  Compiled result;
  for (size_t i = 0; i < snippets.size(); i++) {
    if (auto stencil = backend::make_stencil(snippets[i], target); !stencil) {
      result.refused.push_back(stencil.error().text);
      continue;
    }
    result.snippets.push_back(i);
    program.snippets.push_back(snippets[i]);
    program.snippets.back().name = fmt::format("s{}_{}", i, format::info(snippets[i].point).name);
  }
  std::vector<backend::Refusal> refusals;
  backend::Plan plan = backend::make_plan(program, target, refusals);
  if (!refusals.empty()) return Error{refusals[0].text};
  auto bytes = backend::write_plan(plan, target, target.cpu);
  if (!bytes) return bytes.error();
  auto read = plan::read_plan(*bytes);
  if (!read) return read.error();
  result.plan = std::move(*read);
  return result;
}

Page::Page()
    : memory_(static_cast<std::byte*>(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
}
Page::~Page() {
  munmap(memory_, kPageBytes);
}

const void* Page::put(const std::vector<std::byte>& code) {
  if (code.size() > kPageBytes) throw std::bad_alloc();
  std::memcpy(memory_, code.data(), code.size());
  return memory_;
}

std::string run(const plan::Stencil& stencil, ir::Machine& machine, Page& page) {
  std::vector<uint64_t> block(kBlockWords);
  for (size_t word = 0; word < block.size(); word++) block[word] = pattern(word);
  for (size_t i = 0; i < machine.cells.size(); i++)
    block[cell_word(i)] = static_cast<uint64_t>(machine.cells[i]);
  block[kAnomalyWord] = static_cast<uint64_t>(machine.anomalies);

  Context context{};
  for (int r = 0; r < kRegisters; r++)
    context.in[r] = 0xc0ffee00'00000000u + static_cast<uint64_t>(r) * 0x11111;
  for (size_t i = 0; i < std::size(kArguments); i++)
    if (i < machine.args.size()) context.in[kArguments[i]] = static_cast<uint64_t>(machine.args[i]);
  if (format::info(stencil.info.point).result) context.in[kRax] = static_cast<uint64_t>(machine.result);
  context.in[kR11] = reinterpret_cast<uint64_t>(block.data());
  context.in[kRegisters] =
      0x202 | (context.in[7] & kFlagBits);  // some flags up, some down; bit 1 is always 1

  std::vector<std::byte> code = filled(stencil, machine);
  const plan::TargetRules& rules = *plan::rules_for("x86_64");
  if (auto verified = plan::verify_filled(rules, stencil, code, kBlockWords * 8); !verified)
    return verified.error().text;
  code.push_back(kRet);
  mdl_run_stencil(&context, page.put(code));

  for (size_t i = 0; i < machine.cells.size(); i++) {
    machine.cells[i] = static_cast<int64_t>(block[cell_word(i)]);
    block[cell_word(i)] = pattern(cell_word(i));
  }
  machine.anomalies = static_cast<int64_t>(block[kAnomalyWord]);
  block[kAnomalyWord] = pattern(kAnomalyWord);
  for (size_t word = 0; word < block.size(); word++)
    if (block[word] != pattern(word)) return fmt::format("byte {} of the block changed", word * 8);
  return compare_registers(stencil, context);
}

bool passes_guard(const plan::Stencil& guard, int64_t value, Page& page) {
  // Behind the guard: movl $1, %r10d (41 ba imm32); ret. `next` is the second ret.
  const std::vector<std::byte> behind = {std::byte{0x41}, std::byte{0xba}, std::byte{1}, std::byte{0},
                                         std::byte{0},    std::byte{0},    kRet,         kRet};
  std::vector<uint64_t> block(kBlockWords);
  block[cell_word(0)] = static_cast<uint64_t>(value);
  Context context{};
  context.in[kR11] = reinterpret_cast<uint64_t>(block.data());
  context.in[kRegisters] = 0x202;
  std::vector<std::byte> code = filled(guard, {}, static_cast<int64_t>(behind.size()) - 1);
  code.insert(code.end(), behind.begin(), behind.end());
  mdl_run_stencil(&context, page.put(code));
  return context.out[kR10] == 1;
}

}  // namespace mdl::exec
