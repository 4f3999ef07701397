// Resident code: what trampolines call, because it is not the fast path or because a stencil may not
// do it itself. It lives in the target, is position independent (its parameters stand behind it and
// are read relative to rip) and freestanding: nothing of the target is called, but by mdl_routine_call.
//
// Everything here keeps all registers but those that it says, and leaves the area below the stack
// pointer alone where that may be alive: trampolines see to that.
#include "runtime/arch/target_data.h"

        .text
        .globl  mdl_resident_begin
        .globl  mdl_resident_exit
        .globl  mdl_resident_exec
        .globl  mdl_resident_prctl
        .globl  mdl_resident_syscall
        .globl  mdl_resident_clone
        .globl  mdl_resident_catch
        .globl  mdl_resident_jump
        .globl  mdl_resident_thread_end
        .globl  mdl_resident_vfork
        .globl  mdl_resident_spawn
        .globl  mdl_resident_landing
        .globl  mdl_resident_cpu
        .globl  mdl_resident_cpu_clock
        .globl  mdl_resident_clock_behind
        .globl  mdl_resident_event
        .globl  mdl_resident_now
        .globl  mdl_resident_error
        .globl  mdl_resident_read
        .globl  mdl_resident_call
        .globl  mdl_resident_observe
        .globl  mdl_resident_least
        .globl  mdl_resident_largest
        .globl  mdl_resident_mean
        .globl  mdl_resident_enter
        .globl  mdl_resident_kept
        .globl  mdl_resident_elapsed
        .globl  mdl_resident_stayed
        .globl  mdl_resident_pause
        .globl  mdl_resident_resume
        .globl  mdl_resident_parameters
        .globl  mdl_resident_keys
        .globl  mdl_resident_span
        .globl  mdl_resident_defer
        .globl  mdl_resident_end_deferred
        .globl  mdl_resident_end
        .equ    kHash, 0x1e35a7bd       // as in trampoline.cpp
        .equ    kHashShift, 28
        .equ    kStack, 64 << 20
        .equ    kContextCfa, 0x90       // in libgcc's struct _Unwind_Context (hooked_code.cpp)
        .equ    kSpawnFrame, 64 << 10   // what posix_spawn may take of its caller's stack
        .equ    kEfault, 14
        // System calls (asm/unistd_64.h)
        .equ    kRtSigprocmask, 14
        .equ    kNanosleep, 35
        .equ    kGetpid, 39
        .equ    kReadlink, 89
        .equ    kGetrusage, 98
        .equ    kPrctl, 157
        .equ    kGettid, 186
        .equ    kClockGettime, 228
        .equ    kExitGroup, 231
        .equ    kProcessVmReadv, 310
        .equ    kSeccomp, 317

        // A call of our own. Its return address does not stay on the stack, where it would be found in a
        // local variable that is not set yet, and taken for a frame of ours by who has no frame information.
        .macro  callown routine
        call    \routine
        movq    $0, -8(%rsp)
        .endm
        .macro  save
        pushfq
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %r10
        pushq   %r11
        .endm
        .macro  restore
        popq    %r11
        popq    %r10
        popq    %rdx
        popq    %rcx
        popq    %rax
        popfq
        .endm
        // Goes on at \instead, and keeps in mind that it did, where the process has put itself under a seccomp filter
        // since the insertion, or the like: that may end it at a system call of ours. \scratch and the flags are lost
        .macro  without_calls scratch, instead
        movq    .Lheader(%rip), \scratch
        cmpq    $0, kHeaderConfined(\scratch)
        je      .Lmay_call\@
        lock addq $kCallLeftOut, kHeaderConfined(\scratch)
        jmp     \instead
