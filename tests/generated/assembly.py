"""Functions written in assembly, as no compiler makes them: short ones, ends that two share, code before the entry, bytes that are no code.

Each takes an unsigned long in %rdi and returns one in %rax. {f} is its name, {g} that of another function. Those who call it count for it.
"""

BODIES = (
    "lea 1(%rdi), %rax; ret",
    "mov %edi, %eax; ret",
    "mov %rdi, %rax; rep; ret",
    "xor %eax, %eax; ret $0",
    "test %rdi, %rdi; je 1f; lea 3(%rdi), %rax; ret; 1: mov $5, %eax; ret",
    "mov %rdi, %rax; and $15, %edi; 1: inc %rax; dec %edi; jns 1b; ret",
    "mov $3, %ecx; mov %rdi, %rax; 1: inc %rax; loop 1b; ret",
    "mov %rdi, %rax; xor %ecx, %ecx; jrcxz 1f; inc %rax; 1: ret",
    "8: inc %rdi; test $7, %dil; jne 8b; mov %rdi, %rax; ret",  # its entry is a loop's head
    "mov %rdi, %rax; pop %rcx; jmp *%rcx",  # a return that is a jump
    "lea 1f(%rip), %rax; jmp *%rax; ud2; 1: mov %rdi, %rax; ret",
    "lea 1f(%rip), %rax; push %rax; ret; 1: mov %rdi, %rax; ret",  # a jump that is a return
    "lea 1f(%rip), %rax; call 2f; 3: pause; jmp 3b; 2: mov %rax, (%rsp); ret; 1: mov %rdi, %rax; ret",  # likewise, as retpolines do it
    "mov %rdi, %rax; jmp 1f; .byte 0xe8; 1: ret; .byte 0x48, 0x8b",
    "test $1, %dil; jne {f}_end; lea 9(%rdi), %rax; ret; .globl {f}_other; {f}_other: add $2, %rdi; {f}_end: lea 4(%rdi), %rax; ret",
    "inc %rdi; .globl {f}_next; .type {f}_next, @function; {f}_next: lea 2(%rdi), %rax; ret",  # it runs on into the next one
    "call 1f; 1: pop %rax; mov %rdi, %rax; ret",
    "push %rbp; mov %rsp, %rbp; mov %rdi, %rax; leave; ret",
    "lea 4(%rdi), %rax; .byte 0xf3, 0x0f, 0x1e, 0xfa; ret",  # a landing instruction in the middle
    "enter $16, $0; mov %rdi, -8(%rbp); mov -8(%rbp), %rax; leave; ret",
    "mov %rdi, -8(%rsp); test $3, %dil; je 1f; inc %rdi; 1: mov -8(%rsp), %rax; add %rdi, %rax; ret",  # the red zone
)

CALLING = (
    "jmp {g}@PLT",
    "sub $8, %rsp; call {g}@PLT; add $8, %rsp; ret",
    "push %rbx; mov %rdi, %rbx; call {g}@PLT; add %rbx, %rax; pop %rbx; ret",
    "test $1, %dil; jne {g}@PLT; mov %rdi, %rax; ret",
    "mov %rdi, %rax; test $2, %dil; je 1f; ret; 1: jmp {g}@PLT",
    "mov {g}@GOTPCREL(%rip), %rax; jmp *%rax",
    "push %rdi; call {g}@PLT; pop %rdi; test $1, %al; je 1f; call {f}_inner; 1: ret; {f}_inner: lea 1(%rax), %rax; ret",
    "push {g}@GOTPCREL(%rip); ret",
)

# What stands before the entry: nothing, cold code, or bytes.
BEFORE = ("", "", "{f}_cold: call abort@PLT; {begin}", ".byte 0xe9, 0x0f; {begin}", ".p2align 4; {begin}", "{f}_cold: ud2; .p2align 4; {begin}",
          "{f}_cold: call abort@PLT; .p2align 4; {begin}")
TO_COLD = "mov zero@GOTPCREL(%rip), %rcx; cmpq $0, (%rcx); jne {f}_cold; "


def text(name, one):
    """The assembly of the function `name`, as a statement of C; `one` is what its body says."""
    body = "mov %rdi, %rax; ret"
    if one:
        body = CALLING[one["which"] % len(CALLING)] if "callee" in one else BODIES[one["which"] % len(BODIES)]
    begin = ".globl {f}; .type {f}, @function; {f}: "
    before = BEFORE[one["before"] % len(BEFORE)] if one else ""
    if "_cold" in before:
        body = (TO_COLD if one["which"] % 2 else "") + body
    begin += ".cfi_startproc; " if one and one["frames"] else ""
    lines = (before.replace("{begin}", begin) if before else begin) + body
    lines += "; .cfi_endproc" if one and one["frames"] else ""
    lines += "; .size {f}, .-{f}"
    lines = ".text; " + lines
    lines = lines.replace("{f}", name).replace("{g}", one.get("callee", "") if one else "")
    return 'asm("' + lines.replace("; ", "\\n\\t") + '");'
