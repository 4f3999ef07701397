/* Three copies of the function that is measured, and the hand-written patch for one of them.
 *
 * The function has eight instructions; the first is five bytes long, so that a jump replaces
 * exactly it. Each copy has its own page-aligned cache lines and the same alignment.
 */

#define SUBJECT(name)                        \
        .globl  name                       ; \
        .type   name, @function            ; \
        .p2align 8                         ; \
name:                                      ; \
        .cfi_startproc                     ; \
        leaq    1(%rdi,%rdi,2), %rax       ; \
        movq    %rax, %rdx                 ; \
        shrq    $7, %rdx                   ; \
        xorq    %rdx, %rax                 ; \
        leaq    0x2b(%rax), %rdx           ; \
        shlq    $3, %rdx                   ; \
        xorq    %rdx, %rax                 ; \
        ret                                ; \
        .cfi_endproc                       ; \
        .size   name, . - name

        .text
        SUBJECT(subject_untouched)
        SUBJECT(subject_by_hand)
        SUBJECT(subject_injected)
        .p2align 8

/* What a person would write for subject_by_hand, knowing that rax, rcx, rdx and the flags are
 * dead at its entry: find the thread's cell by hashing the thread pointer, count, do the
 * displaced instruction, go back. It is copied to memory of its own near the function, with
 * the table of cells 4096 bytes after it; kHandBack is where the last jump's displacement is.
 *
 * A slot: the thread pointer it belongs to, and its counter; 64 bytes, so that threads share
 * no cache line. A slot of somebody else's is a trap: the benchmark claims all before.
 */
        .section .rodata
        .globl  hand_patch, hand_patch_back, hand_patch_end
        .p2align 4
hand_patch:
        movq    %fs:0, %rax
        movl    %eax, %ecx
        shrl    $12, %ecx
        andl    $255, %ecx
        shll    $6, %ecx
        leaq    hand_patch + 4096(%rip), %rdx
        addq    %rdx, %rcx
        cmpq    %rax, (%rcx)
        jne     1f
        incq    8(%rcx)
        leaq    1(%rdi,%rdi,2), %rax
        .byte   0xe9                    /* jmp rel32 */
hand_patch_back:
        .long   0
1:      ud2
hand_patch_end:

        .section .note.GNU-stack, "", @progbits