.Lmay_call\@:
        .endm
        // r10: the thread pointer, r11: its home slot, rcx, rax: the directory's begin and end, rdx: its bytes
        .macro  find_home
        movq    %fs:0, %r10
        imulq   $kHash, %r10, %r11
        shrq    $kHashShift, %r11
        movq    .Ldirectory(%rip), %rcx
        movq    .Ldirectory_bytes(%rip), %rdx
        leaq    -16(%rdx), %rax
        andq    %rax, %r11
        addq    %rcx, %r11              // the home slot
        leaq    (%rcx,%rdx), %rax
        .endm

        // The bucket of \value in a histogram, in its place; rcx is lost. \half: the register's lower half
        .macro  bucket_of value, half
        xorl    %ecx, %ecx
        testq   \value, \value
        cmovsq  %rcx, \value
        cmpq    $1 << kHistogramShift, \value
        jb      .Lbucket\@              // one for each value
        bsrq    \value, %rcx            // the power of two
        cmpl    $kHistogramTop, %ecx
        jb      .Lpower\@
        movl    $((kHistogramTop - kHistogramShift + 1) << kHistogramShift) - 1, \half
        jmp     .Lbucket\@
.Lpower\@:
        subl    $kHistogramShift, %ecx
        shrq    %cl, \value
        shll    $kHistogramShift, %ecx
        addq    %rcx, \value
.Lbucket\@:
        .endm

// mdl_resident_begin: the slow path of the search for the calling thread's block.
//   out: r11 the thread's block; the flags are lost, all else is kept
// Slots are {thread pointer, block} pairs; a free one has thread pointer 0. All blocks are
// there from the start, so claiming a slot is one compare-and-swap and nothing has to be
// published afterwards: a signal handler that runs this on the same thread in between
// finds either a free slot or its own. The search ends after one round: then the thread
// shares the overflow block, and the reader knows that from the counter.
//
// A thread pointer is used again when its thread has ended. Where it matters who a thread is, its id
// stands at kBlockThread in the block and at .Lthread_at behind the thread pointer (its libc keeps it there).
// When they differ, the ended thread's block is put aside and made ready for the new one.
        .p2align 4
mdl_resident_begin:
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %r10
        find_home
        pushq   %rax
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
        movq    .Lheader(%rip), %rax
        lock incq kHeaderOverflow(%rax)
.Lshared:
        movq    .Loverflow_block(%rip), %r11
        jmp     .Lout
.Lfound:
        movq    8(%r11), %r11
        movq    .Lthread_at(%rip), %rax
        testq   %rax, %rax
        je      .Lask
        movl    %fs:(%rax), %eax
        cmpq    %rax, kBlockThread(%r11)
        je      .Lout
        cmpq    $0, .Lnews(%rip)
        je      .Ladmitted
        callown mdl_resident_admission
        cmpq    %rax, kBlockThread(%r11)     // the injector may have made it ready
        je      .Lout
.Ladmitted:
        cmpq    $0, kBlockThread(%r11)
        je      .Lset
        without_calls %rcx, .Lshared
        callown mdl_resident_renew
        jmp     .Lout
.Lask:
        cmpq    $0, kBlockThread(%r11)
        jne     .Lout
        without_calls %rax, .Lshared
        movq    %r11, %r10
        movl    $kGettid, %eax
        syscall                         // loses rcx and r11
        movq    %r10, %r11
.Lset:
        movq    %rax, kBlockThread(%r11)
.Lout:
        addq    $8, %rsp
        popq    %r10
        popq    %rdx
        popq    %rcx
        popq    %rax
        ret

#include "runtime/arch/x86_64/resident_forks.inc"

