"""The pages against the programs: tables of docs/plan-format.md and docs/language.md against format/, options that
README, the manual pages and the completions name against --help, and the command lines of all pages.

In README, docs/*.md and the manual pages' examples, `mdlc ...` and `mdl-inject ...` in a code block or between
backticks is a command. One with a word of capitals, an ellipsis or a bracket is a pattern, and one of options alone
is their name: the options must exist. The others are run: those of mdlc here, those of mdl-inject in
tests/process/pages_test.py, which is to know every one.
"""
import os
import pathlib
import re
import shlex
import shutil
import unittest

from mdlc_case import GOOD, SOURCE, MdlcCase
from tools_test import SPELLINGS, options_of_help, words

PLAN_FORMAT = (SOURCE / "docs/plan-format.md").read_text()
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md")), *sorted((SOURCE / "docs/man").glob("*.1"))]
PLACEHOLDER = re.compile(r"(?<![\w$./-])[A-Z]{2,}(?![\w.])|…|\.\.\.|\[|(?<!\|)\|(?!\|)|=[A-Z]+$|KEY\.pem")


def text_of(page):
    text = page.read_text()
    if page.suffix != ".1":
        return text
    examples = re.search(r"\.SH EXAMPLES\n\.nf\n(.*?)\.fi", text, re.S)
    return "".join(f"    {line}\n" for line in examples[1].replace("\\-", "-").splitlines()) if examples else ""


def commands(tool):
    """(page, line) of each command of the tool, without what is said behind a #."""
    found = []
    for page in PAGES:
        text = text_of(page)
        lines = re.findall(rf"^    ({tool} .*)$", text, re.M) + re.findall(rf"`({tool} [^`]+)`", text)
        found += [(page.name, re.sub(r"\s+#.*", "", line).strip()) for line in lines]
    return found


def is_pattern(line):
    return bool(PLACEHOLDER.search(line)) or all(word.startswith("-") for word in line.split()[1:])


def table(header_start, text=PLAN_FORMAT):
    """The first column of the table whose header begins so, a set of words for each row."""
    rows = text[text.index(header_start):].split("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", row.split(" | ")[0]) for row in rows]


def flat(rows):
    return [word for row in rows for word in row]


def x_macro(name, column):
    """A column of an X macro of format/kinds.h: 1 is the name."""
    text = (SOURCE / "format/kinds.h").read_text()
    body = re.search(rf"#define {name}\(X\)(.*?[^\\])\n", text, re.S)[1]
    rows = re.findall(r"X\(([^)]*)\)", body)
    return [[field.strip().strip('"') for field in row.split(",")][column] for row in rows]


def words_of(header, name):
    """The strings of a constant table of words."""
    text = (SOURCE / header).read_text()
    return re.findall(r'"([^"]+)"', re.search(rf"{name}\[\] = \{{(.*?)\}};", text, re.S)[1])


