// The resident code: what is injected once per session besides the trampolines.
// Position independent, freestanding, calls nothing, makes no system call.
//
// mdl_resident_find_block: the slow path of the search for a thread's block.
//   in:  r10 thread pointer, r11 address of its home slot
//   out: r11 the thread's block; r10 and the flags are lost, all else is kept
// Slots are {thread pointer, block} pairs; a free one has thread pointer 0. All blocks are
// there from the start, so claiming a slot is one compare-and-swap and nothing has to be
// published afterwards: a signal handler that runs this on the same thread in between
// finds either a free slot or its own. The search ends after one round: then the thread
// shares the overflow block, and the reader knows that from the counter.
        .text
        .globl  mdl_resident_begin
        .globl  mdl_resident_exit
        .globl  mdl_resident_catch
        .globl  mdl_resident_jump
        .globl  mdl_resident_parameters
        .globl  mdl_resident_end
        .p2align 4
mdl_resident_begin:
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        movq    .Ldirectory(%rip), %rcx
        movq    .Ldirectory_bytes(%rip), %rdx
        addq    %rcx, %rdx              // end of the directory
        pushq   %rdx
        movq    .Ldirectory_bytes(%rip), %rdx
.Lprobe:
        movq    (%r11), %rax
        cmpq    %r10, %rax
        je      .Lfound
        testq   %rax, %rax
        jne     .Lnext
        lock cmpxchgq %r10, (%r11)      // rax = 0: claim the free slot
        je      .Lfound
.Lnext:
        addq    $16, %r11
        cmpq    (%rsp), %r11
        cmoveq  %rcx, %r11              // wrap
        subq    $16, %rdx
        jne     .Lprobe
        movq    .Loverflow_count(%rip), %rax
        lock incq (%rax)
        movq    .Loverflow_block(%rip), %r11
        jmp     .Lout
.Lfound:
        movq    8(%r11), %r11
.Lout:
        addq    $8, %rsp
        popq    %rdx
        popq    %rcx
        popq    %rax
        ret
// mdl_resident_exit: called at the entry of _exit. Tells the injector that the process ends and
// waits until it has read the last values, at most kPauses pauses (some 20 to 100 ms): nobody may be
// there any more. Only in the process that was instrumented: a forked child goes on at once.
// Keeps all registers and flags. The one system call is getpid; targets with a seccomp
// filter do not get this routine.
        .equ    kPauses, 2000000
        .p2align 4
mdl_resident_exit:
        pushfq
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %r11                    // lost in system calls, like rcx
        movl    $39, %eax               // getpid
        syscall
        cmpl    .Lpid(%rip), %eax
        jne     .Lgo_on
        movq    .Lexit_words(%rip), %rdx
        cmpq    $0, 16(%rdx)            // is somebody waiting for it?
        je      .Lgo_on
        movq    $1, (%rdx)              // we are here
        movl    $kPauses, %ecx
.Lwait:
        cmpq    $0, 8(%rdx)             // read
        jne     .Lgo_on
        pause
        decl    %ecx
        jne     .Lwait
.Lgo_on:
        popq    %r11
        popq    %rdx
        popq    %rcx
        popq    %rax
        popfq
        ret
// mdl_resident_catch, mdl_resident_jump: called at the entries of __cxa_begin_catch and longjmp. Frames
// below a limit on this stack have vanished without a return; flags whose outermost frame is one
// of them are lowered and counted as anomalies. "On this stack" means within kStack below the limit:
// frames of another stack (a signal stack, a coroutine) are farther away, or left alone.
        .equ    kStack, 64 << 20
        .equ    kHash, 0x1e35a7bd       // as in trampoline.cpp
        .equ    kHashShift, 28
        .macro  save
        pushfq
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %r10
        pushq   %r11
        .endm
        .p2align 4
mdl_resident_catch:
        save
        leaq    64(%rsp), %rax          // over what was saved, our return address and the one of the hooked call
        jmp     .Lvanish
        .p2align 4
mdl_resident_jump:
        save
        movq    48(%rdi), %rax          // glibc and musl: jmp_buf[6] is the stack pointer
        movq    %rax, %rcx
        rorq    $17, %rcx               // glibc's PTR_DEMANGLE
        xorq    %fs:0x30, %rcx
        movq    %rcx, %rdx
        subq    %rsp, %rdx
        cmpq    $kStack, %rdx
        cmovbq  %rcx, %rax
        movq    %rax, %rdx
        subq    %rsp, %rdx
        cmpq    $kStack, %rdx
        jae     .Lkept                  // a jump to another stack
.Lvanish:                               // rax: the limit
        movq    %fs:0, %r10
        imulq   $kHash, %r10, %r11
        shrq    $kHashShift, %r11
        movq    .Ldirectory_bytes(%rip), %rcx
        subq    $16, %rcx
        andq    %rcx, %r11
        addq    .Ldirectory(%rip), %r11
        call    mdl_resident_begin      // the thread's block
        movq    .Lflags(%rip), %rcx
        addq    %r11, %rcx
        movq    .Lflag_bytes(%rip), %rdx
        addq    %rcx, %rdx
.Lflag:
        cmpq    %rdx, %rcx
        jae     .Lflags_done
        cmpq    $0, (%rcx)
        je      .Lnext_flag
        movq    8(%rcx), %r10
        subq    %rax, %r10
        jns     .Lnext_flag             // not below the limit: alive
        cmpq    $-kStack, %r10
        jl      .Lnext_flag             // another stack's
        movq    $0, (%rcx)
        incq    (%r11)                  // the block's anomalies
.Lnext_flag:
        addq    $16, %rcx
        jmp     .Lflag
.Lflags_done:
        call    .Lclose_spans
.Lkept:
        popq    %r11
        popq    %r10
        popq    %rdx
        popq    %rcx
        popq    %rax
        popfq
        ret
#include "runtime/arch/x86_64/resident_vectors.inc"
        .p2align 3
mdl_resident_parameters:                // filled when the code is injected
.Ldirectory:            .quad 0
.Ldirectory_bytes:      .quad 0
.Loverflow_block:       .quad 0
.Loverflow_count:       .quad 0
.Lexit_words:           .quad 0
.Lpid:                  .quad 0
.Lflags:                .quad 0
.Lflag_bytes:           .quad 0
.Lspans:                .quad 0         // from mdl_resident_begin
.Lspan_bytes:           .quad 0
mdl_resident_end:
        .section .note.GNU-stack,"",@progbits
