// The facts about x86-64. The meaning of each number is in runtime/arch/description.h.
#include "runtime/arch/description.h"

#include <asm/unistd_64.h>

#include <initializer_list>

#include "llvm/BinaryFormat/ELF.h"
#include "runtime/arch/x86_64/emitter.h"
#include "runtime/arch/x86_64/stencil_rules.h"

namespace mdl::arch {
namespace {

constexpr image::Registers set_of(std::initializer_list<Reg> list) {
  image::Registers out = 0;
  for (const Reg reg : list) out |= image::register_bit(reg);
  return out;
}

constexpr uint8_t kBreakpoint[] = {0xcc};  // int3 (SDM volume 2, INT n)
// DWARF's numbers of %rdi %rsi %rdx %rcx %r8 %r9 (System V ABI for x86-64, figure 3.36).
constexpr uint8_t kArguments[] = {5, 4, 1, 2, 8, 9};
constexpr uint8_t kArgumentsInCode[] = {rdi, rsi, rdx, rcx, r8, r9};
// struct pthread: glibc's has it behind 704 bytes of header and a list's two pointers, musl's behind self,
// dtv, prev, next, sysinfo and canary.
constexpr uint32_t kThreadIdPlaces[] = {0x2d0, 0x30};
constexpr std::string_view kOwnAbi[] = {
    "__x86_indirect_thunk*",       // a jump through a register
    "__x86_return_thunk*",         // a ret
    "__x86_indirect_call_thunk*",  // likewise a call
    "__llvm_retpoline*",
};

}  // namespace

const Description kMachine = {
    .name = "x86_64",
    .elf_machine = llvm::ELF::EM_X86_64,
    .audit = llvm::ELF::EM_X86_64 | 0xc0000000,  // AUDIT_ARCH_X86_64: 64 bits, little-endian
    .relocations = {.relative = llvm::ELF::R_X86_64_RELATIVE,
                    .irelative = llvm::ELF::R_X86_64_IRELATIVE,
                    .jump_slot = llvm::ELF::R_X86_64_JUMP_SLOT,
                    .glob_dat = llvm::ELF::R_X86_64_GLOB_DAT},
    .alignment = 1,
    .jump_size = 5,        // e9 rel32
    .short_jump_size = 2,  // eb rel8
    .far_jump_size = 15,   // 3e ff 25 rel32, and the address behind it
    .reach = 0x70000000,
    .short_reach = 130,                               // its own two bytes, and a displacement of eight bits
    .indirect_calls = {.shortest = 2, .longest = 7},  // ff /2, to REX and a displacement of 32 bits
    .breakpoint = kBreakpoint,
    .breakpoint_name = "int3",
    .fill = 0xcc,
    .stack_pointer = rsp,
    .frame_pointer = rbp,
    .first_argument = rdi,
    .arguments = kArgumentsInCode,
    .result = rax,
    .preserved = set_of({rbx, rbp, r12, r13, r14, r15}),
    .scratch = set_of({r10, r11}),
    .static_chain = set_of({r10}),
    .call_pushes = 8,
    // rax rdx rcx rbx rsi rdi rbp rsp r8..r15, and the return address (System V ABI, figure 3.36)
    .frames = {.registers = 17,
               .stack_pointer = 7,
               .frame_pointer = 6,
               .return_address = 16,
               .pc = 16,
               .cfa_at_entry = 8},
    .argument_registers = kArguments,
    .thread_id_places = kThreadIdPlaces,
    .own_abi = kOwnAbi,
    .jump_thunk = "__x86_indirect_thunk",
    .calls = {.memfd_create = __NR_memfd_create,
              .ftruncate = __NR_ftruncate,
              .mmap = __NR_mmap,
              .munlock = __NR_munlock,
              .mprotect = __NR_mprotect,
              .munmap = __NR_munmap,
              .close = __NR_close,
              .signal_mask = __NR_rt_sigprocmask,
              .prctl = __NR_prctl},
    .stencil_rules = &plan::x86_64::kStencilRules,
};

}  // namespace mdl::arch
