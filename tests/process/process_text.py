"""What is executable in a process, from outside and without stopping it.

Used by the live tests, scripts/demo and scripts/soak to prove that a process is what it
was before: the same executable mappings, with the same bytes, and no mapping of ours.

    process_text.py digest PID    one line a mapping: SHA-256, range, name
    process_text.py leftovers PID prints mappings that are ours; status 1 when there are any

Only file-backed executable mappings have a digest that must not change; an executable
mapping without a file would be a just-in-time compiler's, or ours.
"""

import hashlib
import sys
from typing import NamedTuple


class Mapping(NamedTuple):
    start: int
    end: int
    access: str
    offset: int
    path: str

    @property
    def executable(self):
        return "x" in self.access

    @property
    def special(self):
        return self.path in ("[vsyscall]", "[vdso]", "[vvar]")


def mappings(pid):
    """The lines of /proc/PID/maps."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            start, end = (int(bound, 16) for bound in fields[0].split("-"))
            path = fields[5] if len(fields) > 5 else ""
            found.append(Mapping(start, end, fields[1], int(fields[2], 16), path))
    return found


def journal(pid):
    """The mapping of a session's journal; None where there is none."""
    return next((one for one in mappings(pid) if one.path.startswith("/memfd:mdl-session") and one.offset == 0), None)


def digest(pid):
    """{(start, end, path): SHA-256} of every executable mapping, ours included."""
    digests = {}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for mapping in mappings(pid):
            if not mapping.executable or mapping.special:
                continue
            sha = hashlib.sha256()
            at = mapping.start
            while at < mapping.end:
                memory.seek(at)
                chunk = memory.read(min(mapping.end - at, 1 << 20))
                if not chunk:
                    raise OSError(f"{mapping.path}: nothing to read at {at:#x}")
                sha.update(chunk)
                at += len(chunk)
            digests[(mapping.start, mapping.end, mapping.path)] = sha.hexdigest()
    return digests


def leftovers(pid):
    """Mappings that the injector named, which must all be gone after a removal."""
    return [m for m in mappings(pid) if m.path.startswith(("/memfd:mdl-", "[anon:mdl-"))]


def main(arguments):
    if len(arguments) != 3 or arguments[1] not in ("digest", "leftovers"):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[1] == "digest":
        for (start, end, path), sha in digest(arguments[2]).items():
            print(f"{sha} {start:x}-{end:x} {path}")
        return 0
    left = leftovers(arguments[2])
    for mapping in left:
        print(f"{mapping.start:x}-{mapping.end:x} {mapping.access} {mapping.path}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
