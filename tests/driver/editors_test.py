"""The files for editors: what they name exists, and the grammar knows the words of the language."""
import json
import re
import subprocess
import unittest

from mdlc_case import SOURCE

EDITORS = SOURCE / "editors"
GRAMMAR = json.loads((EDITORS / "mdl.tmLanguage.json").read_text())


def rules(node):
    """All rules of the grammar."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from rules(value)
    elif isinstance(node, list):
        for value in node:
            yield from rules(value)


def flat(names):
    """The rules of included names in order, the ones inside of them in place."""
    for name in names:
        rule = GRAMMAR["repository"][name]
        for one in rule.get("patterns", [rule]) if "match" not in rule and "begin" not in rule else [rule]:
            if "include" in one:
                yield from flat([one["include"][1:]])
            else:
                yield one


def scope(text, names):
    """The scope of the first match, as an editor finds it: the leftmost, and of those the first rule's."""
    best = None
    for rule in flat(names):
        found = re.search(rule.get("match") or rule["begin"], text)
        if found and (best is None or found.start() < best[0]):
            inner = [c["name"] for c in rule.get("captures", {}).values()]
            best = (found.start(), rule.get("name") or inner[0])
    return best[1] if best else None


class Editors(unittest.TestCase):
    def test_the_manifest_names_what_exists(self):
        contributes = json.loads((EDITORS / "package.json").read_text())["contributes"]
        [language], [grammar] = contributes["languages"], contributes["grammars"]
        self.assertEqual(grammar["scopeName"], GRAMMAR["scopeName"])
        for path in (language["configuration"], grammar["path"]):
            self.assertTrue(json.loads((EDITORS / path).read_text()))

    def test_patterns_are_valid_and_includes_exist(self):
        count = 0
        for rule in rules(GRAMMAR):
            for key in ("match", "begin", "end"):
                if isinstance(rule.get(key), str):
                    re.compile(rule[key])
                    count += 1
            if "include" in rule:
                self.assertIn(rule["include"][1:], GRAMMAR["repository"])
        self.assertGreater(count, 15)

    def test_every_keyword_has_a_scope(self):
        text = (SOURCE / "grammar/Mdl.g4").read_text()
        words = re.findall(r"'([A-Za-z_]+)'", " ".join(re.findall(r"^KW_\w+ : (.*) ;", text, re.M)))
        self.assertGreater(len(words), 30)
        of_queries = {"at", "within", "by", "as"}  # in files they are names
        self.assertLess(of_queries, set(words))
        for word in set(words) - of_queries:
            with self.subTest(word=word):
                self.assertRegex(scope(word, ["definition", "common"]) or "", "^(keyword|storage|support)")

    def test_every_type_of_a_value_has_a_scope(self):
        names = re.findall(r'^  X\(\w+, "\w+", +"(\w+)", +\d+, +\d', (SOURCE / "format/kinds.h").read_text(), re.M)
        self.assertGreater(len(names), 8)
        for name in names:
            with self.subTest(name=name):
                self.assertRegex(scope(name, ["definition"]) or "", "^(storage|support)")

    def test_every_built_in_function_has_a_scope(self):
        names = re.findall(r'^    \{"(\w+)", \d, ', (SOURCE / "compiler/sema/calls.cpp").read_text(), re.M)
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name=name):
                self.assertRegex(scope(f"{name}(1)", ["obsolete", "function", "conversion"]) or "", "^(support|invalid.deprecated)")

    def test_scopes(self):
        definition, code = ["code", "definition", "common"], ["obsolete", "function", "conversion", "control", "common"]
        for text, names, wanted in (
            ("// metric", definition, "comment"), ('"// no"', definition, "string.quoted"), ("(* m++; *)", definition, "meta.embedded"),
            ("/Code/*/* is", definition, "string.unquoted.path"), ("$constraint[0]", definition, "variable.language"),
            ("0x1F", code, "constant.numeric"), ("1.5e3", code, "constant.numeric"), ("setCounter(m, 1)", code, "invalid.deprecated"),
            ("readSymbol", code, "support.function"), ("TRUE", code, "constant.language"), ("metric", code, None),
            ("metric metric {", definition, "storage.type"), ("int($return)", code, "support.type"), ("init(n)", code, None),
        ):
            with self.subTest(text=text):
                found = scope(text, names)
                self.assertTrue(found is None if wanted is None else found.startswith(wanted), found)


# VS Code and its library are not here: what the extension asks of them is kept.
HOST = """
const [folder, extension, settings] = [process.argv[1], process.argv[2], JSON.parse(process.argv[3])];
const asked = [], shown = [];
const host = {
  vscode: {
    workspace: {
      workspaceFolders: [{uri: {fsPath: folder}}],
      getConfiguration: (section) => ({get: (name) => (asked.push(`${section}.${name}`), settings[`${section}.${name}`])}),
    },
    window: {showErrorMessage: (text) => shown.push(text)},
  },
  "vscode-languageclient/node": {
    LanguageClient: class {
      constructor(...how) { host.how = how; }
      async start() { if (host.how[2].command === "nowhere") throw new Error("not found"); }
      async stop() { host.stopped = true; }
    },
  },
};
const {Module} = require("module"), load = Module._load;
Module._load = (name, ...rest) => host[name] ?? load(name, ...rest);
(async () => {
  const {activate, deactivate} = require(extension);
  await activate();
  await deactivate();
  console.log(JSON.stringify({asked, shown, how: host.how, stopped: host.stopped}));
})();
"""


class Extension(unittest.TestCase):
    PACKAGE = json.loads((EDITORS / "package.json").read_text())
    DECLARED = PACKAGE["contributes"]["configuration"]["properties"]

    def activate(self, **settings):
        settings = {name: one["default"] for name, one in self.DECLARED.items()} | {f"mdl.{name}": value for name, value in settings.items()}
        done = subprocess.run(["node", "-e", HOST, "/folder", str(EDITORS / self.PACKAGE["main"]), json.dumps(settings)],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = json.loads(done.stdout)
        self.assertLessEqual(set(said["asked"]), set(self.DECLARED))
        self.assertTrue(said["stopped"])
        return said["how"][2], said["how"][3], said["shown"]

    def test_it_starts_the_language_server(self):
        server, client, shown = self.activate(sources=["own.mdl", "/else/code.mdl"])
        self.assertEqual(server, {"command": "mdlc", "args": ["--lsp", "/folder/own.mdl", "/else/code.mdl"]})
        self.assertEqual(client["documentSelector"], [{"language": one["id"]} for one in self.PACKAGE["contributes"]["languages"]])
        self.assertEqual(shown, [])

    def test_a_compiler_that_is_not_there_is_said(self):
        self.assertIn("Cannot start nowhere: not found. The setting mdl.mdlc", self.activate(mdlc="nowhere")[2][0])

    def test_a_folder_cannot_choose_what_is_executed(self):
        self.assertEqual(self.DECLARED["mdl.mdlc"]["scope"], "machine")
        self.assertIn("mdl.sources", self.PACKAGE["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