// Puts an ended thread's block aside and clears it for its new owner.
//   in: r11 the block, rax the new thread's id; keeps r11; rax, rcx, rdx, r10 and the flags are lost
// The copy goes to the ring of ended threads, which the injector empties; its number is written last.
// When the ring is full, what can be added up is added to the block of the ended. Signals are blocked
// meanwhile, because a handler of this thread would do the same again.
mdl_resident_renew:
        pushq   %rsi
        pushq   %rdi
        pushq   %r8
        pushq   %r9
        pushfq
        cld
        movq    %r11, %r8
        movq    %rax, %r9
        pushq   $-1                     // all signals
        pushq   $0                      // those that are blocked now
        movl    $2, %edi                // SIG_SETMASK
        leaq    8(%rsp), %rsi
        movq    %rsp, %rdx
        callown .Lsignals
        cmpq    %r9, kBlockThread(%r8)
        je      .Lrenewed               // a handler has done it
        movq    %r8, %r11
        callown .Lend_keys
        leaq    kBlockHeader(%r8), %rax // no frame of it is left: its flags are down, its spans closed
        movq    .Ltimers(%rip), %rdx
        addq    %r8, %rdx
.Llower:
        cmpq    %rdx, %rax
        jae     .Llowered
        movq    $0, (%rax)
        addq    $16, %rax
        jmp     .Llower
.Llowered:
        movq    %r8, %r11
        callown .Lend_spans
        callown .Lclose_spans
        movq    .Lheader(%rip), %rdx
.Lreserve:
        movq    kHeaderEnded(%rdx), %rax
        movq    .Ltaken_block(%rip), %rdi
        movq    %rax, %rcx
        subq    kBlockSequence(%rdi), %rcx   // how many the injector has taken
        cmpq    .Lended(%rip), %rcx
        jae     .Lfull
        leaq    1(%rax), %rcx
        lock cmpxchgq %rcx, kHeaderEnded(%rdx)
        jne     .Lreserve               // another thread got it
        movq    %rax, %r10
        movq    .Lended(%rip), %rdi     // a power of two
        decq    %rdi
        andq    %rax, %rdi
        movq    .Lstride(%rip), %rcx
        imulq   %rcx, %rdi
        addq    .Lring(%rip), %rdi
        movq    %rdi, %rdx
        movq    %r8, %rsi
        shrq    $3, %rcx
        rep movsq
        movq    %r8, kBlockOrigin(%rdx)
        incq    %r10
        movq    %r10, kBlockSequence(%rdx)
        jmp     .Lclear
.Lfull:
        lock incq kHeaderDropped(%rdx)
        movq    .Lended_block(%rip), %rdi
        movq    (%r8), %rax
        lock addq %rax, (%rdi)          // anomalies
        movq    kBlockTaken(%r8), %rax
        subq    kBlockAway(%r8), %rax
        lock addq %rax, kBlockTaken(%rdi)
        movq    .Ltimers(%rip), %rcx
.Ladd_timer:
        cmpq    .Lcalls(%rip), %rcx
        jae     .Ladd
        movq    (%r8,%rcx), %rax
        testq   %rax, %rax
        js      .Lruns                  // nobody can say for how long it ran
        lock addq %rax, (%rdi,%rcx)
.Lruns:
        addq    $32, %rcx
        jmp     .Ladd_timer
.Ladd:
        movq    .Lsums(%rip), %rcx
.Ladd_sum:
        cmpq    .Lcells_end(%rip), %rcx
        jae     .Ladd_extreme
        movq    (%r8,%rcx), %rax
        testq   %rax, %rax
        jz      .Lno_sum                // most words of a histogram
        lock addq %rax, (%rdi,%rcx)
.Lno_sum:
        addq    $8, %rcx
        jmp     .Ladd_sum
.Ladd_extreme:
        cmpq    .Lextremes_end(%rip), %rcx
        jae     .Lclear
        movq    (%r8,%rcx), %rax
        lock addq %rax, (%rdi,%rcx)     // how many
        movq    8(%r8,%rcx), %rsi
        movq    8(%rdi,%rcx), %rax
.Lis_more_extreme:
        cmpq    %rax, %rsi
        jbe     .Lnext_extreme
        lock cmpxchgq %rsi, 8(%rdi,%rcx)
        jne     .Lis_more_extreme
