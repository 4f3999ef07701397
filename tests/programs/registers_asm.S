/* Everything that a thread has in registers, across every kind of point (registers.cpp).
 *
 * r_probe fills all of it, calls one of the functions of registers.def, and stores all of it again. The functions do
 * next to nothing and follow no calling convention: whatever they do not change is live at each point of theirs,
 * as it is for a compiler that knows its callee (-fipa-ra), for hand-written code, for an interrupted computation.
 */

#define FUNCTION(name)  .globl name; .type name, @function; .p2align 4; name: .cfi_startproc
#define END(name)       .cfi_endproc; .size name, . - name; .p2align 4
/* lea 0(%r12), %r12: five bytes that do nothing and are not taken for padding. */
#define ROOM            .byte 0x4d, 0x8d, 0x64, 0x24, 0x00

        .text

FUNCTION(r_leaf)
        ROOM
        ROOM
        ret
END(r_leaf)

FUNCTION(r_small)
        xorl    %eax, %eax
        ret
END(r_small)

FUNCTION(r_relative)
        movq    r_variable(%rip), %r11
        adcq    r_variable(%rip), %r10
        leaq    r_variable(%rip), %r9
        subq    %r9, %r11
        ROOM
        sbbq    r_variable(%rip), %rdx
        ret
END(r_relative)

FUNCTION(r_endbr)
        endbr64
        ROOM
        ROOM
        ret
END(r_endbr)

FUNCTION(r_tail)
        ROOM
        ROOM
        {disp32} jmp r_plain
END(r_tail)

FUNCTION(r_tail_carry)
        ROOM
        ROOM
        {disp32} jc r_plain
        ROOM
        ret
END(r_tail_carry)

FUNCTION(r_direct)
        ROOM
        call    r_plain
        ROOM
        ROOM
        ret
END(r_direct)

FUNCTION(r_indirect)
        ROOM
        ROOM
        call    *r_pointer(%rip)
        ROOM
        ROOM
        ret
END(r_indirect)

FUNCTION(r_armed)
        ROOM
        {disp32} jc 1f
        ROOM
        call    r_plain
1:      ROOM
        ROOM
        ret
END(r_armed)

FUNCTION(r_branches)
        ROOM
        {disp32} jc 1f
        ROOM
1:      ROOM
        {disp32} jz 2f
        ROOM
2:      ROOM
        {disp32} js 3f
        ROOM
3:      ROOM
        {disp32} jo 4f
        ROOM
4:      ROOM
        {disp32} jp 5f
        ROOM
5:      ROOM
        ROOM
        ret
END(r_branches)

FUNCTION(r_loop)
        ROOM
        movl    $4, %ecx
1:      ROOM
        ROOM
        decl    %ecx
        {disp32} jnz 1b
        ROOM
        ROOM
        ret
END(r_loop)

FUNCTION(r_loop_flags)
        ROOM
        movl    $4, %ecx
1:      ROOM
        ROOM
        leaq    -1(%rcx), %rcx
        jrcxz   2f
        ROOM
        {disp32} jmp 1b
2:      ROOM
        ROOM
        ret
END(r_loop_flags)

FUNCTION(r_red_zone)
        ROOM
        movq    %rax, -8(%rsp)
        movq    %rbx, -16(%rsp)
        movq    %rdx, -24(%rsp)
        movq    %rbp, -32(%rsp)
        movq    %rsi, -40(%rsp)
        movq    %rdi, -48(%rsp)
        movq    %r8, -56(%rsp)
        movq    %r9, -64(%rsp)
        movq    %r10, -72(%rsp)
        movq    %r11, -80(%rsp)
        movq    %r12, -88(%rsp)
        movq    %r13, -96(%rsp)
        movq    %r14, -104(%rsp)
        movq    %r15, -112(%rsp)
        movq    %rax, -120(%rsp)
        movq    %rdi, -128(%rsp)
        movl    $4, %ecx
1:      ROOM
        ROOM
        leaq    -1(%rcx), %rcx
        jrcxz   2f
        ROOM
        {disp32} jmp 1b
2:      ROOM
        {disp32} jc 3f
        ROOM
3:      ROOM
        movq    -8(%rsp), %r15          /* each in another one than it came from */
        movq    -16(%rsp), %r14
        movq    -24(%rsp), %r13
        movq    -32(%rsp), %r12
        movq    -40(%rsp), %r11
        movq    -48(%rsp), %r10
        movq    -56(%rsp), %r9
        movq    -64(%rsp), %r8
        movq    -72(%rsp), %rdi
        movq    -80(%rsp), %rsi
        movq    -88(%rsp), %rbp
        movq    -96(%rsp), %rdx
        movq    -104(%rsp), %rbx
        movq    -112(%rsp), %rax
        movq    -120(%rsp), %rcx
        leaq    (%rcx,%rax), %rcx
        ROOM
        ret
END(r_red_zone)

/* A function in pieces, as clang's basic block sections make them: each piece has call frame information and
 * no symbol, only jumps lead there, and what is below the stack pointer passes from one to the next. */
FUNCTION(r_pieces)
        ROOM
        movq    %rdi, -8(%rsp)
        movq    %rsi, -24(%rsp)
        movq    %rdx, -128(%rsp)
        btq     $0, %rdi
        {disp32} jc .Lodd_piece
        {disp32} jmp .Leven_piece
END(r_pieces)
.Leven_piece:
        .cfi_startproc
        ROOM
        addq    %rdi, -8(%rsp)
        {disp32} jmp .Llast_piece
        .cfi_endproc
