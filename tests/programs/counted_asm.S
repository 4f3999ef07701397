/* Counted functions whose exact bytes matter. Flags and registers that a compiler would
 * treat as dead are live here on purpose; the System V ABI is kept at the C++ side only.
 *
 * TRUTH_ENTER/TRUTH_LEAVE clobber the flags; where flags are live, or the function is too
 * small, the caller counts.
 */

#define INDEX_OF(name) .Lindex_##name
        .set    .Lnext_index, 0
#define X(name, refusable) .set INDEX_OF(name), .Lnext_index; .set .Lnext_index, .Lnext_index + 1;
#include "counted_functions.def"
#undef X

#define TRUTH_ENTER(name) lock incq t_truth + 16 * INDEX_OF(name)(%rip)
#define TRUTH_LEAVE(name) lock incq t_truth + 16 * INDEX_OF(name) + 8(%rip)

#define FUNCTION(name)  .globl name; .type name, @function; .p2align 4; name:
#define FUNCTION_NO_PADDING(name)  .globl name; .type name, @function; name:
#define END(name)       .size name, . - name

        .text

/* Odd x: leaves by a taken conditional jump to t_tail_target. Even x: returns x / 2. */
FUNCTION(t_tail_conditional)
        .cfi_startproc
        TRUTH_ENTER(t_tail_conditional)
        testb   $1, %dil
        jz      1f
        TRUTH_LEAVE(t_tail_conditional)
        testb   $1, %dil
        jnz     t_tail_target
        ud2
1:      movq    %rdi, %rax
        shrq    $1, %rax
        TRUTH_LEAVE(t_tail_conditional)
        ret
        .cfi_endproc
END(t_tail_conditional)

/* One to four bytes, padded to 16 by the alignment of what follows. */
FUNCTION(t_ret1)
        .cfi_startproc
        ret
        .cfi_endproc
END(t_ret1)

FUNCTION(t_rep_ret2)
        .cfi_startproc
        rep ret
        .cfi_endproc
END(t_rep_ret2)

FUNCTION(t_zero3)
        .cfi_startproc
        xorl    %eax, %eax
        ret
        .cfi_endproc
END(t_zero3)

FUNCTION(t_move4)
        .cfi_startproc
        movq    %rdi, %rax
        ret
        .cfi_endproc
END(t_move4)

/* Leaf: 16 words in the red zone, written, read back and added up after a loop that gives
 * an interruption time to overwrite them. */
FUNCTION(t_red_zone)
        .cfi_startproc
        movq    %rdi, -8(%rsp)
        movq    %rdi, -64(%rsp)
        movq    %rdi, -128(%rsp)
        TRUTH_ENTER(t_red_zone)
        movl    $16, %ecx
1:      negq    %rcx
        leaq    (%rdi,%rcx), %rax
        movq    %rax, (%rsp,%rcx,8)
        negq    %rcx
        decl    %ecx
        jnz     1b
        xorl    %eax, %eax
        movl    $16, %ecx
2:      negq    %rcx
        addq    (%rsp,%rcx,8), %rax
        negq    %rcx
        decl    %ecx
        jnz     2b
        TRUTH_LEAVE(t_red_zone)
        ret
        .cfi_endproc
END(t_red_zone)

/* The first instruction is where the loop comes back to. rdi = turns > 0, rsi = what to add
 * to. The count of calls is kept by the caller, for an instruction here would run once a turn. */
FUNCTION(t_loop_entry)
        .cfi_startproc
        leaq    3(%rsi,%rdi), %rsi
        decq    %rdi
        jnz     t_loop_entry
        movq    %rsi, %rax
        ret
        .cfi_endproc
END(t_loop_entry)

/* A branch goes to the second instruction, inside the first five bytes. rdi = turns > 0. */
FUNCTION(t_jump_into)
        .cfi_startproc
        xorl    %eax, %eax
1:      incq    %rax
        decq    %rdi
        jnz     1b
        TRUTH_ENTER(t_jump_into)
        TRUTH_LEAVE(t_jump_into)
        ret
        .cfi_endproc
END(t_jump_into)

/* Pops its argument. */
FUNCTION(t_ret_imm)
        .cfi_startproc
        TRUTH_ENTER(t_ret_imm)
        movq    8(%rsp), %rax
        leaq    7(%rax,%rax,2), %rax
        TRUTH_LEAVE(t_ret_imm)
        ret     $8
        .cfi_endproc
END(t_ret_imm)

FUNCTION(call_ret_imm)
        .cfi_startproc
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        call    t_ret_imm
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
END(call_ret_imm)

