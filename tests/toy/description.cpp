#include "runtime/arch/description.h"

#include "runtime/plan/verify.h"
#include "tests/toy/encoding.h"

namespace mdl::plan::toy {
extern const TargetRules kStencilRules;
}

namespace mdl::arch {
namespace {

constexpr image::Registers kPreserved = ((image::Registers{1} << (toy::kLastKept - toy::kKept + 1)) - 1)
                                        << toy::kKept;
constexpr uint8_t kBreakpoint[] = {toy::trap, 1, 0, 0, 0, 0, 0, 0};
constexpr uint8_t kArguments[] = {1, 2, 3};
constexpr uint32_t kThreadIdPlaces[] = {8};
constexpr std::string_view kOwnAbi[] = {"__toy_thunk*"};

}  // namespace

const Description kMachine = {
    .name = "toy",
    .elf_machine = 0x70f,
    .audit = 0x70f,
    .relocations = {.relative = 1, .irelative = 2, .jump_slot = 3, .glob_dat = 4},
    .alignment = toy::kSize,
    .jump_size = toy::kSize,
    .short_jump_size = toy::kSize,
    .far_jump_size = 2 * toy::kSize,
    .reach = 0x70000000,
    .short_reach = 0,
    .indirect_calls = {.shortest = toy::kSize, .longest = toy::kSize},
    .breakpoint = kBreakpoint,
    .breakpoint_name = "trap 1",
    .fill = toy::trap,
    .stack_pointer = toy::kStack,
    .frame_pointer = toy::kStack,
    .first_argument = toy::kArgument,
    .arguments = kArguments,
    .result = toy::kResult,
    .preserved = kPreserved,
    .scratch = image::register_bit(toy::kScratch) | image::register_bit(toy::kOther),
    .static_chain = image::register_bit(toy::kOther),
    .call_pushes = 0,
    .frames = {.registers = 33,
               .stack_pointer = 31,
               .frame_pointer = 31,
               .return_address = 30,
               .pc = 32,
               .cfa_at_entry = 0},
    .argument_registers = kArguments,
    .thread_id_places = kThreadIdPlaces,
    .own_abi = kOwnAbi,
    .jump_thunk = "__toy_thunk",
    .calls = {.memfd_create = 1,
              .ftruncate = 2,
              .mmap = 3,
              .munlock = 4,
              .mprotect = 5,
              .munmap = 6,
              .close = 7,
              .signal_mask = 8,
              .prctl = 9},
    .stencil_rules = &plan::toy::kStencilRules,
};

}  // namespace mdl::arch