.Lnext_extreme:
        addq    $16, %rcx
        jmp     .Ladd_extreme
.Lclear:
        movq    $-1, kBlockThread(%r8)
        xorl    %eax, %eax
        movq    %rax, (%r8)
        .set    at, kBlockThread + 8
        .rept   (kBlockHeader - kBlockThread) / 8 - 1
        movq    %rax, at(%r8)
        .set    at, at + 8
        .endr
        leaq    kBlockHeader(%r8), %rdi
        movq    .Lstride(%rip), %rcx
        subq    $kBlockHeader, %rcx
        shrq    $3, %rcx
        rep stosq
        movq    %r9, kBlockThread(%r8)
.Lrenewed:
        movl    $2, %edi
        movq    %rsp, %rsi
        xorl    %edx, %edx
        callown .Lsignals
        addq    $16, %rsp
        movq    %r8, %r11
        popfq
        popq    %r9
        popq    %r8
        popq    %rdi
        popq    %rsi
        ret
.Lsignals:                              // rt_sigprocmask(rdi, rsi, rdx, 8)
        movl    $8, %r10d
        movl    $kRtSigprocmask, %eax
        syscall
        ret

// mdl_resident_exit: called at the entry of _exit, and of syscall for an exit_group. Tells the injector that
// the process ends and waits until it has read the last values, at most kPauses pauses, or as long as it lives
// where forks are followed: nobody may be there any more. Only in the process whose data these are: a forked
// child that is not measured goes on at once. Keeps all registers and flags.
        .p2align 4
mdl_resident_exit:
        save                            // rcx and r11 are lost in system calls
        tell_end
        restore
        ret

// mdl_resident_catch, mdl_resident_jump: called at the entries of __cxa_begin_catch and longjmp. Frames
// below a limit on this stack have vanished without a return. Flags and timers whose outermost frame is
// one of them are lowered and stopped, calls into the application that will not come back are forgotten;
// each is an anomaly, counted with the flag or timer (resident/layout.h). "On this stack" means within
// kStack below the limit: frames of another stack (a signal stack, a coroutine) are farther away, or
// left alone. Keep all registers and flags.
// mdl_resident_landing: called at the entry of _Unwind_SetIP(context, address), where it is decided that the frame of
// the context goes on at a landing pad: frames below that one have vanished.
// mdl_resident_vfork, mdl_resident_spawn: called at the returns of these, where their child has executed a program or
// ended. It ran with the thread pointer of this thread, so its frames were this thread's. A child of vfork had this
// stack; one of posix_spawn had its own, which is gone by then (glibc) or was a part of posix_spawn's frame (musl).
        // Goes on at `alive` unless the frame at \where has vanished; rax: the limit, r10 is lost
        .macro  skip_if_alive where, alive
        movq    \where, %r10
        callown .Lis_alive
        jc      \alive
        .endm
// CF: the frame r10 is alive, as the limit rax says; r10 is lost. An odd limit is that of posix_spawn, one more.
.Lis_alive:
        subq    %rax, %r10
        testb   $1, %al
        jnz     .Lafter_spawn
        testq   %r10, %r10
        jns     .Lstays                 // not below the limit
        cmpq    $-kStack, %r10
        jl      .Lstays                 // another stack's
.Lis_gone:
        clc
        ret
.Lstays:
        stc
        ret
.Lafter_spawn:
        cmpq    $-kSpawnFrame, %r10
        jl      .Lis_mapped
        cmpq    $-1, %r10
        jl      .Lis_gone
