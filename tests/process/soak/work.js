// What node does in the soak: pieces of work whose results are known from the first time, over and over on the main
// thread and on a worker, so that every tier of the compiler has its turn; and a web server on the port that is
// its argument, whose answers are such results. Says {"event":"ready"}, and {"done":N,"failed":[…]} for each line on
// standard input.
"use strict";
const crypto = require("crypto");
const http = require("http");
const zlib = require("zlib");
const { Worker, isMainThread, parentPort } = require("worker_threads");

function numbers(seed, count) {
  const found = [];
  let x = (seed * 2654435761 + 12345) >>> 0;
  for (let i = 0; i < count; i++) {
    x ^= x << 13; x >>>= 0;
    x ^= x >>> 17;
    x ^= x << 5; x >>>= 0;
    found.push(x);
  }
  return found;
}

const kernels = {
  recursion: (seed) => { const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); return fib(12 + (seed % 5)); },
  sorting: (seed) => numbers(seed, 300).sort((a, b) => (a % 1000) - (b % 1000) || a - b).join(),
  floats: (seed) => {
    const data = Float64Array.from(numbers(seed, 400), (n) => n / 7);
    let sum = 0;
    for (let turn = 0; turn < 5; turn++)
      for (let i = 1; i < data.length; i++) { data[i] = Math.sqrt(data[i] * data[i - 1] + 1); sum += data[i]; }
    return sum;
  },
  shapes: (seed) => {  // property accesses that stop being of one kind: deoptimization
    class A { constructor(n) { this.n = n; } get() { return this.n; } }
    class B { constructor(n) { this.x = 1; this.n = n; } get() { return this.n + this.x; } }
    const all = numbers(seed, 200).map((n) => (n % 3 ? new A(n) : n % 2 ? new B(n) : { get: () => n, n: String(n) }));
    return all.reduce((sum, one) => (sum + one.get()) % 1000000007, 0);
  },
  exceptions: (seed) => {
    const deep = (n) => { try { if (n === 0) throw new RangeError(String(seed)); return deep(n - 1); }
                          finally { count++; } };
    let count = 0;
    try { deep(30); } catch (error) { return error.message + ":" + count; }
    return "nothing was thrown";
  },
  text: (seed) => numbers(seed, 100).map((n) => n.toString(16)).join(" ")
    .replace(/([a-f]+)(\d+)/g, (_, letters, digits) => digits + letters.toUpperCase()).split(/\s+/).length + ":" + seed,
  documents: (seed) => JSON.stringify(JSON.parse(JSON.stringify(
    numbers(seed, 60).map((n) => ({ n, half: n / 2, list: [n, null, true, "é" + n] }))))),
  packing: (seed) => {
    const data = Buffer.from(Uint32Array.from(numbers(seed, 500)).buffer);
    return zlib.inflateSync(zlib.deflateSync(data)).equals(data) + crypto.createHash("sha256").update(data).digest("hex");
  },
  big: (seed) => ((3n ** BigInt(150 + seed)) % (2n ** 127n - 1n)).toString(),
  maps: (seed) => {
    const map = new Map(numbers(seed, 200).map((n) => ["k" + (n % 50), n]));
    return [...map.keys()].sort().join() + map.size;
  },
  garbage: (seed) => { let list = null; for (const n of numbers(seed, 2000)) list = { n, list }; return list.n; },
  generators: (seed) => {
    function* walk(n) { if (n) { yield* walk(n - 1); yield n; } }
    let sum = 0;
    for (const n of walk(15)) sum += n * seed;
    return sum;
  },
};
const names = Object.keys(kernels);
const seeds = 7;

// Calls found() for each result; pauses, and gives way to events, every few milliseconds.
function runForEver(found) {
  const expected = new Map();
  let turn = 0;
  const some = () => {
    const until = Date.now() + 3;
    while (Date.now() < until) {
      const name = names[turn % names.length], seed = turn % seeds, key = name + "(" + seed + ")";
      const got = kernels[name](seed);
      if (!expected.has(key)) expected.set(key, got);
      found(got === expected.get(key) ? null : `${key}: ${String(got).slice(0, 200)}`);
      turn++;
    }
    if (turn % 3) setImmediate(some); else setTimeout(some, 2);
  };
  some();
}

if (!isMainThread) {
  let done = 0;
  runForEver((failure) => {
    done++;
    if (failure) parentPort.postMessage({ done, failure });
    else if (done % 100 === 0) { parentPort.postMessage({ done }); }
    if (done % 100 === 0) done = 0;
  });
} else {
  let done = 0;
  const failed = [];
  const worker = new Worker(__filename);
  worker.on("message", (message) => { if (message.failure) failed.push("worker: " + message.failure); else done += message.done; });
  worker.on("error", (error) => failed.push("worker: " + error));
  // Answers through the thread pool, so that its threads have something to do.
  http.createServer((request, response) => {
    const seed = Number(request.url.slice(1));
    const body = names.map((name) => name + "=" + kernels[name](seed)).join("\n");
    zlib.gzip(body, (error, packed) => {
      if (error) { response.statusCode = 500; response.end(String(error)); return; }
      crypto.pbkdf2("soak", String(seed), 20, 32, "sha256", (bad, key) => {
        response.statusCode = bad ? 500 : 200;
        response.end(zlib.gunzipSync(packed).toString() + (key ? key.toString("hex") : ""));
      });
    });
  }).listen(Number(process.argv[2]), "127.0.0.1", () => {
    runForEver((failure) => { done++; if (failure) failed.push(failure); });
    console.log(JSON.stringify({ event: "ready" }));
  });
  process.stdin.on("data", (text) => {
    for (const _ of String(text).matchAll(/\n/g)) console.log(JSON.stringify({ done, failed: failed.slice(0, 20) }));
  });
  process.stdin.on("end", () => process.exit(0));
}
