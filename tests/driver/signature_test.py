"""Signed plans: mdlc --sign, mdl-inject --require-signed, with keys as openssl writes them. Needs both tools."""
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import unittest

from mdlc_case import FAILED, USAGE, MdlcCase

MDL_INJECT = os.environ["MDL_INJECT"]
REJECTED = 4
CONTEXT = b"mdl plan signature 1\n"


def openssl(*args, **named):
    return subprocess.run(["openssl", *map(str, args)], capture_output=True, timeout=60, check=True, **named)


def section(plan, name):
    """Offset and size of a section of an ELF file."""
    start, = struct.unpack_from("<Q", plan, 40)
    size, count, names = struct.unpack_from("<HHH", plan, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", plan, start + i * size) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        end = plan.index(b"\0", strings + header[0])
        if plan[strings + header[0]:end] == name.encode():
            return header[4], header[5]
    raise AssertionError(f"no section {name}")


class Signed(MdlcCase):
    def setUp(self):
        super().setUp()
        self.key, self.public = self.make_key("mine")
        self.run_mdlc("good.mdl", "-o", "plain.bin")
        self.run_mdlc("good.mdl", "-o", "signed.bin", "--sign", self.key)
        self.plan = self.folder / "signed.bin"

    def make_key(self, name, algorithm="ed25519"):
        key, public = self.folder / f"{name}.key.pem", self.folder / f"{name}.pem"
        openssl("genpkey", "-algorithm", algorithm, "-out", key)
        openssl("pkey", "-in", key, "-pubout", "-out", public)
        return key, public

    def verify(self, *args, status=0, **environment):
        done = subprocess.run([MDL_INJECT, "--verify", *map(str, args)], capture_output=True, text=True, timeout=60,
                              check=False, cwd=self.folder, env=os.environ | environment)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout + done.stderr

    def test_who_signed_is_shown(self):
        base64 = self.public.read_text().splitlines()[1].removeprefix("MCowBQYDK2VwAyEA")
        self.assertIn(f"signed with ed25519:{base64}\n", self.verify(self.plan))
        self.assertIn("not signed\n", self.verify("plain.bin"))
        self.assertIn(f"signed with ed25519:{base64}, trusted: {self.public}\n",
                      self.verify(self.plan, "--require-signed", self.public))

    def test_openssl_finds_the_same_signature_right(self):
        plan = bytearray(self.plan.read_bytes())
        at, size = section(plan, ".mdl.signature")
        self.assertEqual(size, 96)
        signature = bytes(plan[at + 32:at + 96])
        plan[at + 32:at + 96] = bytes(64)
        checksum, size = section(plan, ".mdl.checksum")
        plan[checksum:checksum + size] = bytes(size)
        (self.folder / "message").write_bytes(CONTEXT + plan)
        (self.folder / "signature").write_bytes(signature)
        openssl("pkeyutl", "-verify", "-pubin", "-inkey", self.public, "-rawin", "-in", self.folder / "message",
                "-sigfile", self.folder / "signature")

    def test_the_same_key_gives_the_same_bytes(self):
        self.run_mdlc("good.mdl", "-o", "again.bin", "--sign", self.key)
        self.assertEqual((self.folder / "again.bin").read_bytes(), self.plan.read_bytes())
        readelf = subprocess.run(["readelf", "-SW", self.plan], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(readelf.stderr, "")
        self.assertIn(".mdl.signature", readelf.stdout)

    def test_only_trusted_keys(self):
        _, other = self.make_key("other")
        self.assertIn("is not one of the 1 trusted keys",
                      self.verify(self.plan, "--require-signed", other, status=REJECTED))
        self.assertIn("is not signed", self.verify("plain.bin", "--require-signed", self.public, status=REJECTED))
        trusted = self.folder / "trusted"
        trusted.mkdir()
        self.assertIn("no key is trusted", self.verify(self.plan, "--require-signed", trusted, status=FAILED))
        shutil.copy(other, trusted / "a.pem")
        self.verify(self.plan, "--require-signed", trusted, status=REJECTED)
        shutil.copy(self.public, trusted / "b.pem")
        (trusted / "README").write_text("no key")
        self.assertIn(str(trusted / "b.pem"), self.verify(self.plan, f"--require-signed={trusted}"))
        # The option alone, in any place: the keys of the environment.
        for words in ((self.plan, "--require-signed"), ("--require-signed", self.plan)):
            self.assertIn("b.pem", self.verify(*words, MDL_TRUSTED_KEYS=str(trusted)))
            self.verify(*words, status=REJECTED, MDL_TRUSTED_KEYS=str(other))
            self.verify(*words, status=FAILED, MDL_TRUSTED_KEYS=str(self.folder / "nowhere"))

    def test_no_byte_can_change(self):
        plan = self.plan.read_bytes()
        at, _ = section(plan, ".mdl.signature")
        for place in [*range(at, at + 96, 5), *range(0, len(plan), max(1, len(plan) // 40))]:
            changed = bytearray(plan)
            changed[place] ^= 0x10
            (self.folder / "changed.bin").write_bytes(changed)
            self.verify("changed.bin", status=REJECTED)

    def test_the_checksum_alone_is_no_signature(self):
        """Somebody changes the plan and makes the checksum right again: the signature does not fit."""
        plan = bytearray(self.plan.read_bytes())
        at, size = section(plan, ".mdl.manifest")
        where = plan.index(b'"Calls"', at, at + size)
        plan[where + 1:where + 6] = b"Nails"
        checksum, _ = section(plan, ".mdl.checksum")
        plan[checksum:checksum + 32] = bytes(32)
        plan[checksum:checksum + 32] = hashlib.sha256(plan).digest()
        (self.folder / "changed.bin").write_bytes(plan)
        self.assertIn("changed after it was signed", self.verify("changed.bin", status=REJECTED))
        # A key of its own in the place of ours does not help: it is not trusted.
        key, _ = self.make_key("attacker")
        self.run_mdlc("good.mdl", "-o", "forged.bin", "--sign", key)
        self.verify("forged.bin")
        self.verify("forged.bin", "--require-signed", self.public, status=REJECTED)

    def test_a_process_is_not_touched_without_the_right_key(self):
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            try:
                done = subprocess.run([MDL_INJECT, str(sleeper.pid), "plain.bin", "-d", "0.1", "--require-signed",
                                       str(self.public)], cwd=self.folder, capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout), (REJECTED, ""), done.stderr)
                self.assertIn("is not signed", done.stderr)
            finally:
                sleeper.kill()

    def test_keys_that_are_none(self):
        rsa, rsa_public = self.make_key("rsa", "rsa")
        openssl("pkey", "-in", self.key, "-aes256", "-passout", "pass:x", "-out", self.folder / "locked.pem")
        self.source("empty.pem", "")
        self.source("half.pem", self.key.read_text()[:60])
        long = self.key.read_text().replace("\n-----END", "AAAA\n-----END")
        self.source("long.pem", long)
        for key, word in ((rsa, "openssl genpkey"), ("locked.pem", "pass phrase"), (self.public, "public key"),
                          ("empty.pem", "openssl genpkey"), ("half.pem", "openssl genpkey"),
                          ("long.pem", "openssl genpkey"), ("missing.pem", "No such file"), (".", "directory")):
            with self.subTest(key=key):
                done = self.run_mdlc("good.mdl", "-o", "out.bin", "--sign", key, status=FAILED)
                self.assertIn(word, done.stderr)
                self.assertNotIn("out.bin", self.files())
        for key, word in ((rsa_public, "openssl pkey"), (self.key, "openssl pkey"), ("missing.pem", "No such file"),
                          ("empty.pem", "openssl pkey")):
            with self.subTest(key=key):
                self.assertIn(word, self.verify(self.plan, "--require-signed", key, status=FAILED))

    def test_a_private_key_that_others_may_read(self):
        for mode in (0o640, 0o604, 0o620, 0o602, 0o644):
            os.chmod(self.key, mode)
            done = self.run_mdlc("good.mdl", "-o", "out.bin", "--sign", self.key, status=FAILED)
            self.assertIn(f"others may read or change the private key {self.key}", done.stderr)
            self.assertIn(f"chmod 600 {self.key}", done.stderr)
            self.assertNotIn("out.bin", self.files())
        os.chmod(self.key, 0o400)
        self.run_mdlc("good.mdl", "-o", "out.bin", "--sign", self.key)

    def test_trusted_keys_that_others_may_write(self):
        """Whoever can write to the key, to its folder or to one above it could put his own key there."""
        trusted = self.folder / "above" / "trusted"
        trusted.mkdir(parents=True)
        shutil.copy(self.public, trusted / "a.pem")
        for place in (trusted / "a.pem", trusted, trusted.parent):
            mode = place.stat().st_mode
            for bit in (0o020, 0o002):
                os.chmod(place, mode | bit)
                for keys in (trusted, trusted / "a.pem"):
                    text = self.verify(self.plan, "--require-signed", keys, status=FAILED)
                    self.assertIn(f"others may write to {place}: chmod go-w {place}", text)
            os.chmod(place, mode)
            if os.geteuid() == 0:
                os.chown(place, 65534, -1)
                self.assertIn(f"{place} belongs to user 65534",
                              self.verify(self.plan, "--require-signed", trusted, status=FAILED))
                os.chown(place, 0, -1)
        open_folder = self.folder / "open"
        open_folder.mkdir()
        os.chmod(open_folder, 0o777)
        shutil.copy(self.public, open_folder / "a.pem")
        (trusted / "b.pem").symlink_to(open_folder / "a.pem")
        self.assertIn("others may write to", self.verify(self.plan, "--require-signed", trusted, status=FAILED))
        (trusted / "b.pem").unlink()
        self.verify(self.plan, "--require-signed", trusted)

    def sign(self, name, *options, **named):
        return self.run_mdlc("good.mdl", "-o", name, "--sign", self.key, *options, **named)

    def test_an_edition_is_shown_and_signed(self):
        self.sign("new.bin", "--edition", "good=7", "--not-after", "2999-12-31")
        self.assertIn("edition 7 of good, to be used until 2999-12-31\n", self.verify("new.bin"))
        self.sign("ever.bin", "--edition", "good=8")
        self.assertIn("edition 8 of good\n", self.verify("ever.bin"))
        self.assertNotIn("edition", self.verify(self.plan))
        plan = bytearray((self.folder / "new.bin").read_bytes())
        at = plan.index(b"2999-12-31")
        plan[at:at + 4] = b"3999"
        checksum, _ = section(plan, ".mdl.checksum")
        plan[checksum:checksum + 32] = bytes(32)
        plan[checksum:checksum + 32] = hashlib.sha256(plan).digest()
        (self.folder / "longer.bin").write_bytes(plan)
        self.assertIn("changed after it was signed", self.verify("longer.bin", status=REJECTED))

    def test_a_plan_that_has_ended(self):
        self.sign("old.bin", "--edition", "good=1", "--not-after", "2020-02-29")
        text = self.verify("old.bin", status=REJECTED)
        self.assertIn("old.bin was to be used until 2020-02-29, and it is ", text)

    def test_readers_from_before_refuse_editions(self):
        """A plan without an edition is the same as ever; one with an edition says so where old readers look."""
        self.sign("new.bin", "--edition", "good=7")
        for name, wanted in ((self.plan, False), ("new.bin", True)):
            plan = (self.folder / name).read_bytes()
            at, size = section(plan, ".mdl.manifest")
            manifest = json.loads(plan[at:at + size])
            self.assertEqual("editions" in manifest["features"], wanted)
            self.assertEqual("edition" in manifest, wanted)

    def test_editions_that_are_none(self):
        for options in (("--edition", "good"), ("--edition", "good="), ("--edition", "good=-1"), ("--edition", "=1"),
                        ("--edition", "a b=1"), ("--edition", "x" * 65 + "=1"), ("--edition", f"a={1 << 64}"),
                        ("--edition", "a=1", "--not-after", "2027-02-30"), ("--edition", "a=1", "--not-after", "soon"),
                        ("--not-after", "2027-01-31")):
            self.sign("none.bin", *options, status=USAGE)
            self.assertNotIn("none.bin", self.files())
        self.run_mdlc("good.mdl", "-o", "none.bin", "--edition", "good=1", status=USAGE)

    def test_only_plans_are_signed(self):
        for option in ("--check", "--emit=ir", "--cost", "--reformat"):
            self.run_mdlc("good.mdl", option, "--sign", self.key, status=USAGE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