.Lis_mapped:                            // rt_sigprocmask(kNoMaskChange, frame, 0, 8) reads it, and does nothing
        addq    %rax, %r10
        pushq   %rcx
        without_calls %rcx, .Lnot_asked
        pushq   %rax
        pushq   %rdx
        pushq   %rsi
        pushq   %rdi
        pushq   %r11
        movl    $kNoMaskChange, %edi
        movq    %r10, %rsi
        xorl    %edx, %edx
        callown .Lsignals
        cmpq    $-kEfault, %rax
        popq    %r11
        popq    %rdi
        popq    %rsi
        popq    %rdx
        popq    %rax
        popq    %rcx
        je      .Lis_gone
        jmp     .Lstays
.Lnot_asked:
        popq    %rcx
        jmp     .Lstays
        .p2align 4
mdl_resident_catch:
        save
        leaq    64(%rsp), %rax          // over what was saved, our return address and the one of the hooked call
        jmp     .Lvanish
        .p2align 4
mdl_resident_landing:
        save
        movq    kContextCfa(%rdi), %rax // of what the frame has called: the stack pointer that it had there
        movq    %rax, %rdx
        subq    %rsp, %rdx
        cmpq    $kStack, %rdx
        jae     .Lkept                  // on another stack
        jmp     .Lvanish
        .p2align 4
mdl_resident_vfork:
        save
        testl   %eax, %eax
        jle     .Lkept                  // the child, or nothing was begun
        leaq    64(%rsp), %rax
        jmp     .Lvanish
        .p2align 4
mdl_resident_spawn:
        save
        leaq    65(%rsp), %rax          // odd: .Lis_alive
        jmp     .Lvanish
        .p2align 4
mdl_resident_thread_end:                // the same where a thread ends, if it has a block; else it gets none
        save
        find_home
.Lprobe_own:
        cmpq    %r10, (%r11)
        je      .Lfound_own
        cmpq    $0, (%r11)
        je      .Lkept
        addq    $16, %r11
        cmpq    %rax, %r11
        cmoveq  %rcx, %r11              // wrap
        subq    $16, %rdx
        jne     .Lprobe_own
        jmp     .Lkept
.Lfound_own:
        movq    8(%r11), %r11
        movq    .Lthread_at(%rip), %rax
        testq   %rax, %rax
        je      .Lis_own
        movl    %fs:(%rax), %eax
        cmpq    %rax, kBlockThread(%r11)
        jne     .Lkept                  // an ended thread's, whose pointer this one has
.Lis_own:
        leaq    64(%rsp), %rax
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
        callown mdl_resident_begin      // the thread's block
        callown .Lhit_begins
        leaq    kBlockHeader(%r11), %rcx
        movq    .Ltimers(%rip), %rdx
        addq    %r11, %rdx
.Lflag:
        cmpq    %rdx, %rcx
        jae     .Lflags_done
        cmpq    $0, (%rcx)
        je      .Lnext_flag
        skip_if_alive 8(%rcx), .Lnext_flag
        movq    $0, (%rcx)
        movq    .Lanomalies(%rip), %r10
        testq   %r10, %r10
        je      .Lflag_of_nobody
        incq    -kBlockHeader(%r10,%rcx) // the flag's own: 16 bytes for each, like flags
        jmp     .Lnext_flag
.Lflag_of_nobody:
        incq    (%r11)                  // the block's anomalies
.Lnext_flag:
        addq    $16, %rcx
        jmp     .Lflag
.Lflags_done:
        pushq   %rax
        pushq   %rcx
        callown .Lvanished_keys
        callown .Lclose_spans
        popq    %rcx
        popq    %rax
        movq    .Lcalls(%rip), %rdx
        addq    %r11, %rdx
        leaq    .Ltimer_clocks(%rip), %r10
        pushq   %r10