class Tables(unittest.TestCase):
    def test_cells(self):
        listed = PLAN_FORMAT[PLAN_FORMAT.index("| kind | bytes | holds |"):].split("\n\n")[0]
        rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", listed, re.M)
        self.assertEqual(rows, list(zip(x_macro("MDL_CELL_KINDS", 1), x_macro("MDL_CELL_KINDS", 3))))

    def test_features(self):
        known = set(words_of("format/manifest.h", "kOtherFeatures"))
        for name, column in (("MDL_CELL_KINDS", -1), ("MDL_POINT_KINDS", 4), ("MDL_ROUTINES", 2)):
            known.update(x_macro(name, column))
        self.assertEqual(sorted(flat(table("| feature | since"))), sorted(known))

    def test_points(self):
        listed = re.search(r"`point` \((.*?); `every`", PLAN_FORMAT, re.S)[1]
        self.assertEqual(re.findall(r"`(\w+)`", listed) + ["every"], x_macro("MDL_POINT_KINDS", 1))

    def test_routines(self):
        listed = re.search(r"Resident routines take .*?:(.*?)They keep", PLAN_FORMAT, re.S)[1]
        self.assertEqual(re.findall(r"`(\w+)`\s+(?:the|what)", " " + listed), x_macro("MDL_ROUTINES", 1))

    def test_events(self):
        names, aliases = x_macro("MDL_EVENTS", 1), [alias for alias in x_macro("MDL_EVENTS", 2) if alias]
        self.assertEqual(re.findall(r"`([A-Z_]+)`", re.search(r"^Events: (.*?)\.\n", PLAN_FORMAT, re.S | re.M)[1]), names)
        language = (SOURCE / "docs/language.md").read_text()
        listed = re.search(r"The events are those(.*?)An hwTimer", language, re.S)[1]
        self.assertEqual(sorted(re.findall(r"`([A-Z_]+)`", listed)), sorted(names))
        self.assertEqual(sorted(re.findall(r"`([a-z-]+)`", listed)), sorted(aliases))

    def test_expressions(self):
        shapes = (SOURCE / "format/manifest_tables.h").read_text()
        kinds = re.findall(r'\{"(\w+)", (?:true|false), (?:true|false), \d\}', shapes)
        self.assertEqual(sorted(flat(table("| kind | keys | value |"))), sorted(kinds))
        self.assertEqual(flat(table("| kind | keys |\n")), words_of("format/manifest_tables.h", "kPlacementKinds"))

    def test_operators_and_fields(self):
        def listed(kind):
            item = re.search(rf"^- `{kind}`: (.*?)(?=\n-|\n\n)", PLAN_FORMAT, re.M | re.S)[1]
            return re.findall(r"`([^`]+)`", item)
        self.assertEqual(sorted(listed("binary")), sorted(words_of("format/manifest_tables.h", "kBinaryOperators")))
        self.assertEqual(sorted(listed("unary")), sorted(words_of("format/manifest_tables.h", "kUnaryOperators")))
        self.assertEqual(sorted(listed("field")), sorted(words_of("format/manifest_tables.h", "kOtherFields") + [f for f in x_macro("MDL_POINT_KINDS", 6) if f]))

    def test_words(self):
        for row, name in (("type", "kListTypes"), ("units_type", "kUnitsTypes"), ("style", "kStyles"), ("mode", "kModes")):
            listed = re.search(rf"`{row}`\s+\((.*?)\)", PLAN_FORMAT, re.S)[1]
            self.assertEqual(re.findall(r"`(\w+)`", listed), words_of("format/manifest_tables.h", name), row)

    def test_keys_of_the_manifest(self):
        """Each key that is written stands on the page."""
        written = set(re.findall(r'(?:\{|\[)"(\w+)"[,\]]', (SOURCE / "format/manifest_writer.cpp").read_text()))
        self.assertGreater(len(written), 40)
        self.assertEqual([key for key in sorted(written) if f"`{key}`" not in PLAN_FORMAT], [])

    def test_targets(self):
        row = re.search(r"^\| `target` \|(.*)$", PLAN_FORMAT, re.M)[1]
        made = sorted(folder.name for folder in (SOURCE / "backend").iterdir() if folder.is_dir())
        self.assertEqual(sorted(re.findall(r'`"(\w+)"`', row)), made)


def named_by_manual(tool):
    """The options of the synopsis, and those that have a paragraph."""
    text = re.sub(r"\\f[A-Z]", "", (SOURCE / f"docs/man/{tool}.1").read_text().replace("\\-", "-"))
    synopsis = re.search(r"\.SH SYNOPSIS\n(.*?)\.SH", text, re.S)[1]
    options = re.search(r"\.SH OPTIONS\n(.*?)\.SH", text, re.S)[1]
    return words(synopsis), words("\n".join(re.findall(r"^\.TP\n(.*)$", options, re.M)))


def named_by_completion(tool):
    text = (SOURCE / f"scripts/completion/{tool}.bash").read_text()
    lists = re.findall(r"""options="([^"]+)"|-W '(-o [^']+)'""", text)
    return {word for pair in lists for word in " ".join(pair).replace("=", " ").split() if word.startswith("-")}


