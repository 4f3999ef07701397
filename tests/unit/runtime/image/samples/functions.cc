// Functions whose ways in and out read_code must find. Compiled by the tests, with and without
// symbols, and single-stepped: what the machine does is the oracle. Every function that is
// watched is named s_...; run_all() calls each with arguments that take all of its ways.
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#ifdef __clang__
#define WATCHED extern "C" __attribute__((noinline, visibility("default")))
#else
#define WATCHED extern "C" __attribute__((noipa, visibility("default")))
#endif

volatile int sink;

WATCHED int s_leaf(int x) {
  return x + 1;
}

WATCHED int s_two_returns(int x) {
  if (x > 10) {
    sink = x;
    return s_leaf(x) * 2;
  }
  return x;
}

WATCHED int s_tail(int x) {
  return s_leaf(x * 3);
}

WATCHED int s_sometimes_tail(int x) {
  if (x & 1) return s_leaf(x);
  sink = s_leaf(x);
  return x - 1;
}

WATCHED int s_recursive(int n) {
  return n < 2 ? n : s_recursive(n - 1) + s_recursive(n - 2);
}

// A switch with a frame.
WATCHED int s_switch_framed(int x, int y) {
  int z = s_leaf(y);
  switch (x) {
    case 0:
      sink = z;
      break;
    case 1:
      sink = z + s_leaf(1);
      break;
    case 2:
      return z * 7;
    case 3:
      sink = z - 4;
      break;
    case 4:
      return s_leaf(z);
    case 5:
      sink = y ^ z;
      break;
    case 6:
      sink = y;
      return y * 5;
    case 7:
      z += sink;
      break;
    default:
      return -1;
  }
  return s_leaf(sink) + z;
}

// A switch in a function without a frame.
WATCHED int s_switch_bare(int x, int y) {
  switch (x) {
    case 0:
      return y + 3;
    case 1:
      return y * y;
    case 2:
      sink = y;
      return 9;
    case 3:
      return y ^ 0x55;
    case 4:
      sink = 2;
      return y - 100;
    case 5:
      return s_leaf(y);
    case 6:
      sink = 9;
      sink = 10;
      return -y;
    case 7:
      return y / 3;
  }
  return 0;
}

struct Shape {
  int (*area)(const Shape*);
  int side;
};
WATCHED int s_square(const Shape* shape) {
  return shape->side * shape->side;
}
WATCHED int s_through_pointer(const Shape* shape) {
  return shape->area(shape);
}

using Handler = int (*)(int);
WATCHED int s_handler_a(int x) {
  return x + 100;
}
WATCHED int s_handler_b(int x) {
  return x + 200;
}
static Handler const handlers[] = {s_handler_a, s_handler_b, s_leaf, s_tail};
WATCHED int s_through_table(unsigned i, int x) {
  return handlers[i & 3](x);
}

// Labels as values, as interpreters use them.
WATCHED int s_computed_goto(const unsigned char* code) {
  static const void* const labels[] = {&&increment, &&twice, &&negate, &&halt};
  int value = 1;
  goto* labels[*code++];
increment:
  value += 1;
  goto* labels[*code++];
twice:
  value *= 2;
  goto* labels[*code++];
negate:
  value = -value;
  goto* labels[*code++];
halt:
  return value;
}

__attribute__((noinline, cold)) static void complain(int x) {
  sink = x;
}

// A cold part that comes back.
WATCHED int s_cold_and_back(int x) {
  int y = s_leaf(x);
  if (__builtin_expect(x == 77, 0)) {
    complain(x);
    y += sink;
  }
  sink = y;
  return y + s_leaf(y);
}

WATCHED int s_thrower(int x) {
  if (x > 3) throw std::runtime_error("too large");
  return x;
}

// The handler returns by itself: its return is in the cold part.
WATCHED int s_catcher(int x) {
  try {
    return s_thrower(x) + 1;
  } catch (const std::runtime_error&) {
    return -7;
  }
}

// Its cold part has no open frame where it begins, and no way back: in a stripped file nothing names it.
WATCHED int s_throws_from_afar(unsigned x) {
  if (x % 3 == 0) throw 1;
  return s_leaf(static_cast<int>(x));
}