.Ltimer:
        cmpq    %rdx, %rcx
        jae     .Ltimers_done
        cmpq    $0, 8(%rcx)             // its depth
        je      .Lnext_timer
        skip_if_alive 16(%rcx), .Lnext_timer
        movq    $0, 8(%rcx)
        movq    (%rsp), %r10
        movq    (%r10), %r10
        callown .Lclock
        addq    %r10, (%rcx)
        cmpq    $0, .Lanomalies(%rip)
        je      .Ltimer_of_nobody
        movq    %rcx, %r10              // 16 bytes for each, behind those of the flags; a timer has 32
        subq    %r11, %r10
        subq    .Ltimers(%rip), %r10
        shrq    $1, %r10
        addq    .Ltimers(%rip), %r10
        addq    .Lanomalies(%rip), %r10
        incq    -kBlockHeader(%r11,%r10)
        jmp     .Lnext_timer
.Ltimer_of_nobody:
        incq    (%r11)
.Lnext_timer:
        addq    $8, (%rsp)
        addq    $32, %rcx
        jmp     .Ltimer
.Ltimers_done:
        popq    %r10
        movq    .Lsums(%rip), %rdx
        addq    %r11, %rdx
.Lcall:
        cmpq    %rdx, %rcx
        jae     .Lvanished
        cmpq    $0, (%rcx)              // busy: the stack pointer in mdl_resident_call, once that is reached
        je      .Lnext_call
        skip_if_alive (%rcx), .Lnext_call
        movq    $0, (%rcx)
        incq    (%r11)
.Lnext_call:
        addq    $64, %rcx
        jmp     .Lcall
.Lvanished:
        callown .Lhit_ends
.Lkept:
        restore
        ret
#include "runtime/arch/x86_64/resident_vectors.inc"
#include "runtime/arch/x86_64/resident_deferred.inc"

#include "runtime/arch/x86_64/resident_clocks.inc"
#include "runtime/arch/x86_64/resident_entries.inc"

// The clock r10: -1 wall, -2 CPU time, else the number of an event. In: r11 the block; out: r10.
.Lclock:
        cmpq    $0, .Lns_per_tick(%rip)
        jne     .Lown_clock
        cmpq    $-2, %r10
        je      mdl_resident_cpu
        cmpq    $-1, %r10
        jne     mdl_resident_event
        pushq   %rax
        pushq   %rdx
        rdtsc
        shlq    $32, %rdx
        leaq    (%rdx,%rax), %r10
        popq    %rdx
        popq    %rax
        ret

// The routines of stencils (format/kinds.h). In and out: r10; the flags are lost, all else is kept.
// Counts are larger than anything accrued: 2^56 is added.
        .macro  enter_call_of_kernel
        pushq   %rax
        pushq   %rcx
        pushq   %rsi
        pushq   %rdi
        pushq   %r11
        .endm
        .macro  leave_call_of_kernel
        popq    %r11
        popq    %rdi
        popq    %rsi
        popq    %rcx
        popq    %rax
        .endm
        .macro  read_kernels_clock number
        without_calls %r10, .Lno_clock
        enter_call_of_kernel
        subq    $16, %rsp
        movl    $\number, %edi
        movq    %rsp, %rsi
        movl    $kClockGettime, %eax
        syscall
        imulq   $1000000000, (%rsp), %r10
        addq    8(%rsp), %r10
        addq    $16, %rsp
        leave_call_of_kernel
        .endm
.Lnap:                                  // nanosleep({0, 100000}, 0), or as long awake; the flags are lost
        pushq   %rdx
        movq    .Lheader(%rip), %rdx
        cmpq    $0, kHeaderConfined(%rdx)
        popq    %rdx
        jne     .Lstay_awake
        enter_call_of_kernel
        pushq   $kNapNs
        pushq   $0
        movq    %rsp, %rdi
        xorl    %esi, %esi
        movl    $kNanosleep, %eax
        syscall
        addq    $16, %rsp
        leave_call_of_kernel
        ret
.Lstay_awake:
        pushq   %rcx
        movl    $kPausesOfNap, %ecx
.Lone_pause:
        pause
        decl    %ecx
        jne     .Lone_pause
        popq    %rcx
        ret
.Lno_clock:
        xorl    %r10d, %r10d
        ret
        .p2align 4