class Options(unittest.TestCase):
    def test_nothing_is_named_that_is_not_there(self):
        own = {"-W", "-Wno-", "-Werror", "-WWARNING", "-WNAME", "-Wno-NAME", "-Werror=", "-Wno-error", "--help", "--version"}
        for tool in ("mdlc", "mdl-inject"):
            known = set().union(*options_of_help(tool)) | set(SPELLINGS) | own
            synopsis, paragraphs = named_by_manual(tool)
            completion = named_by_completion(tool)
            self.assertGreater(len(synopsis), 8, tool)
            self.assertGreater(len(completion), 15, tool)
            for name, words_there in (("synopsis", synopsis), ("paragraphs", paragraphs), ("completion", completion)):
                self.assertEqual(sorted(words_there - known), [], f"{tool}: {name}")

    def test_every_option_has_a_paragraph(self):
        for tool in ("mdlc", "mdl-inject"):
            _, paragraphs = named_by_manual(tool)
            paragraphs |= {"-W", "-Wno-"} if any(word.startswith("-Wno-") for word in paragraphs) else set()
            self.assertEqual([sorted(names) for names in options_of_help(tool) if not names & paragraphs], [], tool)

    def test_every_option_of_mdl_inject_is_in_the_readme(self):
        readme = (SOURCE / "README.md").read_text()
        usage = readme[readme.index("## mdl-inject"):readme.index("| exit status | meaning |")]
        listed = words(usage) - {"-inject"}
        known = set().union(*options_of_help("mdl-inject"))
        self.assertEqual(sorted(word for word in listed if word not in known), [])
        self.assertEqual([sorted(names) for names in options_of_help("mdl-inject") if not names & listed], [])

    def test_exit_statuses(self):
        """README, the manual and --help have the same numbers."""
        readme = (SOURCE / "README.md").read_text()
        rows = re.findall(r"^\| (\d) \|", readme[readme.index("| exit status | meaning |"):], re.M)
        manual = (SOURCE / "docs/man/mdl-inject.1").read_text()
        self.assertEqual(rows, re.findall(r"^\.B (\d)$", manual, re.M))
        self.assertEqual(rows, ["0", "1", "2", "3", "4", "5"])


class Commands(MdlcCase):
    def test_patterns_name_options_that_exist(self):
        seen = 0
        for tool in ("mdlc", "mdl-inject"):
            known = set().union(*options_of_help(tool)) | set(SPELLINGS) | {"-Wvector", "-Werror", "--"}
            for page, line in commands(tool):
                own = re.split(r" -- |(?<=\S) \\-- ", line)[0].replace("mdl-inject", "")
                for word in words(own):
                    self.assertIn(word, known, f"{page}: {line}")
                    seen += 1
        self.assertGreater(seen, 25)

    def test_commands_of_mdlc_run(self):
        """In a folder that has the sources that they name, as the user's own would be."""
        mine = GOOD.replace("metric m ", "metric key_lookups ").replace("m++", "key_lookups++")
        for name in ("mine.mdl", "metrics.mdl"):
            self.source(name, mine)
        (self.folder / "stdlib-metrics").mkdir()
        shutil.copy(SOURCE / "stdlib-metrics/code.mdl", self.folder / "stdlib-metrics")
        ran = 0
        for page, line in commands("mdlc"):
            if is_pattern(line):
                continue
            with self.subTest(page=page, line=line):
                arguments = shlex.split(line)[1:]
                if "*.mdl" in arguments:
                    arguments[arguments.index("*.mdl"):] = ["mine.mdl", "metrics.mdl"]
                self.run_mdlc(*arguments)
                if "-o" in arguments:
                    self.assertTrue((self.folder / arguments[arguments.index("-o") + 1]).stat().st_size)
                ran += 1
        self.assertGreaterEqual(ran, 7)

    def test_every_command_of_mdl_inject_is_run(self):
        """By the live test, which has to know each."""
        live = (SOURCE / "tests/process/pages_test.py").read_text()
        runnable = [(page, line) for page, line in commands("mdl-inject") if not is_pattern(line)]
        self.assertGreater(len(runnable), 1)
        for page, line in runnable:
            self.assertIn(f'"{line}"', live, page)


if __name__ == "__main__":
    os.environ.setdefault("MDL_INJECT", str(pathlib.Path(os.environ["MDLC"]).parent / "mdl-inject"))
    unittest.main(verbosity=2)
