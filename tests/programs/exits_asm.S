# Ways out of functions that no analysis of the code sees, and one that ends in code that never comes back.
        .text
# int exits_capture(uint64_t* registers): as setjmp, but nobody knows it.
        .globl  exits_capture
        .type   exits_capture, @function
exits_capture:
        movq    (%rsp), %rax
        movq    %rax, (%rdi)
        leaq    8(%rsp), %rax
        movq    %rax, 8(%rdi)
        movq    %rbx, 16(%rdi)
        movq    %rbp, 24(%rdi)
        movq    %r12, 32(%rdi)
        movq    %r13, 40(%rdi)
        movq    %r14, 48(%rdi)
        movq    %r15, 56(%rdi)
        xorl    %eax, %eax
        ret
        .size   exits_capture, . - exits_capture

        .p2align 4
        .globl  exits_restore
        .type   exits_restore, @function
exits_restore:
        movq    16(%rdi), %rbx
        movq    24(%rdi), %rbp
        movq    32(%rdi), %r12
        movq    40(%rdi), %r13
        movq    48(%rdi), %r14
        movq    56(%rdi), %r15
        movl    $1, %eax
        movq    8(%rdi), %rsp
        jmpq    *(%rdi)
        .size   exits_restore, . - exits_restore

# int t_hidden(int value): the program writes a jump to exits_elsewhere at exits_gap. No code takes the address of that.
        .section .data.rel.ro, "aw"
        .p2align 3
        .globl  exits_gap
exits_gap:
        .quad   .Lgap
        .text
        .p2align 4
        .globl  t_hidden
        .type   t_hidden, @function
t_hidden:
        .cfi_startproc
        leal    1(%rdi), %eax
        addl    %edi, %eax
        imull   $3, %edi, %ecx
.Lgap:
        nopl    0(%rax,%rax,1)
        addl    %ecx, %eax
        subl    $7, %eax
        xorl    $5, %eax
        ret
        .cfi_endproc
        .size   t_hidden, . - t_hidden

        .p2align 4
        .globl  exits_elsewhere
        .type   exits_elsewhere, @function
exits_elsewhere:
        .cfi_startproc
        addl    %ecx, %eax
        ret
        .cfi_endproc
        .size   exits_elsewhere, . - exits_elsewhere

# void t_ends(bool really): jumps to code that never comes back.
        .p2align 4
        .globl  t_ends
        .type   t_ends, @function
t_ends:
        .cfi_startproc
        movl    %edi, %eax
        testb   %dil, %dil
        jne     exits_sleep_for_ever
        addl    $1, %eax
        ret
        .cfi_endproc
        .size   t_ends, . - t_ends
        .section .note.GNU-stack,"",@progbits