mdl_resident_cpu:                       // clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        read_kernels_clock 3
        btsq    $56, %r10
        ret
        .p2align 4
mdl_resident_now:                       // clock_gettime(CLOCK_MONOTONIC, &time)
        read_kernels_clock 1
        ret
        .p2align 4
mdl_resident_error:                     // 0 in a thread that the C library has not made
        movq    %fs:0, %r10
        cmpq    %r10, %fs:16            // its control block: tcb and self (glibc's tcbhead_t)
        jne     .Lno_errno
        addq    .Lerrno_at(%rip), %r10
        movslq  (%r10), %r10
        ret
.Lno_errno:
        xorl    %r10d, %r10d
        ret
        .p2align 4
mdl_resident_event:                     // getrusage(RUSAGE_THREAD, &usage)
        enter_call_of_kernel
        subq    $144, %rsp
        xorl    %eax, %eax
        without_calls %rsi, .Lno_event
        movl    $1, %edi
        movq    %rsp, %rsi
        movl    $kGetrusage, %eax
        syscall
        xorl    %eax, %eax
        cmpq    .Levent_count(%rip), %r10
        jae     .Lno_event
        leaq    .Levents(%rip), %rax
        movq    (%rax,%r10,8), %rax     // where in the structure; in the upper half, where a second one is
        movl    %eax, %r10d
        movq    (%rsp,%r10), %r10
        shrq    $32, %rax
        jz      .Lone_count
        addq    (%rsp,%rax), %r10
.Lone_count:
        movq    %r10, %rax
.Lno_event:
        btsq    $56, %rax
        movq    %rax, %r10
        addq    $144, %rsp
        leave_call_of_kernel
        ret
        .p2align 4
mdl_resident_read:                      // process_vm_readv(gettid(), {&word, 8}, 1, {address, 8}, 1, 0)
        enter_call_of_kernel            // by the thread's id: a forked child must not read its parent
        pushq   %rdx
        pushq   %r8
        pushq   %r9
        pushq   $8                      // remote
        pushq   %r10
        pushq   $8                      // local
        leaq    -16(%rsp), %rax
        pushq   %rax
        pushq   $0                      // the word
        xorl    %eax, %eax
        without_calls %rcx, .Lnot_read
        movl    $kGettid, %eax
        syscall
        movl    %eax, %edi
        leaq    8(%rsp), %rsi
        movl    $1, %edx
        leaq    24(%rsp), %r10
        movl    $1, %r8d
        xorl    %r9d, %r9d
        movl    $kProcessVmReadv, %eax
        syscall
.Lnot_read:
        popq    %r10
        addq    $32, %rsp
        xorl    %edx, %edx
        cmpq    $8, %rax
        cmovneq %rdx, %r10
        popq    %r9
        popq    %r8
        popq    %rdx
        leave_call_of_kernel
        ret
// A call into the application, by a call cell {busy, function, 6 arguments}. State that the calling
// convention lets a function change and a place in the middle of other code may still need is kept: general
// registers, and all of the vector, mask, x87 and control state (XSAVE, or FXSAVE where the kernel has not
// enabled it).
        .p2align 4
mdl_resident_call:
        pushq   %rbp
        movq    %rsp, %rbp
        pushfq
        cld
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        pushq   %rdi
        pushq   %r8
        pushq   %r9
        pushq   %r11
        movq    %rsp, (%r10)            // busy, and where: mdl_resident_jump
        subq    .Lstate_bytes(%rip), %rsp
        andq    $-64, %rsp
        cmpb    $0, .Lxsave(%rip)
        je      .Lfxsave
        xorl    %eax, %eax
        .set    at, 512                 // XSAVE needs the header of its area clear (SDM volume 1, 13.7)
        .rept   8
        movq    %rax, at(%rsp)
        .set    at, at + 8
        .endr
        movl    $-1, %eax
        movl    $-1, %edx
        xsave64 (%rsp)
        jmp     .Lsaved
