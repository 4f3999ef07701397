"""What CPython does in the soak: pieces of work whose results are known from the first time, over and over in
two threads. Says {"event":"ready"}, and {"done":N,"failed":[…]} for each line on standard input."""

import array
import collections
import decimal
import hashlib
import itertools
import json
import re
import sqlite3
import sys
import threading
import time
import zlib


def numbers(seed, count):
    found = []
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        found.append(seed >> 33)
    return found


def recursion(seed):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)
    return fib(10 + seed % 4)


def sorting(seed):
    values = numbers(seed, 300)
    by_digits = sorted(values, key=lambda value: str(value)[::-1])
    return hashlib.sha256(repr((sorted(values), by_digits)).encode()).hexdigest()


def exceptions(seed):
    def deep(n):
        try:
            if n == 0:
                raise ValueError(seed)
            return deep(n - 1)
        except ValueError as error:
            if n % 7 == 3:
                raise KeyError(n) from error
            raise
    try:
        deep(20)
    except (KeyError, ValueError) as error:
        return repr(error), repr(error.__cause__)[:20]


def text(seed):
    words = " ".join(format(value, "x") for value in numbers(seed, 200))
    found = re.sub(r"([a-f]+)(\d+)", lambda match: match[2] + match[1].upper(), words)
    return hashlib.md5(found.encode()).hexdigest(), len(re.findall(r"(\d)\1", words))


def packing(seed):
    data = array.array("Q", numbers(seed, 500)).tobytes()
    return zlib.crc32(zlib.compress(data, 6)), hashlib.blake2b(zlib.decompress(zlib.compress(data))).hexdigest()


def documents(seed):
    tree = {str(n): {"value": n, "list": [n, None, True, n / 3]} for n in numbers(seed, 40)}
    return json.loads(json.dumps(tree)) == tree, hashlib.sha1(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def arithmetic(seed):
    base = 3 ** (200 + seed) + seed
    with decimal.localcontext() as context:
        context.prec = 50
        root = decimal.Decimal(seed + 2).sqrt().exp()
    return pow(base, 65537, 2 ** 521 - 1), str(root), sum(x / (n + 1) for n, x in enumerate(numbers(seed, 100)))


def generators(seed):
    def walk(n):
        if n:
            yield from walk(n - 1)
            yield n
    pairs = itertools.islice(itertools.combinations(walk(12), 3), seed, seed + 50)
    return collections.Counter(sum(pair) for pair in pairs).most_common(5)


def database(seed):
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t(a integer primary key, b text)")
        connection.executemany("insert into t(b) values (?)", [(str(n),) for n in numbers(seed, 50)])
        return connection.execute("select sum(a), max(b), count(distinct substr(b, 1, 2)) from t").fetchall()


KERNELS = [recursion, sorting, exceptions, text, packing, documents, arithmetic, generators, database]
SEEDS = 5


def main():
    expected = {(kernel, seed): kernel(seed) for kernel in KERNELS for seed in range(SEEDS)}
    done, failed, lock = [0], [], threading.Lock()

    def run(first):
        turn = first
        while True:
            key = KERNELS[turn % len(KERNELS)], turn % SEEDS
            try:
                got = key[0](key[1])
            except Exception as error:  # whatever it is, it is a failure
                got = error
            with lock:
                done[0] += 1
                if got != expected[key]:
                    failed.append(f"{key[0].__name__}({key[1]}): {got!r:.200}, not {expected[key]!r:.200}")
            turn += 1
            if turn % 50 == 0:
                time.sleep(0.002)

    for first in range(2):
        threading.Thread(target=run, args=(first,), daemon=True).start()
    print(json.dumps({"event": "ready"}), flush=True)
    for _ in sys.stdin:
        with lock:
            print(json.dumps({"done": done[0], "failed": failed[:20]}), flush=True)


main()