struct Guard {
  ~Guard() { sink = 1; }
};
// Only a cleanup, which resumes unwinding.
WATCHED int s_cleanup(int x) {
  Guard guard;
  return s_thrower(x) + s_leaf(x);
}

WATCHED int s_stops(int x) {
  if (x == 12345) abort();
  return s_leaf(x) + 2;
}

static jmp_buf back;
WATCHED void s_jumper() {
  longjmp(back, 1);
}
WATCHED int s_jump_target() {
  volatile int step = 1;
  if (setjmp(back) == 0) s_jumper();
  step = step + 1;
  return step;
}

// Written by hand: what compilers write seldom.
extern "C" long s_rep_ret(long x);
extern "C" long s_conditional_tail(long x);
extern "C" long s_short_loop(long x);
extern "C" long s_entry_is_loop(long x);
extern "C" long s_virtual_beside_switch(long x, const Handler* const* object, long index);
extern "C" long s_parts_of_its_own(long x);
asm(R"(
  .text
  .macro FUNCTION name
  .p2align 4
  .globl \name
  .type \name, @function
  \name:
  .cfi_startproc
  .endm
  .macro END name
  .cfi_endproc
  .size \name, . - \name
  .endm

  FUNCTION s_rep_ret
  lea 5(%rdi), %rax
  rep ret
  END s_rep_ret

  FUNCTION s_conditional_tail
  test %edi, %edi
  jnz s_rep_ret
  mov $3, %eax
  ret
  END s_conditional_tail

  FUNCTION s_short_loop
  xor %eax, %eax
1: add %rdi, %rax
  dec %rdi
  jnz 1b
  ret
  END s_short_loop

  FUNCTION s_entry_is_loop
  dec %rdi
  jns s_entry_is_loop
  mov %rdi, %rax
  ret
  END s_entry_is_loop

  # A virtual tail call beside a switch, through the register that holds the switch's table elsewhere: what is
  # read there has 8 bytes, comes from memory, and the frame is taken down.
  FUNCTION s_virtual_beside_switch
  push %rbx
  .cfi_adjust_cfa_offset 8
  cmp $2, %rdi
  jae 22f
  lea 23f(%rip), %rcx
  movslq (%rcx,%rdi,4), %rax
  add %rcx, %rax
  jmp *%rax
20: mov $1, %eax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_adjust_cfa_offset 8
21: mov $2, %eax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_adjust_cfa_offset 8
22: mov (%rsi), %rcx
  pop %rbx
  .cfi_adjust_cfa_offset -8
  mov (%rcx,%rdx,8), %rdx
  jmp *%rdx
  END s_virtual_beside_switch
  .pushsection .rodata
  .balign 4
23: .long 20b - 23b, 21b - 23b
  .popsection

  # Code without a name that nothing but its jumps leads to. Parts: one returns or stops, one is jumped into in two
  # places, one does not come back. The last one may be a function that is called last.
  FUNCTION s_parts_of_its_own
  test %rdi, %rdi
  js 25f
  jz 24f
  cmp $2, %rdi
  je 16f
  cmp $3, %rdi
  je 17f
  cmp $4, %rdi
  je 18f
  mov $3, %eax
  ret
  END s_parts_of_its_own
  .skip 300, 0xcc
  .cfi_startproc
24: test %rdi, %rdi
  jnz 19f
  mov $4, %eax
  ret
19: push %rax
  .cfi_adjust_cfa_offset 8
  call abort@PLT
  .cfi_endproc
  .skip 300, 0xcc
  .cfi_startproc
16: mov $5, %eax
  ret
17: mov $6, %eax
  ret
  .cfi_endproc
  .skip 300, 0xcc
  .cfi_startproc
18: mov $7, %eax
  ret
  .cfi_endproc
  .skip 300, 0xcc
  .cfi_startproc
25: push %rax
  .cfi_adjust_cfa_offset 8
  call abort@PLT
  .cfi_endproc

  FUNCTION s_skips_lock
  je 2f
  lock
2: incl sink(%rip)
  ret
  END s_skips_lock

  # Only read, never run:
  FUNCTION s_asm_ret_immediate
  mov %edi, %eax
  ret $16
  END s_asm_ret_immediate

  FUNCTION s_asm_pc_trick
  call 3f
3: pop %rax
  ret
  END s_asm_pc_trick

  # Returns that are jumps into the function itself.
  FUNCTION s_asm_push_return
  lea 3f(%rip), %rax
  push %rax
  mov %rdi, %rax
  ret
3: ret
  END s_asm_push_return

  FUNCTION s_asm_store_return
  push %rcx
  lea 3f(%rip), %rax
  mov %rax, (%rsp)
  ret
3: ret
  END s_asm_store_return

  FUNCTION s_asm_push_pop_return
  push %rbx
  mov %rdi, (%rax)
  pop %rbx
  ret
  END s_asm_push_pop_return

  FUNCTION s_asm_falls_through
  inc %eax
  END s_asm_falls_through

  # Its size counts the padding, as that of glibc's strcasecmp, which runs on into strcasecmp_l.
  FUNCTION s_asm_falls_through_padding
  inc %eax
  .skip 6, 0x90
  END s_asm_falls_through_padding

  FUNCTION s_asm_data_inside
  jmp 4f
  .byte 0x06, 0x06, 0x06, 0x06
4: ret
  END s_asm_data_inside

  # Labels as values, by a table whose address is put together from pieces, as with -mcmodel=large: the jump looks like
  # a tail call through an array of functions, but nothing else leads to what is behind it.
  FUNCTION s_asm_hidden_table
  mov (%rsi,%rdi,8), %rax
  jmp *%rax
  add $9, %rdx
  mov (%rsi,%rdx,8), %rax
  jmp *%rax
  mov %rdx, %rax
  ret
  END s_asm_hidden_table

  # clang leads what cannot happen to the function's end, and checks no range: the table goes on behind that. One of
  # its labels is reached by nothing else.
  FUNCTION s_asm_unreachable_case
  lea 63f(%rip), %rcx
  movslq (%rcx,%rdi,4), %rdi
  add %rcx, %rdi
  jmp *%rdi
60: mov $1, %eax
61: add $2, %eax
62: add $3, %eax
  ret
  END s_asm_unreachable_case
64:
  .pushsection .rodata
  .balign 4
63: .long 64b-63b, 62b-63b, 64b-63b, 60b-63b, 61b-63b
  .popsection

  # What is read has the size of a label's address, the frame is the same at the label and at the jump, and the
  # table's address comes from memory: it may be either.
  FUNCTION s_asm_label_or_method
  cmp $1, %rdi
  ja 28f
  lea 29f(%rip), %rcx
  jmp *(%rcx,%rdi,8)
26: mov $1, %eax
  ret
27: mov $2, %eax
  ret
28: mov (%rsi), %rcx
  jmp *(%rcx,%rdx,8)
  END s_asm_label_or_method
  .pushsection .data.rel.ro, "aw"
  .balign 8
29: .quad 26b, 27b
  .popsection

  # The same for code that is called, too, whose address is in data, or is taken: functions. One does not come back.
  FUNCTION s_asm_shares_called
  test %edi, %edi
  js 30f
  jz 31f
  cmp $5, %edi
  je 32f
  cmp $6, %edi
  je 33f
  ret
  END s_asm_shares_called
  .skip 300, 0xcc
  .cfi_startproc
30: test %rdi, %rdi
  jnz 34f
  mov $4, %eax
  ret
34: push %rax
  .cfi_adjust_cfa_offset 8
  call abort@PLT
  .cfi_endproc
  .skip 300, 0xcc
  .cfi_startproc
31: test %rdi, %rdi
  jnz 34f
  mov $5, %eax
  ret
34: push %rax
  .cfi_adjust_cfa_offset 8
  call abort@PLT
  .cfi_endproc
  .skip 300, 0xcc
  .cfi_startproc
32: test %rdi, %rdi
  jnz 34f
  mov $6, %eax
  ret
34: push %rax
  .cfi_adjust_cfa_offset 8
  call abort@PLT
  .cfi_endproc
  .skip 300, 0xcc
  .cfi_startproc
33: call abort@PLT
  .cfi_endproc
  FUNCTION s_asm_calls_shared
  lea 32b(%rip), %rax
  lea 33b(%rip), %rax
  call 30b
  ret
  END s_asm_calls_shared
  .pushsection .data.rel.ro, "aw"
  .balign 8
  .quad 31b
  .popsection

  # The same jump, and everything else is reached: a way out.
  FUNCTION s_asm_array_of_functions
  test %edi, %edi
  js 9f
  mov (%rsi,%rdi,8), %rax
  jmp *%rax
9: xor %eax, %eax
  ret
  END s_asm_array_of_functions

  # A tail call as -fno-plt makes it, and code to which nothing leads, as it stands behind calls that do not come back.
  FUNCTION s_asm_through_slot
  jmp *8f(%rip)
  mov %rdx, %rax
  ret
  END s_asm_through_slot
  .pushsection .data.rel.ro, "aw"
  .balign 8
8: .quad s_asm_array_of_functions
  .popsection

  # Both jump behind the first instruction of the one between them, from near and from far.
  FUNCTION s_asm_far_intruder
  mov $1, %eax
  jmp 5f
  .skip 200, 0x90
  END s_asm_far_intruder

  FUNCTION s_asm_victim
  mov %rdi, %rax
5: add $2, %rax
6: add $3, %rax
  ret
  END s_asm_victim

  FUNCTION s_asm_near_intruder
  mov $2, %eax
  jmp 6b
  END s_asm_near_intruder

  # Calls behind the first instruction of the one after it, as hand-written code shares its tails.
  FUNCTION s_asm_caller_of_middle
  mov $4, %eax
  call 7f
  ret
  END s_asm_caller_of_middle

  FUNCTION s_asm_called_in_middle
  mov %rdi, %rax
7: add $7, %rax
  ret
  END s_asm_called_in_middle

  # Hand-written code that shares an end with another function while its frame is open, from near and from far;
  # what a symbol does not name is a function because it is called.
  FUNCTION s_asm_borrows_end
  push %rbx
  .cfi_adjust_cfa_offset 8
  mov $3, %ebx
  jmp 11f
  .skip 200, 0x90
  END s_asm_borrows_end

  .cfi_startproc
10: push %rbx
  .cfi_adjust_cfa_offset 8
  mov $4, %ebx
11: mov %ebx, %eax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc

  FUNCTION s_asm_lends_end
  push %rbx
  .cfi_adjust_cfa_offset 8
  call 10b
  mov %eax, %ebx
12: mov %ebx, %eax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  ret
  END s_asm_lends_end

  FUNCTION s_asm_borrows_near
  push %rbx
  .cfi_adjust_cfa_offset 8
  mov $5, %ebx
  jmp 12b
  END s_asm_borrows_near

  # Nobody calls it, and its way out leads into the linkage table, which call frame information describes as one
  # piece: it is a function for all that.
  .cfi_startproc
14: mov $6, %edi
  jmp abort@PLT
  .cfi_endproc

  # A shared end without call frame information, as in GMP.
  .p2align 4
  .globl s_asm_borrows_bare, s_asm_lends_bare
  .type s_asm_borrows_bare, @function
  .type s_asm_lends_bare, @function
s_asm_borrows_bare:
  push %rbx
  mov $6, %ebx
  jmp 18f
  .size s_asm_borrows_bare, . - s_asm_borrows_bare
s_asm_lends_bare:
  push %rbx
  mov $7, %ebx
18: mov %ebx, %eax
  pop %rbx
  ret
  .size s_asm_lends_bare, . - s_asm_lends_bare

  # A common end that has a name, and frame information that says that others' frames are there; and one of which it
  # says that a function begins there, behind a call.
  FUNCTION s_asm_named_end
  .cfi_def_cfa_offset 16
  pop %rbx
  .cfi_adjust_cfa_offset -8
  ret
  END s_asm_named_end

  FUNCTION s_asm_to_named_end
  push %rbx
  .cfi_adjust_cfa_offset 8
  test %edi, %edi
  jnz 19f
  mov $8, %ebx
19: mov %ebx, %eax
  jmp s_asm_named_end
  END s_asm_to_named_end

  FUNCTION s_asm_plain_end
  pop %rbx
  ret
  END s_asm_plain_end

  FUNCTION s_asm_to_plain_end
  push %rbx
  .cfi_adjust_cfa_offset 8
  call s_asm_called_in_middle
  mov %eax, %ebx
  jmp s_asm_plain_end
  END s_asm_to_plain_end

  # The frame is taken down, and frame information has nothing of that.
  FUNCTION s_asm_end_unsaid
  push %rbx
  .cfi_adjust_cfa_offset 8
  call s_asm_called_in_middle
  pop %rbx
  mov $9, %eax
  jmp s_asm_called_in_middle
  END s_asm_end_unsaid

  # Its table of exceptions says that it catches in what is called elsewhere, and named by nothing.
  FUNCTION s_asm_pad_elsewhere
  .cfi_lsda 0x1b, s_asm_pad_elsewhere_table
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
15: call 17f
16: add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  END s_asm_pad_elsewhere

  .cfi_startproc
17: mov $7, %eax
19: ret
  .cfi_endproc
  .pushsection .gcc_except_table, "a"
s_asm_pad_elsewhere_table:
  .byte 0xff, 0xff, 1
  .uleb128 21f - 20f
20: .uleb128 15b - s_asm_pad_elsewhere
  .uleb128 16b - 15b
  .uleb128 19b - s_asm_pad_elsewhere
  .uleb128 0
21:
  .popsection

  # As BUG_ON of haproxy ends: no program has memory there.
  FUNCTION s_asm_ends_by_a_store
  test %edi, %edi
  je 13f
  ret
13: movb $0, 1
  END s_asm_ends_by_a_store

  # What compilers make of an indirect jump with -mindirect-branch=thunk; the thunk is theirs by name.
  FUNCTION s_asm_through_thunk
  mov %rdi, %rax
  jmp __x86_indirect_thunk_rax
  END s_asm_through_thunk

  FUNCTION __x86_indirect_thunk_rax
  call 9f
8: pause
  lfence
  jmp 8b
9: mov %rax, (%rsp)
  ret
  END __x86_indirect_thunk_rax

  FUNCTION s_asm_unknown_jump
  push %rbp
  .cfi_adjust_cfa_offset 8
  jmp *%rdi
  END s_asm_unknown_jump

  # A jump to the end, as clang leaves it behind calls that do not come back: one that runs, one that does
  # not, and one that a branch leads to, with nothing at the end. Redis's function is known by name.
  FUNCTION _serverPanic
  ud2
  END _serverPanic

  FUNCTION s_asm_to_end
  test %edi, %edi
  je 10f
  call s_leaf
  jmp 11f
10: ret
  END s_asm_to_end
11:

  FUNCTION s_asm_never_to_end
  test %edi, %edi
  je 12f
  call _serverPanic
  jmp 13f
12: ret
  END s_asm_never_to_end
13:

  FUNCTION s_asm_to_nothing
  test %edi, %edi
  je 14f
  call _serverPanic
14: jmp 15f
  ret
  END s_asm_to_nothing
15: .byte 0x06
)");
extern "C" void s_skips_lock();

