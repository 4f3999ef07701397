"""Load for a server of the soak: clients that check every reply, in a process of their own.

    clients.py (redis|nginx|memcached|node) PORT CLIENTS

Says {"event":"ready"} when every client has had an answer. For each line on standard input it
answers {"done":N,"failed":[…]}: requests answered as they must be since the start, and what went
wrong. It ends with its input.
"""

import http.client
import json
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from redis_client import RedisClient  # noqa: E402

PATIENCE = 60.0  # seconds; a server that is stopped for longer has failed


class Redis:
    """Strings, lists, hashes, sorted sets, expiry, scripts and transactions, each with the reply it must have."""

    def __init__(self, port, number):
        self.client = RedisClient(port)
        self.name = f"client:{number}"

    def steps(self, turn):
        name, ask = self.name, self.client.command
        text = f"{turn}-{'x' * (turn % 3000)}"
        yield ask("SET", name, text), "OK"
        yield ask("GET", name), text
        yield ask("STRLEN", name), len(text)
        yield ask("RPUSH", name + ":list", *range(20)), 20
        yield ask("LRANGE", name + ":list", 5, 7), ["5", "6", "7"]
        yield ask("DEL", name + ":list"), 1
        yield ask("HSET", name + ":hash", "a", turn, "b", 2), 2
        yield ask("HINCRBY", name + ":hash", "a", 5), turn + 5
        yield ask("DEL", name + ":hash"), 1
        yield ask("ZADD", name + ":sorted", 3, "three", 1, "one", 2, "two"), 3
        yield ask("ZRANGE", name + ":sorted", 0, -1), ["one", "two", "three"]
        yield ask("DEL", name + ":sorted"), 1
        yield ask("EVAL", "local s = 0 for i = 1, ARGV[1] do s = s + i end return s", 0, 100), 5050
        yield ask("SET", name + ":short", 1, "PX", 1), "OK"
        yield ask("MULTI"), "OK"
        yield ask("INCR", name + ":n"), "QUEUED"
        yield ask("EXEC"), [turn + 1]
        try:
            yield ask("LPUSH", name, 1), "an error"
        except RuntimeError as error:
            yield str(error).split()[0], "WRONGTYPE"


class Web:
    """GET over one connection for some requests, then over another; bodies are compared."""

    def __init__(self, port, number, paths):
        self.port, self.paths, self.number = port, paths, number
        self.connection, self.first = None, {}

    def get(self, path):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def steps(self, turn):
        for offset in range(10):
            path, status = self.paths[(turn * 10 + offset + self.number) % len(self.paths)]
            got = self.get(path)
            yield got, (status, self.first.setdefault(path, got[1]))
        if turn % 5 == 4:
            self.connection.close()
            self.connection = None


class Memcached:
    """The text protocol: set, get, several at once, append, incr, cas, touch, delete."""

    def __init__(self, port, number):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.lines = self.socket.makefile("rb")
        self.key = f"client{number}"

    def ask(self, text, until=(b"STORED", b"END", b"DELETED", b"TOUCHED", b"NOT_FOUND", b"EXISTS")):
        self.socket.sendall(text.replace("\n", "\r\n").encode())
        lines = []
        while True:
            line = self.lines.readline()
            if not line.endswith(b"\r\n"):
                raise ConnectionError("the server closed the connection")
            lines.append(line[:-2].decode())
            if line[:-2] in until or line[:-2].isdigit() or b"ERROR" in line:
                return lines

    def steps(self, turn):
        key, text = self.key, "y" * (1 + turn * 37 % 4000) + "z"
        yield self.ask(f"set {key} 7 0 {len(text)}\n{text}\n"), ["STORED"]
        yield self.ask(f"get {key}\n"), [f"VALUE {key} 7 {len(text)}", text, "END"]
        yield self.ask(f"append {key} 0 0 1\n!\n"), ["STORED"]
        yield self.ask(f"get {key} none{key}\n"), [f"VALUE {key} 7 {len(text) + 1}", text + "!", "END"]
        unique = self.ask(f"gets {key}\n")[0].split()[4]
        yield self.ask(f"cas {key} 0 0 1 {unique}\n5\n"), ["STORED"]
        yield self.ask(f"cas {key} 0 0 1 {unique}\n6\n"), ["EXISTS"]
        yield self.ask(f"incr {key} {turn}\n"), [str(5 + turn)]
        yield self.ask(f"touch {key} 100\n"), ["TOUCHED"]
        yield self.ask(f"delete {key}\n"), ["DELETED"]
        yield self.ask(f"get {key}\n"), ["END"]


NGINX_PATHS = [("/small.txt", 200), ("/large.txt", 200), ("/missing", 404), ("/folder/", 200), ("/small.txt?q=1", 200),
               ("/rewritten/x", 302), ("/folder", 301)]
NODE_PATHS = [(f"/{number}", 200) for number in range(12)]
KINDS = {
    "redis": Redis,
    "memcached": Memcached,
    "nginx": lambda port, number: Web(port, number, NGINX_PATHS),
    "node": lambda port, number: Web(port, number, NODE_PATHS),
}


class Clients:
    def __init__(self, kind, port, count):
        self.lock, self.done, self.failed = threading.Lock(), 0, []
        self.ready = threading.Semaphore(0)
        for number in range(count):
            threading.Thread(target=self.run, args=(KINDS[kind], port, number), daemon=True).start()
        for _ in range(count):
            self.ready.acquire()

    def run(self, kind, port, number):
        turn = 0
        try:
            client = kind(port, number)
            while True:
                for got, wanted in client.steps(turn):
                    with self.lock:
                        self.done += 1
                        if got != wanted:
                            self.failed.append(f"client {number}, turn {turn}: {got!r:.200}, not {wanted!r:.200}")
                turn += 1
                if turn == 1:
                    self.ready.release()
                time.sleep(0.001)  # some idle time: servers sleep and wake
        except (OSError, RuntimeError, ValueError, IndexError, http.client.HTTPException) as error:
            with self.lock:
                self.failed.append(f"client {number}, turn {turn}: {error!r}")
        self.ready.release()


def main():
    clients = Clients(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps({"event": "ready"}), flush=True)
    for _ in sys.stdin:
        with clients.lock:
            print(json.dumps({"done": clients.done, "failed": clients.failed[:20]}), flush=True)


if __name__ == "__main__":
    main()
