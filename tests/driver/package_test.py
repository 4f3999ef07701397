"""The installation, and the CMake package in it: a project configures, builds and rebuilds its plans.

Needs CMAKE and MDL_BUILD, the build folder to install from."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

CMAKE = os.environ["CMAKE"]
BUILD = os.environ["MDL_BUILD"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run(*args, status=0):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120)
    if done.returncode != status:
        raise AssertionError(f"{args} ended with {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        first = cls.folder / "first"
        run(CMAKE, "--install", BUILD, "--prefix", first, "--strip")
        cls.prefix = cls.folder / "moved prefix"  # an installation can be moved, and its name can be anything
        first.rename(cls.prefix)

    def test_what_is_installed(self):
        for path in ("bin/mdlc", "bin/mdl-inject", "share/mdl/stdlib-metrics/code.mdl", "share/man/man1/mdlc.1",
                     "share/man/man1/mdl-inject.1", "share/doc/mdl/LICENSE", "share/bash-completion/completions/mdlc",
                     "share/bash-completion/completions/mdl-inject", "share/zsh/site-functions/_mdl-inject",
                     "share/fish/vendor_completions.d/mdl-inject.fish", "share/mdl/editors/mdl.tmLanguage.json",
                     "share/mdl/sbom.spdx.json", "lib/cmake/Mdl/MdlConfig.cmake", "lib/cmake/Mdl/MdlConfigVersion.cmake"):
            self.assertTrue((self.prefix / path).is_file(), path)
        run(self.prefix / "bin/mdlc", "--check", "code.mdl")

    def project(self, *options):
        """The example, copied and configured; its source and build folders."""
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        source, build = place / "source", place / "build"
        shutil.copytree(SOURCE / "examples/cmake-plan", source)
        run(CMAKE, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", *options)
        return source, build

    def check_rebuilds(self, generator):
        source, build = self.project("-G", generator)
        plans = {"hot": build / "hot.plan", "cold": build / "plans/cold.bin"}
        library = self.prefix / "share/mdl/stdlib-metrics/code.mdl"

        def rebuilt():
            """Which plans another build makes."""
            before = {name: path.stat().st_mtime_ns for name, path in plans.items()}
            run(CMAKE, "--build", build)
            return {name for name, path in plans.items() if path.stat().st_mtime_ns != before[name]}

        def touch(path):
            later = max(p.stat().st_mtime_ns for p in plans.values()) + 1_500_000_000
            time.sleep(max(0.0, (later - time.time_ns()) / 1e9))
            os.utime(path)

        run(CMAKE, "--build", build)
        for plan in plans.values():
            self.assertIn("a valid plan for x86_64", run(self.prefix / "bin/mdl-inject", "--verify", plan))
        self.assertEqual(rebuilt(), set())
        for path, wanted in ((source / "hot.mdl", {"hot"}), (source / "cold.mdl", {"cold"}), (library, {"hot"})):
            with self.subTest(path=path.name):
                touch(path)
                self.assertEqual(rebuilt(), wanted)
                self.assertEqual(rebuilt(), set())
        touch(source / "hot.mdl")
        (source / "hot.mdl").write_text("metric broken")
        self.assertIn("E0001", run(CMAKE, "--build", build, status=2 if "Make" in generator else 1))

    def test_ninja_rebuilds_what_changed(self):
        self.check_rebuilds("Ninja")

    def test_make_rebuilds_what_changed(self):
        self.check_rebuilds("Unix Makefiles")

    def test_mistakes_in_the_call(self):
        for call, word in (("mdl_add_plan(x)", "SOURCES is missing"),
                           ("mdl_add_plan(x SOURCES a.mdl NONSENSE)", None),
                           ("mdl_add_plan(x NONSENSE SOURCES a.mdl)", "NONSENSE")):
            place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            (place / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES NONE)\n"
                                                  f"find_package(Mdl 0.1 REQUIRED)\n{call}\n")
            options = (CMAKE, "-S", place, "-B", place / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
            if word:
                self.assertIn(word, run(*options, status=1))
            else:  # a file that is missing is mdlc's to report
                run(*options)
                self.assertIn("cannot find 'a.mdl'", run(CMAKE, "--build", place / "build", status=1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
