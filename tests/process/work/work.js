// What a JavaScript program does, so that much of node runs: each line "go" on standard input is one round, answered
// by a digest of all its results, which is the same each time.
'use strict';
const crypto = require('crypto');
const http = require('http');
const readline = require('readline');
const vm = require('vm');
const zlib = require('zlib');

function exceptions(n) {
  const seen = [];
  function fail(depth) {
    try {
      if (depth === 0) throw new TypeError('n' + n);
      return fail(depth - 1);
    } catch (error) {
      throw new RangeError('d' + depth, {cause: error});
    } finally {
      seen.push(depth);
    }
  }
  for (let depth = 0; depth < n; depth++) {
    try {
      fail(depth);
    } catch (error) {
      seen.push(error.message + error.cause.name);
    }
  }
  return seen;
}

function* fibonacci(n) {
  let [a, b] = [0n, 1n];
  for (let i = 0; i < n; i++) {
    yield a;
    [a, b] = [b, a + b];
  }
}

// Hot enough for the optimizing compiler, and then given what it did not expect.
function hot(n) {
  const add = (a, b) => a + b;
  let sum = 0;
  for (let i = 0; i < n; i++) sum = add(sum, i % 7);
  return [sum, add('x', 1), add(1.5, 2), Math.hypot(sum, 3).toFixed(6)];
}

class Shape {
  #size;
  constructor(size) { this.#size = size; }
  get area() { return this.#size * 2; }
  static of(i) { return i % 2 ? new Shape(i) : new Square(i); }
}
class Square extends Shape {
  get area() { return super.area ** 2; }
}

function collections(n) {
  const map = new Map(), set = new Set(), weak = new WeakMap();
  for (let i = 0; i < n; i++) {
    const key = {i};
    map.set('k' + i % 50, (map.get('k' + i % 50) || 0) + Shape.of(i % 9).area);
    set.add(i * 31 % 101);
    weak.set(key, i);
  }
  const numbers = Float64Array.from({length: n}, (_, i) => Math.sin(i));
  numbers.sort();
  return [[...map].slice(0, 9), set.size, numbers[n >> 1].toFixed(9), new Proxy([1, 2], {get: (t, k) => t[k]})[1]];
}

function text(n) {
  const words = Array.from({length: n}, (_, i) => `word${i % 17}-${i.toString(16)}\u00e9`);
  const joined = words.join(' ');
  return [joined.replace(/(\w+)-(\w+)/gu, '$2:$1').slice(0, 100), JSON.stringify(JSON.parse(JSON.stringify({words}))).length,
          words.sort((a, b) => a < b ? 1 : -1).slice(0, 5), encodeURIComponent(joined).length,
          joined.normalize('NFD').length, new Intl.NumberFormat('en').format(1234567.891)];
}

function bytes(n) {
  const data = Buffer.alloc(n, 'abcdefg\u4e16');
  const back = zlib.inflateSync(zlib.deflateSync(data));
  return [crypto.createHash('sha256').update(back).digest('hex'), back.equals(data), data.readDoubleLE(8),
          zlib.brotliDecompressSync(zlib.brotliCompressSync(data)).length];
}

function request(server) {
  return new Promise((resolve, reject) => {
    http.get({port: server.address().port, host: '127.0.0.1', agent: false}, (answer) => {
      let body = '';
      answer.on('data', (chunk) => body += chunk);
      answer.on('end', () => resolve(body));
    }).on('error', reject);
  });
}

async function network(n) {
  const server = http.createServer((_, answer) => answer.end('hello'.repeat(100)));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bodies = [];
  for (let i = 0; i < n; i++) bodies.push((await request(server)).length);
  await new Promise((resolve) => server.close(resolve));
  return bodies;
}

async function tasks(n) {
  const results = await Promise.allSettled(Array.from({length: n}, async (_, i) => {
    await null;
    await new Promise((resolve) => setImmediate(resolve));
    if (i % 5 === 0) throw new Error('e' + i);
    return i * i;
  }));
  return results.map((one) => one.value ?? one.reason.message);
}

async function roundOfWork() {
  const results = [exceptions(12), [...fibonacci(90)].map(String), hot(200000), collections(2000), text(300),
                   bytes(20000), await network(3), await tasks(40), vm.runInNewContext('[1, 2, 3].map((x) => x * 7)'),
                   eval('(function () { return arguments.length; })(1, 2, 3)')];
  return crypto.createHash('sha256').update(JSON.stringify(results)).digest('hex');
}

function say(event, digest) {
  process.stdout.write(JSON.stringify({event, digest}) + '\n');
}

async function main() {
  say('ready', await roundOfWork());
  for await (const line of readline.createInterface({input: process.stdin})) {
    const [word, count] = line.trim().split(' ');
    if (word !== 'go') break;
    const digests = new Set();
    for (let i = 0; i < Number(count || 1); i++) digests.add(await roundOfWork());
    say('done', [...digests].sort().join(' '));
  }
  process.exit(7);
}

main();