static void run_all() {
  for (int x : {1, 2, 50}) sink = s_two_returns(x) + s_tail(x) + s_sometimes_tail(x);
  sink = s_recursive(5);
  for (int x = -1; x < 9; ++x) sink = s_switch_framed(x, x * 2) + s_switch_bare(x, x * 3);
  Shape shape{s_square, 4};
  sink = s_through_pointer(&shape);
  for (unsigned i = 0; i < 4; ++i) sink = s_through_table(i, 5);
  const unsigned char code[] = {0, 1, 2, 0, 1, 3};
  sink = s_computed_goto(code);
  sink = s_cold_and_back(1) + s_cold_and_back(77);
  sink = s_catcher(1) + s_catcher(9);
  sink = s_stops(3) + s_jump_target();
  try {
    sink = s_cleanup(1);
    sink = s_cleanup(9);
  } catch (const std::runtime_error&) {
    sink = 0;
  }
  try {
    sink = s_throws_from_afar(4);
    sink = s_throws_from_afar(6);
  } catch (int) {
    sink = 0;
  }
  const Handler* object = handlers;
  for (long x = 0; x < 6; ++x) sink = static_cast<int>(s_virtual_beside_switch(x, &object, x & 3));
  for (long x = 0; x < 6; ++x) sink = static_cast<int>(s_parts_of_its_own(x));
  for (long x : {0, 3})
    sink = static_cast<int>(s_rep_ret(x) + s_conditional_tail(x) + s_short_loop(x + 1) + s_entry_is_loop(x));
  s_skips_lock();
}

int main() {
  run_all();  // binds the symbols, so that what is stepped over is short
  raise(SIGSTOP);
  run_all();
  raise(SIGSTOP);
  for (;;) pause();
}
