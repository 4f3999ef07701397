/* Functions whose entries or returns have no room for a jump of five bytes, each of another shape. The first
 * argument is a number, the second the address of a four-byte one. What each needs is said above it; the bytes
 * that follow a punned jump are chosen so that it leads far below the program.
 */
#define FUNCTION(name) .globl name; .type name, @function; .p2align 6; name: .cfi_startproc
#define CLOSE(name)    .globl name; .type name, @function; name: .cfi_startproc
#define END(name)      .cfi_endproc; .size name, . - name
#define PUSH_RBX       pushq %rbx; .cfi_adjust_cfa_offset 8; .cfi_offset %rbx, -16
#define POP_RBX        popq %rbx; .cfi_adjust_cfa_offset -8
#define FRAME          pushq %rbp; .cfi_adjust_cfa_offset 8; .cfi_offset %rbp, -16; movq %rsp, %rbp; \
                       .cfi_def_cfa_register %rbp; subq $16, %rsp; movq %rdi, -8(%rbp)
#define FAR_AWAY       .rept 60; leaq 1(%rax,%rdi), %rax; .endr

        .text

/* Called by the others; it has room. */
FUNCTION(t_helper)
        leaq    1(%rdi,%rdi,2), %rax
        ret
END(t_helper)

/* A call behind a push: the entry's code stands at the call. */
FUNCTION(t_call_first)
        PUSH_RBX
        movq    %rdi, %rbx
        call    t_helper
        addq    %rbx, %rax
        POP_RBX
        ret
END(t_call_first)

/* The same with an indirect call of six bytes. */
FUNCTION(t_pointer_first)
        PUSH_RBX
        movl    %edi, %ebx
        call    *t_pointer(%rip)
        addq    %rbx, %rax
        POP_RBX
        ret
END(t_pointer_first)

/* Memory is read before the call: short, with a relay in the padding behind. */
FUNCTION(t_short_entry)
        PUSH_RBX
        movl    (%rsi), %ebx
        call    t_helper
        addq    %rbx, %rax
        POP_RBX
        ret
END(t_short_entry)

/* The same without padding in reach: punned, 3 bytes may be chosen. */
FUNCTION(t_punned_entry)
        PUSH_RBX
        movq    %rsi, %rbx
        movl    (%rbx), %ebx
        call    t_helper
        FAR_AWAY
        addq    %rbx, %rax
        POP_RBX
        ret
END(t_punned_entry)

/* The second instruction is the head of a loop: short, two bytes. */
FUNCTION(t_inner_head)
        xorl    %eax, %eax
1:      addq    %rdi, %rax
        subq    $1, %rdi
        jns     1b
        ret
END(t_inner_head)

/* The entry is the head of a loop: refused. */
FUNCTION(t_loop_entry)
        subq    $1, %rdi
        jns     t_loop_entry
        movl    $7, %eax
        ret
END(t_loop_entry)

/* A join three bytes before the return, code behind it: short. */
FUNCTION(t_short_return)
        leaq    3(%rdi), %rax
        testl   $1, %edi
        je      1f
        addq    $9, %rax
2:      notl    %eax
        ret
1:      addq    $5, %rax
        testl   $2, %edi
        je      2b
        leaq    3(%rax,%rdi,2), %rax
        ret
END(t_short_return)

/* The same with no padding in reach: punned, 2 bytes may be chosen. */
FUNCTION(t_punned_return)
        leaq    3(%rdi), %rax
        testl   $1, %edi
        je      1f
        addq    $9, %rax
2:      notl    %eax
        ret
1:      leaq    0x1000(%rdi,%rdi,4), %rax
        FAR_AWAY
        testl   $2, %edi
        je      2b
        leaq    3(%rax,%rdi,2), %rax
        ret
END(t_punned_return)

/* A return of one byte that a branch reaches: punned, to one address. */
FUNCTION(t_exact_return)
        leaq    3(%rdi), %rax
        testl   $1, %edi
        jne     1f
2:      ret
1:      leaq    0x1000(%rdi,%rdi,4), %rax
        testl   $2, %edi
        jne     2b
        addq    $7, %rax
        ret
END(t_exact_return)

/* The same, followed by what no jump may end with: the branches themselves are turned. */
FUNCTION(t_turned_return)
        leaq    3(%rdi), %rax
        testl   $1, %edi
        jne     1f
2:      ret
1:      movl    $16, %eax       /* b8 10 00 00 00: as a displacement, too near */
        leaq    7(%rax,%rdi), %rax
        testl   $2, %edi
        jne     2b
        addq    $7, %rax
        ret
END(t_turned_return)

/* As without optimization: nothing lies behind a return but the next function. The relay of its short jump is
 * hosted by the window of the entry, which is made longer. */
FUNCTION(t_hosted_return)
        FRAME
        call    t_helper
        leave
        ret
END(t_hosted_return)

/* Two returns, for both of which the entry has room. What follows the first: as a displacement, too near. */
CLOSE(t_hosted_twice)
        FRAME
        movq    %rsi, -16(%rbp)
        testl   $1, %edi
        je      1f
        call    t_helper
        leave
        ret
1:      movl    $16, %eax
        call    t_helper
        leave
        ret
END(t_hosted_twice)

/* The entry is too far away: instructions before the call make room. */
CLOSE(t_hosted_apart)
        FRAME
        movq    %rdi, %rax
        FAR_AWAY
        movq    %rax, %rdi
        call    t_helper
        leave
        ret
END(t_hosted_apart)

CLOSE(t_behind)
        ret
END(t_behind)

/* The cold part of a function right before its entry, with padding between them that ends at it. GCC lays out so
 * `main` and what has the attributes hot and constructor. Nothing of a patch may begin in that padding. */
#define COLD_PART(name) .p2align 6; .type name.cold, @function; name.cold: .cfi_startproc; \
                        .cfi_def_cfa_offset 16; call abort@PLT; .cfi_endproc; .size name.cold, . - name.cold
COLD_PART(t_behind_cold_1)
        nop
CLOSE(t_behind_cold_1)
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    t_helper
        testq   %rax, %rax
        je      t_behind_cold_1.cold
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
END(t_behind_cold_1)

COLD_PART(t_behind_cold_3)
        nopl    (%rax)
CLOSE(t_behind_cold_3)
        PUSH_RBX
        movl    (%rsi), %ebx
        call    t_helper
        testq   %rax, %rax
        je      t_behind_cold_3.cold
        addq    %rbx, %rax
        POP_RBX
        ret
END(t_behind_cold_3)

COLD_PART(t_behind_cold_11)
        .byte   0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0  /* cs nopw 0(%rax,%rax,1) */
        nop
CLOSE(t_behind_cold_11)
        leaq    1(%rdi), %rax
        ret
END(t_behind_cold_11)

        .section .data.rel.ro, "aw"
        .p2align 3
t_pointer:
        .quad   t_helper

        .section .note.GNU-stack, "", @progbits
