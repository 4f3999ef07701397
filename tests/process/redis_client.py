"""A few lines of the Redis protocol, so that a test knows exactly which commands it sent
(redis-cli may send more than it was given) and sees every reply.
"""

import socket
import threading


class RedisClient:
    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._stream = self._socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._stream.close()
        self._socket.close()

    def command(self, *words):
        """One command; its reply as str, int, list or None. An error reply is a RuntimeError."""
        self.send(*words)
        return self.reply()

    def send(self, *words):
        encoded = [str(word).encode() for word in words]
        bulks = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        self._socket.sendall(b"*%d\r\n" % len(encoded) + bulks)

    def reply(self):
        line = self._stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self._stream.read(length + 2)[:-2].decode()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        raise RuntimeError(f"a reply that begins with {line[:20]!r}")

    def info(self, section):
        """INFO as a dictionary. Neither the command nor its reply is counted in what it returns;
        `reply_bytes` is how long that reply was."""
        text = self.command("INFO", section)
        pairs = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        pairs["reply_bytes"] = str(len(f"${len(text)}\r\n") + len(text) + 2)
        return pairs


class Load:
    """Clients that set and get until they are told to stop, and check every reply."""

    def __init__(self, port, clients=4):
        self._stop = threading.Event()
        self._port = port
        self.requests = 0
        self.failures = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, number):
        done = 0
        try:
            with RedisClient(self._port) as client:
                while not self._stop.is_set():
                    value = f"{number}-{done}"
                    if client.command("SET", f"load:{number}", value) != "OK":
                        raise RuntimeError("SET failed")
                    if client.command("GET", f"load:{number}") != value:
                        raise RuntimeError("GET returned another value")
                    done += 2
        except (OSError, RuntimeError, ValueError) as error:
            self.failures.append(f"client {number} after {done} requests: {error!r}")
        with self._lock:
            self.requests += done

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
