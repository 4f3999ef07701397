"""The pages by themselves: no line of prose or of a table is longer than 100 columns, links and the names of files and
sections lead somewhere, and each decision that a comment cites stands in docs/architecture.md. Needs no program."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*sorted(SOURCE.glob("*.md")), *sorted((SOURCE / "docs").glob("*.md"))]
CODE = [path for folder in ("base", "bench", "backend", "compiler", "format", "grammar", "mdlc", "mdl-inject", "runtime", "tests")
        for path in sorted((SOURCE / folder).rglob("*")) if path.suffix in (".h", ".cpp", ".def", ".inc", ".S", ".g4", ".py")]
FOLDERS = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"build", ".git"}
WIDTH = 100


def name(path):
    return str(path.relative_to(SOURCE))


def prose(page):
    """(number, line) of each line that is not in a code block."""
    return [(number, line) for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
            if not line.startswith("    ")]


def text_of(page):
    return "\n".join(line for _, line in prose(page))


def headings(page):
    return [line.lstrip("#").strip() for _, line in prose(page) if line.startswith("#")]


def anchor(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def joined(path):
    """The text of a source with each comment's lines as one."""
    return re.sub(r"\s+(?://|#)?\s*", " ", path.read_text(encoding="utf-8"))


class Docs(unittest.TestCase):
    def test_width(self):
        for page in PAGES:
            wide = [number for number, line in prose(page) if len(line) > WIDTH]
            self.assertEqual(wide, [], name(page))

    def test_links(self):
        links = 0
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
                if "://" in target:
                    continue
                file, _, place = target.partition("#")
                there = (page.parent / file).resolve() if file else page
                self.assertTrue(there.exists(), f"{name(page)}: {target}")
                if place:
                    self.assertIn(place, [anchor(heading) for heading in headings(there)], f"{name(page)}: {target}")
                links += 1
        self.assertGreater(links, 50)

    def test_files_that_pages_name(self):
        """A path between backticks whose first folder is one of the repository's; NAME and <target> are patterns."""
        named = 0
        for page in PAGES:
            for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text_of(page)):
                if path.split("/")[0] not in FOLDERS or re.search(r"\b[A-Z]{2,}\b", path):
                    continue
                self.assertTrue((SOURCE / path).exists(), f"{name(page)}: {path}")
                named += 1
        self.assertGreater(named, 100)

    def test_tests_of_hazards(self):
        """The tests that docs/hazards.md names exist."""
        text = text_of(SOURCE / "docs/hazards.md")
        scripts = set(re.findall(r"`(\w+_test)`", text))
        self.assertGreater(len(scripts), 20)
        self.assertEqual([one for one in sorted(scripts) if not (SOURCE / f"tests/process/{one}.py").exists()], [])
        entries = (SOURCE / "tests/process/CMakeLists.txt").read_text()
        live = {re.sub(r"_(nopie-cet|\*)$", "", one) for one in re.findall(r"`(live_[\w*-]+)`", text)}
        self.assertEqual([one for one in sorted(live) if not re.search(rf"mdl_live_test\({one}(?:_\$\{{flavor\}})? ", entries)], [])
        for script, case in re.findall(r"`(\w+_test)` ([A-Z][a-z]+)(?=[,.])", text.replace("\n", " ")):
            source = (SOURCE / f"tests/process/{script}.py").read_text()
            self.assertRegex(source, rf"(?m)^class {case}\(", script)

    def test_tests_of_threats(self):
        """Each promise of docs/security.md names tests that exist: a script and a part of its cases' or classes' names, a
        suite or a case of the unit tests, a fuzzer, a golden."""
        text = re.sub(r"\s+", " ", text_of(SOURCE / "docs/security.md"))
        units = "".join(path.read_text() for path in (SOURCE / "tests/unit").rglob("*.cpp"))
        named = 0
        for row in re.findall(r"Test: (.*?[\w`])\. ", text):
            where = ""
            for part in row.split(", "):
                *places, case = part.split()
                if not case.startswith("`") and (case.endswith("_test") or case.startswith("fuzz_")):
                    places, case = [*places, case], ""
                where = places[0] if places else where
                named += 1
                self.assertTrue(self.is_test(where, case.strip("`"), units), f"{part} of: {row}")
        self.assertGreater(named, 50)

    @staticmethod
    def is_test(where, case, units):
        if where == "unit":
            suite, _, one = case.partition(".")
            return re.search(rf"\bTEST(_F|_P)?\({suite}, {one}", units)
        if where == "golden":
            return any((SOURCE / "tests/golden").rglob(f"{case}.*"))
        if where.startswith("fuzz_"):
            return (SOURCE / f"tests/fuzz/{where}.cpp").exists()
        found = [path for folder in ("process", "driver") for path in [SOURCE / f"tests/{folder}/{where.rpartition('/')[2]}.py"]
                 if path.exists() and where in (path.stem, f"{folder}/{path.stem}")]
        return any(re.search(rf"^ *(def|class) \w*{case}", path.read_text(), re.M) for path in found)

    def test_sections_that_are_cited(self):
        """`page.md`, "Title", in pages and in comments."""
        cited = 0
        for path in [*PAGES, *CODE]:
            text = joined(path).replace('\\"', '"')
            for page, title in re.findall(r"(?:docs/|\()(\w[\w-]*\.md)\)?, \"([^\"]+)\"", text):
                there = SOURCE / "docs" / page
                self.assertTrue(there.exists(), f"{name(path)}: {page}")
                begins = [heading for heading in headings(there) if heading.startswith(title)]
                self.assertTrue(begins, f"{name(path)}: {page}, \"{title}\"")
                cited += 1
        self.assertGreater(cited, 30)

    def test_pages_that_code_names(self):
        for path in CODE:
            for page in re.findall(r"\bdocs/([\w/-]+\.(?:md|1))\b", path.read_text(encoding="utf-8")):
                self.assertTrue((SOURCE / "docs" / page).exists(), f"{name(path)}: docs/{page}")

    def test_decisions_that_code_cites(self):
        written = re.findall(r"^### (\d+)\. ", (SOURCE / "docs/architecture.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual(written, [str(number + 1) for number in range(len(written))])
        cited = {number for path in CODE for number in re.findall(r"\bdecision (\d+)", joined(path))}
        self.assertGreater(len(cited), 8)
        self.assertEqual(sorted(cited - set(written)), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