.Lfxsave:
        fxsave64 (%rsp)
.Lsaved:
        emms                            // a function begins with an empty x87 stack
        movq    %r10, %rax
        movq    16(%rax), %rdi
        movq    24(%rax), %rsi
        movq    32(%rax), %rdx
        movq    40(%rax), %rcx
        movq    48(%rax), %r8
        movq    56(%rax), %r9
        movq    8(%rax), %r11
        xorl    %eax, %eax              // no vector arguments, for a variadic function
        call    *%r11
        movq    %rax, %r10
        cmpb    $0, .Lxsave(%rip)
        je      .Lfxrstor
        movl    $-1, %eax
        movl    $-1, %edx
        xrstor64 (%rsp)
        jmp     .Lrestored
.Lfxrstor:
        fxrstor64 (%rsp)
.Lrestored:
        leaq    -72(%rbp), %rsp
        popq    %r11
        popq    %r9
        popq    %r8
        popq    %rdi
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        popfq
        popq    %rbp
        ret

// The histogram at rax observes r10. Each word is changed by one instruction, so a signal handler that observes
// in between loses nothing.
        .p2align 4
mdl_resident_observe:
        addq    %r10, (%rax)
        pushq   %rcx
        bucket_of %r10, %r10d
        popq    %rcx
        incq    kHistogramCounts(%rax,%r10,8)
        ret

// The minimum, or the maximum, at rax observes r10 (format/kinds.h). A signal handler that observes in between
// loses nothing.
        .p2align 4
mdl_resident_least:
        notq    %r10
mdl_resident_largest:
        btcq    $63, %r10
        pushq   %rax
        pushq   %rcx
        movq    %rax, %rcx
        movq    8(%rcx), %rax
.Lextreme:
        cmpq    %rax, %r10
        jbe     .Lextreme_known
        cmpxchgq %r10, 8(%rcx)
        jne     .Lextreme
.Lextreme_known:
        incq    (%rcx)
        popq    %rcx
        popq    %rax
        ret

// The average at rax observes r10.
        .p2align 4
mdl_resident_mean:
        addq    %r10, (%rax)
        incq    8(%rax)
        ret

        .p2align 3
mdl_resident_parameters:                // filled when the code is injected: arch::ResidentParameters, in its order
.Lheader:               .quad 0
.Ldirectory:            .quad 0
.Ldirectory_bytes:      .quad 0
.Loverflow_block:       .quad 0
.Lended_block:          .quad 0
.Ltaken_block:          .quad 0
.Lring:                 .quad 0
.Lended:                .quad 0
.Lstride:               .quad 0
.Ltimers:               .quad 0
.Lcalls:                .quad 0
.Lsums:                 .quad 0
.Lcells_end:            .quad 0
.Lextremes_end:         .quad 0
.Lnews:                 .quad 0         // 0: forks are not followed
.Lthread_at:            .quad 0
.Lrunning:              .quad 0
.Lstate_bytes:          .quad 0
.Lxsave:                .quad 0
.Lspans:                .quad 0         // from mdl_resident_begin
.Lspan_bytes:           .quad 0
.Ltables:               .quad 0         // from mdl_resident_begin
.Ltable_bytes:          .quad 0
.Ldeferred:             .quad 0
.Lanomalies:            .quad 0         // 0: they are counted in the block's header only
.Lns_per_tick:          .quad 0         // of the counter, times 2^32; 0: hit times are not kept
.Lduration_scale:       .quad 0         // nanoseconds of a tick, times 2^32
.Lerrno_at:             .quad 0         // from the thread pointer
.Levent_count:          .quad 0
.Levents:               .fill 16, 8, 0
.Ltimer_clocks:                         // one for each timer, as .Lclock wants it
mdl_resident_end:
        .section .note.GNU-stack,"",@progbits
