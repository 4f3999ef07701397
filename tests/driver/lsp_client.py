"""A scripted client of mdlc --lsp."""
import contextlib
import json
import os
import subprocess
import urllib.parse

TIMEOUT_S = 60


class Client:
    def __init__(self, *options, folder):
        self.process = subprocess.Popen([os.environ["MDLC"], "--lsp", *options], cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.folder = folder
        self.ids = 0
        self.notes = []

    # --- Bytes ---

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send_text(self, text):
        body = text.encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def send(self, message):
        self.send_text(json.dumps(message))

    def receive(self):
        length = None
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            if name == b"Content-Length":
                length = int(value)
        if length is None:
            raise EOFError
        return json.loads(self.process.stdout.read(length))

    # --- Messages ---

    def ask(self, method, params=None):
        """The answer to a request; notifications before it are kept in `notes`."""
        self.ids += 1
        self.send({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.ids:
                return message
            self.notes.append(message)

    def result(self, method, params=None):
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None):
        return self.ask(method, params)["error"]["code"]

    def tell(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def start(self, *encodings):
        capabilities = {"general": {"positionEncodings": list(encodings)}} if encodings else {}
        result = self.result("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        self.tell("initialized", {})
        return result["capabilities"]

    def stop(self):
        """The exit status after a regular end."""
        self.result("shutdown")
        self.tell("exit")
        return self.wait()

    def wait(self):
        status = self.process.wait(TIMEOUT_S)
        self.close()
        return status

    def close(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # of what a server that is gone has not taken
            self.process.stdin.close()
        self.process.stdout.close()

    # --- Documents ---

    def uri(self, name):
        return "file://" + urllib.parse.quote(str(self.folder / name))

    def published(self):
        """The next published diagnostics."""
        while True:
            message = self.notes.pop(0) if self.notes else self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                return message["params"]

    def open(self, name, text):
        self.tell("textDocument/didOpen", {"textDocument": {"uri": self.uri(name), "languageId": "mdl", "version": 1,
                                                            "text": text}})
        return self.published()["diagnostics"]

    def change(self, name, text, version=2):
        self.tell("textDocument/didChange", {"textDocument": {"uri": self.uri(name), "version": version},
                                             "contentChanges": [{"text": text}]})
        return self.published()["diagnostics"]

    def at(self, name, line, character):
        return {"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}}
