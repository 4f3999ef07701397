/* Functions in which each error of a planner has a place where it does harm (tests/unit/runtime/audit). The program
 * stops itself and is never continued: none of them is called.
 */
#define FUNCTION(name) .globl name; .type name, @function; name: .cfi_startproc
#define END(name)      .cfi_endproc; .size name, . - name

        .text
        .p2align 12
FUNCTION(main)
        movl    $39, %eax               /* getpid */
        syscall
        movl    %eax, %edi
        movl    $19, %esi               /* SIGSTOP */
        movl    $62, %eax               /* kill */
        syscall
        xorl    %eax, %eax
        ret
END(main)

        .p2align 6
a_cold_part: .cfi_startproc
        call    main
        .cfi_endproc
        .type   a_cold_part, @function
        .size   a_cold_part, . - a_cold_part
        nop
FUNCTION(a_behind_cold)
        subq    $8, %rsp
        call    main
        addq    $8, %rsp
        ret
END(a_behind_cold)

        .p2align 6
FUNCTION(a_plain)                       /* 48 89 fb | 48 8d 43 01 | 48 8b 05 .... | 5b c3 */
        movq    %rdi, %rbx
        leaq    1(%rbx), %rax
        movq    a_word(%rip), %rax
        popq    %rbx
        ret
END(a_plain)
        nopw    0(%rax,%rax)

        .p2align 6
FUNCTION(a_loop)
        xorl    %eax, %eax
1:      incl    %eax
        cmpl    %edi, %eax
        jne     1b
        ret
END(a_loop)

        .p2align 6
FUNCTION(a_entered)                     /* a_jumper jumps to its second instruction, a_caller calls it */
        movq    %rdi, %rax
a_entered_inside:
        movq    %rsi, %rcx
        movq    %rdi, %rdx
a_called_inside:
        addq    %rcx, %rax
        ret
END(a_entered)
        .p2align 6
FUNCTION(a_jumper)
        jmp     a_entered_inside
END(a_jumper)
FUNCTION(a_caller)
        call    a_called_inside
        ret
END(a_caller)

        .p2align 6
FUNCTION(a_switch)
        leaq    a_table(%rip), %rdx
        movslq  (%rdx,%rdi,4), %rcx
        addq    %rdx, %rcx
        jmp     *%rcx
a_label_0:
        xorl    %eax, %eax
a_label_1:
        incl    %eax
        incl    %eax
        ret
END(a_switch)

        .p2align 6
FUNCTION(a_pointed)
        movq    %rdi, %rax
a_pointed_inside:
        movq    %rsi, %rcx
        ret
END(a_pointed)

        .p2align 6
FUNCTION(a_short)
        xorl    %eax, %eax
        ret
END(a_short)
FUNCTION(a_next)
        movl    $1, %eax
        ret
END(a_next)

        .p2align 6
FUNCTION(a_last)                        /* unnamed code behind it, then a frame without a name */
        xorl    %eax, %eax
        ret
END(a_last)
        addl    $1, %eax
        ret
        .p2align 6
FUNCTION(a_before_frame)
        xorl    %eax, %eax
        ret
END(a_before_frame)
        .cfi_startproc
        nop
        addl    $1, %eax
        ret
        .cfi_endproc

        .p2align 6
FUNCTION(a_calls)
        movq    %rdi, %rax
        call    main
        movl    $24, %eax
        syscall
        ret
END(a_calls)

        .p2align 6
FUNCTION(a_landing)
        endbr64
        movl    $1, %eax
        ret
END(a_landing)

        .p2align 6
FUNCTION(a_padded)                      /* padding that a branch reaches, and padding that is run into */
        testl   %edi, %edi
        je      2f
        ret
        nopl    0(%rax)
2:      nopw    0(%rax,%rax)
        incl    %eax
        nopw    0(%rax,%rax)
        ret
END(a_padded)

        .p2align 12
        .skip   4092, 0x90
FUNCTION(a_crossing)
        movq    %rdi, %rax
        movq    %rsi, %rcx
        ret
END(a_crossing)

        .p2align 6
FUNCTION(a_branch)
        testl   %edi, %edi
        je      3f
        movl    $2, %eax
        ret
3:      movl    $3, %eax
        ret
END(a_branch)

        .section .rodata
        .p2align 2
a_table:
        .long   a_label_0 - a_table, a_label_1 - a_table
        .data
        .p2align 3
a_word: .quad   a_pointed_inside

        .section .note.GNU-stack, "", @progbits