/* r10 carries the static chain of a nested function. */
FUNCTION(t_static_chain)
        .cfi_startproc
        leaq    (%r10,%rdi), %rax
        TRUTH_ENTER(t_static_chain)
        xorq    %r10, %rax
        TRUTH_LEAVE(t_static_chain)
        ret
        .cfi_endproc
END(t_static_chain)

FUNCTION(call_static_chain)
        .cfi_startproc
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq    %rdi, %r10
        movl    $5, %edi
        call    t_static_chain
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
END(call_static_chain)

/* Touches nothing that a caller could see: its caller keeps every register. */
FUNCTION(t_keeps_registers)
        .cfi_startproc
        pushfq
        .cfi_adjust_cfa_offset 8
        TRUTH_ENTER(t_keeps_registers)
        TRUTH_LEAVE(t_keeps_registers)
        popfq
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
END(t_keeps_registers)

/* Fills all general registers, the flags and xmm0..15 with known values, calls
 * t_keeps_registers, and counts what changed. */
#define CHANGED -64(%rbp)
#define CHECK(reg, value) cmpq $value, %reg; je 9f; incq CHANGED; 9:
FUNCTION(call_keeps_registers)
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        .cfi_offset %rbx, -24
        .cfi_offset %r12, -32
        .cfi_offset %r13, -40
        .cfi_offset %r14, -48
        .cfi_offset %r15, -56
        subq    $40, %rsp               /* CHANGED; -72: flags before; -80: flags after */
        movq    $0, CHANGED

        movl    $0x1001, %eax
        movq    %rax, %xmm0
        .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movl    $(0x1001 + \n), %eax
        movq    %rax, %xmm\n
        .endr
        movl    $0x7fffffff, %eax
        addl    $1, %eax                /* OF, SF, PF and AF up, CF and ZF down */
        stc                             /* and CF up */
        pushfq
        popq    %rax
        movq    %rax, -72(%rbp)
        movq    $0x2001, %rax
        movq    $0x2002, %rcx
        movq    $0x2003, %rdx
        movq    $0x2004, %rbx
        movq    $0x2005, %rsi
        movq    $0x2006, %rdi
        movq    $0x2007, %r8
        movq    $0x2008, %r9
        movq    $0x2009, %r10
        movq    $0x200a, %r11
        movq    $0x200b, %r12
        movq    $0x200c, %r13
        movq    $0x200d, %r14
        movq    $0x200e, %r15
        call    t_keeps_registers
        pushfq
        popq    -80(%rbp)
        CHECK(rax, 0x2001)
        CHECK(rcx, 0x2002)
        CHECK(rdx, 0x2003)
        CHECK(rbx, 0x2004)
        CHECK(rsi, 0x2005)
        CHECK(rdi, 0x2006)
        CHECK(r8,  0x2007)
        CHECK(r9,  0x2008)
        CHECK(r10, 0x2009)
        CHECK(r11, 0x200a)
        CHECK(r12, 0x200b)
        CHECK(r13, 0x200c)
        CHECK(r14, 0x200d)
        CHECK(r15, 0x200e)
        movq    -72(%rbp), %rax
        xorq    -80(%rbp), %rax
        testl   $0x8d5, %eax            /* OF SF ZF AF PF CF */
        jz      1f
        incq    CHANGED
1:
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movq    %xmm\n, %rax
        cmpq    $(0x1001 + \n), %rax
        je      2f
        incq    CHANGED
2:
        .endr
        movq    CHANGED, %rax
        addq    $40, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
END(call_keeps_registers)

/* Takes an addend in the carry flag and gives 1 back in the carry flag. */
FUNCTION(t_carry)
        .cfi_startproc
        adcq    $0, %rdi
        movq    %rdi, %rax
        stc
        ret
        .cfi_endproc
END(t_carry)

FUNCTION(call_carry)
        .cfi_startproc
        TRUTH_ENTER(t_carry)
        TRUTH_LEAVE(t_carry)
        stc
        call    t_carry
        jnc     1f
        ret
1:      movq    $-1, %rax
        ret
        .cfi_endproc
END(call_carry)

/* No byte to spare between these. */
FUNCTION(t_tight1)
        .cfi_startproc
        ret
        .cfi_endproc
END(t_tight1)
FUNCTION_NO_PADDING(t_tight3)
        .cfi_startproc
        xorl    %eax, %eax
        ret
        .cfi_endproc
END(t_tight3)
FUNCTION_NO_PADDING(after_tight)
        .cfi_startproc
        xorl    %eax, %eax
        ret
        .cfi_endproc
END(after_tight)

        .section .note.GNU-stack, "", @progbits
