"""What users type: every option of the two tools' contract is in --help, in the manual page and in the shell
completion, and those three name the same options."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOLS = {"mdlc": os.environ["MDLC"], "mdl-inject": os.environ["MDL_INJECT"]}
# Of --help's words, those that a manual page or a completion writes in another way.
SPELLINGS = {"--mcpu": "-mcpu", "--depfile": "-MD", "-W": "-Wno-"}


def options_of_help(tool):
    """The names of each option, as a set."""
    done = subprocess.run([TOOLS[tool], "--help"], capture_output=True, text=True, timeout=60, check=True)
    found = []
    for line in done.stdout.splitlines():
        if match := re.match(r"  +(-[\w-]+)(?:,(-[\w-]+))?", line):
            found.append({SPELLINGS.get(word, word) for word in match.groups() if word})
    return found


def words(text):
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))


class Tools(unittest.TestCase):
    def test_help_manual_and_completion_agree(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                options = options_of_help(tool)
                self.assertGreater(len(options), 15)
                manual = (SOURCE / f"docs/man/{tool}.1").read_text()
                manual = re.sub(r"\\f[A-Z]", " ", manual.replace("\\-", "-"))
                self.assertEqual([o for o in options if not o & words(manual)], [], "not in the manual page")
                completion = (SOURCE / f"scripts/completion/{tool}.bash").read_text()
                self.assertEqual([o for o in options if not o & words(completion)], [], "not in the completion")

    def test_formats_come_from_one_table(self):
        """--help, the manual page that is installed, and the completion list the formats of the table."""
        table = re.findall(r"^MDL_OUTPUT_FORMAT\((\w+)\)$", (SOURCE / "runtime/output/formats.def").read_text(), re.M)
        self.assertGreater(len(table), 4)
        program = pathlib.Path(TOOLS["mdl-inject"])
        help = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertEqual(re.search(r"--format TEXT:\{(.*)\}", help)[1].split(","), table)
        manual = (program.parents[1] / "share/man/man1/mdl-inject.1").read_text()
        self.assertEqual(re.search(r'^\.BR \\-\\-format " (.*)"$', manual, re.M)[1].split("|"), table)
        script = 'source "$1"; COMP_WORDS=("$2" --format "$3") COMP_CWORD=2; _mdl_inject; echo "${COMPREPLY[@]}"'
        for begun, wanted in (("", table), (table[-1][:3], table[-1:]), ("/", [])):
            done = subprocess.run(["bash", "-c", script, "bash", SOURCE / "scripts/completion/mdl-inject.bash", program, begun],
                                  capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(done.stdout.split(), wanted, done.stderr)

    def test_verbs_come_from_one_table(self):
        """The completion has each word with which a query begins."""
        table = (SOURCE / "format/query_verbs.h").read_text().split("kQueryVerbs[] = {")[1].split("}")[0]
        completion = (SOURCE / "scripts/completion/mdl-inject.bash").read_text()
        verbs = re.search(r'compgen -W "([a-z ]+)" -- "\$word"', completion)[1].split()
        self.assertEqual(verbs, sorted(re.findall(r'"(\w+)"', table)))
        for other, words_of in (("_mdl-inject", r"for name in ([a-z ]+); do"), ("mdl-inject.fish", r"printf '%s \\n' ([a-z ]+)")):
            self.assertEqual(re.search(words_of, (SOURCE / "scripts/completion" / other).read_text())[1].split(), verbs, other)

    def test_other_shells_ask_help(self):
        """zsh and fish have all options and formats of --help, where they are installed."""
        program = TOOLS["mdl-inject"]
        scripts = {"zsh": (["-f", "-c", 'source "$1"; _mdl_options "$2" | cut -d: -f1; _mdl_formats "$2"', "zsh"], "_mdl-inject"),
                   "fish": (["-N", "-c", 'source "$argv[1]"; function __mdl_program; echo $program; end; set -g program "$argv[2]"; '
                             '__mdl_options; __mdl_formats'], "mdl-inject.fish")}
        formats = re.findall(r"^MDL_OUTPUT_FORMAT\((\w+)\)$", (SOURCE / "runtime/output/formats.def").read_text(), re.M)
        wanted = set(formats).union(*options_of_help("mdl-inject"))
        for shell, (words_of, file) in scripts.items():
            if not shutil.which(shell):
                continue
            with self.subTest(shell=shell):
                done = subprocess.run([shell, *words_of, SOURCE / "scripts/completion" / file, program], capture_output=True,
                                      text=True, timeout=60)
                self.assertEqual((set(done.stdout.split()), done.stderr), (wanted, ""))

    def test_the_contract(self):
        contract = {
            "mdlc": "-o --query -I --target --std --flavor --emit --check --cost --reformat --lsp --explain --disable-pass -mcpu "
                    "-MD --diagnostics --sign",
            "mdl-inject": "-p --show-mdl --metrics -m -f -i -d -o --format --dry-run --explain --strict --detach --follow-fork --flavor --allow-calls --allow-reads --allow-command --raw-times --allow-traps --max-keys "
                          "--require-signed --run --status --remove --list --verify",
        }
        for tool, wanted in contract.items():
            self.assertEqual(set(wanted.split()) - set().union(*options_of_help(tool)), set(), tool)


if __name__ == "__main__":
    unittest.main(verbosity=2)