.Lodd_piece:
        .cfi_startproc
        ROOM
        xorq    %rdi, -24(%rsp)
        {disp32} jmp .Llast_piece
        .cfi_endproc
.Llast_piece:
        .cfi_startproc
        ROOM
        movq    -8(%rsp), %rax
        xorq    -24(%rsp), %rax
        xorq    -128(%rsp), %rax
        ROOM
        ret
        .cfi_endproc

/* What it computes depends on the rounding, the precision and the flush bits, in both units, and sets their sticky flags. */
FUNCTION(r_decimal)
        ROOM
        movl    $3, %ecx
1:      ROOM
        ROOM
        divsd   r_third(%rip), %xmm7
        addsd   r_third(%rip), %xmm7
        fdivs   r_float(%rip)
        fadds   r_float(%rip)
        decl    %ecx
        {disp32} jnz 1b
        ROOM
        ROOM
        ret
END(r_decimal)

FUNCTION(r_plain)
        ROOM
        ret
END(r_plain)

/* r_trash(six integers): leaves nothing in any register that a callee may change, and raises sticky flags. */
FUNCTION(r_trash)
        leaq    (%rdi,%rsi), %r8
        addq    %rdx, %r8
        divsd   r_third(%rip), %xmm0
        fldpi
        fdivs   r_float(%rip)
        fstp    %st(0)
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        pcmpeqd %xmm\n, %xmm\n
        .endr
        testl   $0xe0, r_mask(%rip)
        jz      1f
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        vpternlogd $0xff, %zmm\n, %zmm\n, %zmm\n
        .endr
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7
        kxnorw  %k\n, %k\n, %k\n
        .endr
        vzeroupper
1:      movq    $-3, %rcx
        movq    %rcx, %rdx
        movq    %rcx, %rsi
        movq    %rcx, %rdi
        movq    %rcx, %r9
        movq    %rcx, %r10
        movq    %rcx, %r11
        movl    $1, %eax
        xorl    %r8d, %r8d
        ret
END(r_trash)

/* r_probe(function, what is filled in, what is found; both struct State of registers.cpp): the number of
 * times that the stack pointer was not what it was. */
#define GENERAL 8
#define XSAVED  192
FUNCTION(r_probe)
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rdi, r_function(%rip)
        movq    %rdx, r_found(%rip)
        movq    %rsp, r_stack(%rip)
        movl    r_mask(%rip), %eax
        xorl    %edx, %edx
        xrstor64 XSAVED(%rsi)
        movq    144(%rsi), %rax         /* the stack's alignment: 0 or 8 */
        subq    $8, %rsp
        subq    %rax, %rsp
        movq    %rsp, r_stack_before(%rip)
        pushq   (%rsi)
        popfq
        movq    GENERAL(%rsi), %rax
        movq    GENERAL+8(%rsi), %rbx
        movq    GENERAL+16(%rsi), %rcx
        movq    GENERAL+24(%rsi), %rdx
        movq    GENERAL+40(%rsi), %rdi
        movq    GENERAL+48(%rsi), %rbp
        movq    GENERAL+56(%rsi), %r8
        movq    GENERAL+64(%rsi), %r9
        movq    GENERAL+72(%rsi), %r10
        movq    GENERAL+80(%rsi), %r11
        movq    GENERAL+88(%rsi), %r12
        movq    GENERAL+96(%rsi), %r13
        movq    GENERAL+104(%rsi), %r14
        movq    GENERAL+112(%rsi), %r15
        movq    GENERAL+32(%rsi), %rsi
        call    *r_function(%rip)
        movq    %rsi, r_rsi(%rip)
        movq    r_found(%rip), %rsi
        movq    %rax, GENERAL(%rsi)
        movq    %rbx, GENERAL+8(%rsi)
        movq    %rcx, GENERAL+16(%rsi)
        movq    %rdx, GENERAL+24(%rsi)
        movq    %rdi, GENERAL+40(%rsi)
        movq    %rbp, GENERAL+48(%rsi)
        movq    %r8, GENERAL+56(%rsi)
        movq    %r9, GENERAL+64(%rsi)
        movq    %r10, GENERAL+72(%rsi)
        movq    %r11, GENERAL+80(%rsi)
        movq    %r12, GENERAL+88(%rsi)
        movq    %r13, GENERAL+96(%rsi)
        movq    %r14, GENERAL+104(%rsi)
        movq    %r15, GENERAL+112(%rsi)
        movq    r_rsi(%rip), %rax
        movq    %rax, GENERAL+32(%rsi)
        pushfq
        popq    (%rsi)
        cld
        movl    r_mask(%rip), %eax
        xorl    %edx, %edx
        xsave64 XSAVED(%rsi)
        xorl    %eax, %eax
        cmpq    %rsp, r_stack_before(%rip)
        setne   %al
        movq    r_stack(%rip), %rsp
        fninit
        ldmxcsr r_mxcsr(%rip)
        pushq   $0
        popfq
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
END(r_probe)

        .data
        .p2align 3
        .globl  r_variable, r_pointer, r_mask
r_variable:     .quad   0x0123456789abcdef
        .type   r_variable, @object
        .size   r_variable, 8
r_pointer:      .quad   r_plain
r_third:        .double 3.7
r_function:     .quad   0
r_found:        .quad   0
r_stack:        .quad   0
r_stack_before: .quad   0
r_rsi:          .quad   0
r_mask:         .quad   0       /* the state components that this processor has: bits of XCR0 */
r_float:        .float  3.7
r_mxcsr:        .long   0x1f80

        .section .note.GNU-stack, "", @progbits
