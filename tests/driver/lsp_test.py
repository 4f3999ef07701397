"""mdlc --lsp, as an editor sees it, and as somebody sees it who wants it to fall."""
import json
import unittest

from lsp_client import Client
from mdlc_case import BAD, GOOD, SOURCE, WARNED, MdlcCase

PROGRAM = """\
resourceList fs is procedure { items { "read", "write" }; flavor { unix }; }
constraint inside /Code/*/* is counter {
  append preInsn $constraint[0].entry (* inside += 1; *)
}
metric m {
  name "m"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  constraint inside;
  counter t;
  base is counter {
    foreach func in fs {
      append preInsn func.entry constrained (* m++; t = $arg[0]; *)
    }
  }
}
"""
NOT_INITIALIZED, PARSE, INVALID, UNKNOWN, PARAMS = -32002, -32700, -32600, -32601, -32602


def place(text, word, nth=0, inside=1):
    """Line and character of the nth `word` of a text, a bit inside of it."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    before = text[:at]
    return before.count("\n"), at - (before.rfind("\n") + 1) + inside


class Lsp(MdlcCase):
    def client(self, *options):
        client = Client(*options, folder=self.folder)
        self.addCleanup(client.close)
        return client

    def started(self, *options):
        client = self.client(*options)
        client.start()
        return client

    # --- Life cycle ---

    def test_life_cycle(self):
        client = self.client()
        self.assertEqual(client.error("textDocument/hover", {}), NOT_INITIALIZED)
        client.tell("textDocument/didOpen", {})  # is dropped
        capabilities = client.start()
        self.assertEqual(capabilities["positionEncoding"], "utf-16")
        self.assertEqual(capabilities["textDocumentSync"]["change"], 1)
        self.assertEqual(client.error("initialize", {}), INVALID)
        self.assertEqual(client.error("no/method", {}), UNKNOWN)
        client.tell("$/nothing", {})
        self.assertIsNone(client.result("shutdown"))
        self.assertEqual(client.error("textDocument/hover", {}), INVALID)
        client.tell("exit")
        self.assertEqual(client.wait(), 0)

    def test_an_end_without_shutdown_is_a_failure(self):
        client = self.started()
        client.tell("exit")
        self.assertEqual(client.wait(), 1)
        client = self.started()
        client.process.stdin.close()
        self.assertEqual(client.process.wait(60), 1)

    def test_a_client_that_is_gone(self):
        client = self.started()
        client.process.stdout.close()
        for _ in range(3):
            try:
                client.tell("textDocument/didOpen", {"textDocument": {"uri": "file:///x", "version": 1, "text": BAD}})
            except BrokenPipeError:
                break
        self.assertEqual(client.process.wait(60), 1)

    # --- Diagnostics ---

    def test_diagnostics_follow_the_text(self):
        client = self.started()
        [error] = client.open("bad.mdl", BAD)
        line, character = place(BAD, "nobody", inside=0)
        self.assertEqual(error["range"], {"start": {"line": line, "character": character},
                                          "end": {"line": line, "character": character + len("nobody")}})
        self.assertEqual((error["severity"], error["code"], error["source"]), (1, "E0201", "mdlc"))
        self.assertEqual(client.change("bad.mdl", GOOD), [])
        [warning] = client.change("bad.mdl", WARNED, 3)
        self.assertEqual(warning["severity"], 2)
        client.tell("textDocument/didClose", {"textDocument": {"uri": client.uri("bad.mdl")}})
        self.assertEqual(client.published(), {"uri": client.uri("bad.mdl"), "diagnostics": []})
        self.assertEqual(client.error("textDocument/formatting", {"textDocument": {"uri": client.uri("bad.mdl")}}), PARAMS)
        self.assertEqual(client.stop(), 0)

    def test_notes_point_at_the_other_definition(self):
        client = self.started("good.mdl")
        [error] = client.open("twice.mdl", GOOD)
        [note] = error["relatedInformation"]
        self.assertEqual(note["location"]["uri"], client.uri("good.mdl"))

    def test_the_files_of_the_command_line_and_the_standard_metrics(self):
        redis = (SOURCE / "stdlib-metrics/redis.mdl").read_text()
        self.assertEqual(self.started().open("redis.mdl", redis), [])
        use = GOOD.replace("append", "foreach f in fs append").replace("$start.entry", "f.entry")
        self.assertEqual(len(self.started().open("use.mdl", use)), 1)
        self.source("list.mdl", 'resourceList fs is procedure { items { "f" }; flavor { unix }; }\n')
        client = self.started("list.mdl")
        self.assertEqual(client.open("use.mdl", use), [])
        client.open("list.mdl", "")  # what the editor has counts
        self.assertEqual(len(client.change("use.mdl", use)), 1)

    def test_columns_are_what_the_client_counts(self):
        text = BAD.replace("metric m {", 'metric m { // \U0001F600 \u00e4').replace("style", '/* \u00e4 */ style')
        line = 'exclude "/Code/\u00e4\U0001F600"; @\n'
        for encodings, character in (((), len('exclude "/Code/\u00e4') + 2 + len('"; ')),
                                     (("utf-8", "utf-16"), len('exclude "/Code/\u00e4\U0001F600"; '.encode()))):
            client = self.client()
            client.start(*encodings)
            [error] = client.open("x.mdl", line)
            self.assertEqual(error["range"]["start"], {"line": 0, "character": character})
            self.assertGreater(len(client.change("x.mdl", text)), 0)

    # --- Questions ---

    def hover(self, client, word, nth=0, text=PROGRAM):
        result = client.result("textDocument/hover", client.at("p.mdl", *place(text, word, nth)))
        return result["contents"]["value"] if result else ""

    def test_hover(self):
        client = self.started()
        self.assertEqual(client.open("p.mdl", PROGRAM), [])
        self.assertIn("resourceList fs is procedure", self.hover(client, "fs", 1))
        self.assertIn("read, write", self.hover(client, "fs", 1))
        self.assertIn("a procedure", self.hover(client, "func.entry"))
        self.assertIn("a point: entry", self.hover(client, "entry constrained"))
        self.assertIn("counter t\n", self.hover(client, "t = $arg"))
        self.assertIn("constraint inside /Code/*/* is counter", self.hover(client, "inside;"))
        self.assertIn("argument", self.hover(client, "$arg"))
        cost = self.hover(client, "append", 1)
        self.assertRegex(cost, r"`m_entry`: \d+ instructions?.*\(x86_64\)")
        self.assertIn("`inside_entry`: 1 instruction", self.hover(client, "append"))
        self.assertIn("`m_entry`", self.hover(client, "m++"))
        self.assertEqual(self.hover(client, "units"), "")

    def test_hover_without_a_plan(self):
        client = self.started()
        text = PROGRAM.replace("m++", "mm++")
        client.open("p.mdl", text)
        self.assertIn("a procedure", self.hover(client, "func.entry", text=text))
        self.assertNotIn("instruction", self.hover(client, "append", 1, text=text))

    def test_hover_below_a_wrong_path(self):
        client = self.started()
        text = PROGRAM.replace("/Code/*/*", "/Cod/*/*").replace("$constraint[0]", "$constraint")
        client.open("p.mdl", text)
        self.assertIn("a value of the process", self.hover(client, "$constraint", text=text))

    def test_definition(self):
        client = self.started("list.mdl")
        self.source("list.mdl", 'resourceList elsewhere is procedure { items { "f" }; flavor { unix }; }\n')
        text = PROGRAM.replace("in fs {", "in elsewhere {")
        client.open("p.mdl", text)
        for word, nth, target in (("func.entry", 0, "func in"), ("t = $arg", 0, "t;"), ("m++", 0, "m {"),
                                  ("inside;", 0, "inside /Code"), ("inside +=", 0, "inside /Code")):
            with self.subTest(word=word):
                found = client.result("textDocument/definition", client.at("p.mdl", *place(text, word, nth, 0)))
                self.assertEqual(found["uri"], client.uri("p.mdl"))
                wanted = place(text, " " + target, 0, 1)
                self.assertEqual((found["range"]["start"]["line"], found["range"]["start"]["character"]), wanted)
        found = client.result("textDocument/definition", client.at("p.mdl", *place(text, "elsewhere")))
        self.assertEqual(found["uri"], client.uri("list.mdl"))
        self.assertIsNone(client.result("textDocument/definition", client.at("p.mdl", *place(text, "$arg"))))
        self.assertIsNone(client.result("textDocument/definition", client.at("p.mdl", 99999, 99999)))

    def completion(self, client, text):
        """The labels at the `|` of a text."""
        at = text.index("|")
        client.change("p.mdl", text.replace("|", "", 1))
        before = text[:at]
        answer = client.result("textDocument/completion", client.at("p.mdl", before.count("\n"), at - before.rfind("\n") - 1))
        return {item["label"] for item in answer["items"]}

    def test_completion(self):
        client = self.started()
        client.open("p.mdl", PROGRAM)
        inside = PROGRAM[:PROGRAM.index("metric m")]
        metric = inside + 'metric m {\n  counter t;\n  '
        body = metric + "base is counter { foreach func in fs { "
        code = body + "append preInsn func.entry (* "
        constraint = inside + "constraint c /Code/* is counter { foreach f in $constraint[0].funcs { "
        for text, wanted, unwanted in (
            ("|", {"metric", "constraint", "foreach"}, {"units", "$arg"}),
            ("met|", {"metric"}, set()),
            (metric + "|", {"name", "units", "base", "aggregateOperator"}, {"metric", "items"}),
            (metric + "aggregateOperator |", {"sum", "max"}, {"name"}),
            (metric + "unitsType n|", {"normalized"}, {"sum"}),
            (metric + "constraint |", {"inside"}, {"fs"}),
            (metric + "base is |", {"counter", "wallTimer", "void"}, {"fs"}),
            (metric + "base is counter |", {"keyed"}, {"is"}),
            (metric + "base is counter keyed |", {"by"}, {"is"}),
            (metric + "base is counter keyed by |", {"$arg", "$caller", "symbol", "site"}, {"is", "number", "caller"}),
            (metric + "base is counter keyed by $arg[0], s|", {"str", "socket"}, {"is"}),
            (metric + "flavor { unix }; |", {"style"}, {"sum"}),
            ("resourceList l is |", {"procedure", "int"}, {"counter"}),
            ("resourceList l is procedure { |", {"items", "flavor", "library"}, {"name"}),
            ("daemon d { |", {"command", "host"}, {"items"}),
            (body + "|", {"append", "prepend", "foreach", "if"}, {"name", "fs"}),
            (body + "foreach g in |", {"fs", "func", "$procedures", "$modules"}, {"append", "$constraint"}),
            (body + "append |", {"preInsn", "postInsn", "func", "$start"}, {"units"}),
            (body + "append preInsn func.|", {"entry", "return", "name"}, {"funcs", "func"}),
            (body + "append preInsn func.en|", {"entry"}, {"funcs"}),
            (body + "append preInsn func.entry |", {"constrained"}, {"append"}),
            (body + "if (func.|", {"name"}, {"funcs"}),
            (body + "foreach c in $modules append preInsn c.|", {"funcs", "name"}, {"entry"}),
            (body + "append $start.|", {"entry"}, {"funcs"}),
            (code + "|", {"m", "t", "$arg", "$now", "$elapsed", "if", "readSymbol"}, {"setCounter", "fs", "append", "$constraint", "inside"}),
            (code + "m++; if (t > 0) { |", {"m", "t", "else"}, {"append"}),
            (code + "m++; *) |", {"append"}, {"m"}),
            (constraint + "append f.|", {"entry"}, {"funcs"}),
            (constraint + "append f.entry (* |", {"c", "$constraint"}, {"m"}),
            ("// a comment |", set(), {"metric"}),
            ('exclude "a string |"', set(), {"metric"}),
            ('exclude "an open string |', set(), {"metric"}),
        ):
            with self.subTest(text=text[-40:]):
                labels = self.completion(client, text)
                self.assertLessEqual(wanted, labels)
                self.assertFalse(unwanted & labels)
        self.assertEqual(client.stop(), 0)

    def test_formatting(self):
        client = self.started()
        client.open("p.mdl", GOOD)
        where = {"textDocument": {"uri": client.uri("p.mdl")}, "options": {"tabSize": 2, "insertSpaces": True}}
        [edit] = client.result("textDocument/formatting", where)
        self.assertEqual(edit["newText"], self.run_mdlc("--reformat", "good.mdl").stdout)
        self.assertEqual(edit["range"]["start"], {"line": 0, "character": 0})
        self.assertEqual(edit["range"]["end"], {"line": GOOD.count("\n"), "character": 0})
        client.change("p.mdl", edit["newText"])
        self.assertEqual(client.result("textDocument/formatting", where), [])
        client.change("p.mdl", "metric {")
        self.assertIsNone(client.result("textDocument/formatting", where))

    def test_quick_fixes(self):
        client = self.started()
        text = GOOD.replace("m++", "addCounter(m, 2)")
        client.open("p.mdl", text)
        line, character = place(text, "addCounter")
        where = client.at("p.mdl", line, character)
        spot = where.pop("position")
        [action] = client.result("textDocument/codeAction", where | {"range": {"start": spot, "end": spot}, "context": {}})
        self.assertEqual(action["kind"], "quickfix")
        edits = action["edit"]["changes"][client.uri("p.mdl")]
        self.assertEqual([e["newText"] for e in edits], ["", " += ", ""])

    # --- Hostile clients ---

    def refused(self, client, code):
        answer = client.receive()
        self.assertIsNone(answer["id"])
        self.assertEqual(answer["error"]["code"], code)

    def test_bad_framing(self):
        client = self.client()
        for data in (b"\r\n", b"Content-Length: x\r\n\r\n", b"Content-Length: -5\r\n\r\n", b"Content-Type: a\r\n\r\n",
                     b"Content-Length: 99999999999999999999999\r\n\r\n", b"Content-Length\r\n\r\n", b"x" * 5000 + b"\r\n\r\n",
                     b"A: b\r\n" * 100 + b"\r\n"):
            with self.subTest(data=data[:30]):
                client.send_bytes(data)
                self.refused(client, INVALID)
        client.send_bytes(b"Content-Length: 2\r\n" + b"x" * 2000 + b"\r\n\r\n{}")
        self.refused(client, INVALID)
        client.start()
        self.assertEqual(client.stop(), 0)

    def test_bad_messages(self):
        client = self.client()
        for text, code in (("", PARSE), ("{", PARSE), ("\x00", PARSE), ("[]", INVALID), ("1", INVALID), ("null", INVALID),
                           ('{"jsonrpc":"1.0","method":"initialize"}', INVALID), ('{"jsonrpc":"2.0"}', INVALID),
                           ('{"jsonrpc":"2.0","method":7}', INVALID), ("[" * 100000, PARSE),
                           ("[" * 100000 + "]" * 100000, INVALID), ('{"a":' * 100000 + "1" + "}" * 100000, INVALID),
                           ('{"jsonrpc":"2.0","id":{},"method":"initialize"}', INVALID),
                           ('[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', INVALID)):
            with self.subTest(text=text[:40]):
                client.send_text(text)
                self.refused(client, code)
        client.send_bytes(b"Content-Length: 3\r\n\r\n\"\xff\"")
        self.refused(client, PARSE)
        client.send({"jsonrpc": "2.0", "id": 5, "result": None})  # answers nothing
        client.start()
        self.assertEqual(client.stop(), 0)

    def test_bad_parameters(self):
        client = self.started()
        client.open("p.mdl", GOOD)
        at = client.at("p.mdl", 0, 0)
        for params in (None, 1, [], {}, {"textDocument": 1}, {"textDocument": {"uri": 5}}, {"textDocument": {"uri": "x"}},
                       at | {"position": 1}, at | {"position": {"line": "a", "character": 1}}, at | {"position": {}}):
            for method in ("hover", "definition", "completion"):
                self.assertEqual(client.error(f"textDocument/{method}", params), PARAMS)
        for spot in ((2**62, 2**62), (-1, -1), (1e300, 0), (0, 2**63)):
            client.ask("textDocument/hover", client.at("p.mdl", *spot))
        for method in ("didOpen", "didChange", "didClose"):
            for params in (None, {}, {"textDocument": {"uri": client.uri("p.mdl")}, "contentChanges": [{"text": 5}]},
                           {"textDocument": {"uri": client.uri("p.mdl")}, "contentChanges": [{"range": 1, "text": ""}]},
                           {"textDocument": {"uri": "untitled:1", "version": 1, "text": ["x"]}}):
                client.tell(f"textDocument/{method}", params)
        self.assertEqual(client.stop(), 0)

    def test_long_messages_are_dropped(self):
        client = self.started()
        size = 64 << 20
        client.send_bytes(b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 20):
            client.send_bytes(b" " * (1 << 20))
        self.refused(client, INVALID)
        with open(f"/proc/{client.process.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        self.assertLess(peak, 512 << 10)
        self.assertEqual(client.stop(), 0)

    def test_a_length_that_never_comes(self):
        client = self.client()
        client.send_bytes(b"Content-Length: 999999999999999\r\n\r\n" + b"x" * 100000)
        client.process.stdin.close()
        self.assertEqual(client.process.wait(60), 1)

    def test_texts_that_are_no_programs(self):
        client = self.started()
        self.assertEqual(client.open("p.mdl", "\x00")[0]["code"], "E0007")
        for text in ("{" * 10000, "(" * 10000, "metric m { base is counter { " + "append x (* " * 3000, "//" * 100000,
                     "\u00e4" * 5000, '"' * 9999, "foreach a in b " * 3000, "\r" * 1000 + "metric"):
            with self.subTest(text=text[:20]):
                client.change("p.mdl", text)
                for method in ("hover", "definition", "completion"):
                    client.result(f"textDocument/{method}", client.at("p.mdl", 0, len(text)))
                client.result("textDocument/formatting", {"textDocument": {"uri": client.uri("p.mdl")}})
        self.assertEqual(client.stop(), 0)

    def test_too_many_documents(self):
        client = self.started()
        for i in range(256):
            client.open(f"{i}.mdl", "")
        client.tell("textDocument/didOpen", {"textDocument": {"uri": client.uri("more.mdl"), "version": 1, "text": ""}})
        self.assertEqual(client.receive()["method"], "window/logMessage")
        client.tell("textDocument/didClose", {"textDocument": {"uri": client.uri("7.mdl")}})
        client.published()
        self.assertEqual(client.open("more.mdl", ""), [])
        self.assertEqual(client.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
