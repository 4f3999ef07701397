/* Functions whose blocks and edges are known exactly. Each block is as long as a jump unless it is said not
 * to be; `.byte 0x0f, 0x82` and the like write a branch in its long form, which the assembler would shorten.
 */
#define FUNCTION(name)  .globl name; .type name, @function; .p2align 6; name: .cfi_startproc
#define END(name)       .cfi_endproc; .size name, . - name
#define LONG_JNE(label) .byte 0x0f, 0x85; .long label - . - 4
#define LONG_JE(label)  .byte 0x0f, 0x84; .long label - . - 4
#define LONG_JAE(label) .byte 0x0f, 0x83; .long label - . - 4
#define LONG_JMP(label) .byte 0xe9; .long label - . - 4

        .text

/* Four blocks, three of which run. */
FUNCTION(a_diamond)
        leaq    1(%rdi,%rdi), %rax
        testq   $1, %rdi
        jne     1f
        leaq    3(%rax,%rdi,2), %rax
        addq    $17, %rax
        LONG_JMP(2f)
1:      leaq    5(%rax,%rdi,4), %rax
        addq    $19, %rax
2:      imulq   $7, %rax, %rax
        addq    $1, %rax
        ret
END(a_diamond)

/* Three blocks; the second has two bytes, and what follows it is a target. */
FUNCTION(a_small_block)
        leaq    1(%rdi,%rdi), %rax
        testq   $1, %rdi
        je      1f
        notl    %eax
1:      imulq   $7, %rax, %rax
        addq    $1, %rax
        ret
END(a_small_block)

/* Three blocks: before, the round, behind. */
FUNCTION(a_do_while)
        movl    $3, %eax
        movq    %rdi, %rcx
1:      leaq    1(%rax,%rax,2), %rax
        decq    %rcx
        LONG_JNE(1b)
        imulq   $5, %rax, %rax
        addq    $2, %rax
        ret
END(a_do_while)

/* Blocks: before, outer head, inner, outer tail, behind. */
FUNCTION(a_nested)
        movl    $1, %eax
        movq    %rdi, %rcx
1:      movq    %rsi, %rdx
        addq    $11, %rax
2:      leaq    1(%rax,%rax,4), %rax
        decq    %rdx
        LONG_JNE(2b)
        xorq    $0x55, %rax
        decq    %rcx
        LONG_JNE(1b)
        imulq   $3, %rax, %rax
        addq    $4, %rax
        ret
END(a_nested)

/* rdi rounds, left early in the round rsi (its number), or when the sum is not below rdx. Blocks: before, head,
 * second, third, and the three ways out. */
FUNCTION(a_exits)
        xorl    %eax, %eax
        movl    $0, %ecx
        movq    %rdi, %r8
1:      leaq    3(%rax,%rcx,2), %rax
        cmpq    %rsi, %rcx
        LONG_JE(3f)
        incq    %rcx
        cmpq    %rdx, %rax
        LONG_JAE(4f)
        addq    $0, %rax
        decq    %r8
        LONG_JNE(1b)
        leaq    1000(%rax), %rax
        nopl    0(%rax)
        ret
3:      leaq    2000(%rax), %rax
        nopl    0(%rax)
        ret
4:      leaq    3000(%rax), %rax
        nopl    0(%rax)
        ret
END(a_exits)

/* Two ways back to the head at 2. Blocks: before, first, second, the head, behind. */
FUNCTION(a_continue)
        movl    $1, %eax
        movq    %rdi, %rcx
        LONG_JMP(2f)
1:      leaq    5(%rax,%rax), %rax
        decq    %rcx
        testq   $1, %rcx
        LONG_JNE(2f)
        xorq    $0x77, %rax
        addq    $9, %rax
        LONG_JMP(2f)
2:      leaq    1(%rax), %rax
        testq   %rcx, %rcx
        LONG_JNE(1b)
        imulq   $3, %rax, %rax
        nop
        ret
END(a_continue)

/* dec and a short jump: the head's window holds them all. */
FUNCTION(a_short)
        movl    $1, %eax
1:      addl    %eax, %eax
        xorl    $3, %eax
        decl    %edi
        jne     1b
        ret
        .byte   0xcc
END(a_short)

/* A loop of two blocks that is entered at either one. Blocks: before, first, second, behind. */
FUNCTION(a_irreducible)
        movl    $1, %eax
        testq   %rsi, %rsi
        LONG_JNE(2f)
1:      leaq    7(%rax,%rax), %rax
        nopl    0(%rax)
2:      leaq    1(%rax,%rax,2), %rax
        decq    %rdi
        LONG_JNE(1b)
        imulq   $3, %rax, %rax
        nopl    0(%rax)
        ret
END(a_irreducible)

/* rdi rounds. Blocks: the loop, behind. */
FUNCTION(a_entry_loop)
        leaq    1(%rax,%rdi), %rax
        decq    %rdi
        LONG_JNE(a_entry_loop)
        movl    $77, %eax
        nopl    0(%rax)
        ret
END(a_entry_loop)

/* All 128 bytes below the stack pointer hold what the loop needs. */
FUNCTION(a_red_zone)
        movq    %rdi, -8(%rsp)
        movq    $0, -128(%rsp)
        movq    $5, -64(%rsp)
1:      movq    -8(%rsp), %rax
        addq    %rax, -128(%rsp)
        addq    $3, -64(%rsp)
        decq    -8(%rsp)
        LONG_JNE(1b)
        movq    -128(%rsp), %rax
        addq    -64(%rsp), %rax
        ret
END(a_red_zone)

/* The carry flag goes from round to round, and every scratch register holds something. */
FUNCTION(a_flags)
        movl    $1, %eax
        movl    $2, %r10d
        movl    $3, %r11d
        movl    $4, %r9d
        clc
1:      adcq    %r10, %rax
        adcq    %r11, %r9
        leaq    -1(%rdi), %rdi
        adcq    %rax, %r10
        movq    %rdi, %rcx
        incq    %rcx
        decq    %rcx
        LONG_JNE(1b)
        adcq    %r10, %rax
        addq    %r9, %rax
        ret
END(a_flags)

/* One block: nothing leads to 1. The last bytes of a constant in a_constant are those of a jump there. */
FUNCTION(a_straight)
        leaq    1(%rdi,%rdi), %rax
        imulq   $7, %rax, %rax
1:      leaq    5(%rax,%rdi,4), %rax
        addq    $19, %rax
        ret
END(a_straight)

FUNCTION(a_constant)
        .byte   0x48, 0xb8, 0, 0, 0     /* movabs $..., %rax */
        .byte   0xe9
        .long   1b - . - 4
        ret
END(a_constant)

/* One block: a call does not end it, nor does the padding behind the call. */
FUNCTION(a_padded)
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    e_leaf
        nopl    0(%rax)
        leaq    3(%rax,%rax,2), %rax
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
END(a_padded)

/* Blocks: before, the calls, behind. The two calls stand side by side. */
FUNCTION(a_calls)
        subq    $24, %rsp
        .cfi_adjust_cfa_offset 24
        movq    %rdi, 8(%rsp)
        testq   $1, %rdi
        LONG_JE(1f)
        call    e_leaf
        call    e_leaf
        movq    %rax, 8(%rsp)
1:      movq    8(%rsp), %rax
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        ret
END(a_calls)

        .section .note.GNU-stack,"",@progbits
