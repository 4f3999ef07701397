// A Rust program with threads, generics, methods, trait objects and panics, which knows its own counts.
//
//   rusty
//
// Commands: `go N` calls everything N times on this thread and on three others; `panic N` lets N panics pass through
// `risky`. Answers carry the counts since the start: "leaf", "twice" (both instances), "area" (both shapes), "risky", and
// "inside", the calls of leaf while risky was on the stack.
use std::io::{BufRead, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

static LEAF: AtomicU64 = AtomicU64::new(0);
static TWICE: AtomicU64 = AtomicU64::new(0);
static AREA: AtomicU64 = AtomicU64::new(0);
static RISKY: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);

// What the optimizer cannot see through; std::hint::black_box is newer than Debian 12's compiler.
fn black_box<T>(value: T) -> T {
    unsafe {
        let kept = std::ptr::read_volatile(&value);
        std::mem::forget(value);
        kept
    }
}

#[inline(never)]
fn leaf(x: u64) -> u64 {
    LEAF.fetch_add(1, Relaxed);
    black_box(x + 1)
}

#[inline(never)]
fn twice<T: Copy + std::ops::Add<Output = T>>(x: T) -> T {
    TWICE.fetch_add(1, Relaxed);
    black_box(x + x)
}

trait Shape {
    fn area(&self) -> u64;
}
struct Square(u64);
struct Line;
impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        AREA.fetch_add(1, Relaxed);
        self.0 * self.0
    }
}
impl Shape for Line {
    #[inline(never)]
    fn area(&self) -> u64 {
        AREA.fetch_add(1, Relaxed);
        0
    }
}

#[inline(never)]
fn risky(x: u64, fails: bool) -> u64 {
    RISKY.fetch_add(1, Relaxed);
    INSIDE.fetch_add(1, Relaxed);
    let y = leaf(x);
    if fails {
        panic!("as asked");
    }
    INSIDE.fetch_add(1, Relaxed);
    black_box(leaf(y) + 1)
}

fn everything(n: u64) {
    let shapes: [Box<dyn Shape>; 2] = [Box::new(Square(3)), Box::new(Line)];
    for i in 0..n {
        leaf(i);
        twice(i as u32);
        twice(i as f64);
        for shape in black_box(&shapes) {
            black_box(shape.area());
        }
        risky(i, false);
    }
}

fn say(event: &str) {
    println!(
        "{{\"event\":\"{}\",\"leaf\":{},\"twice\":{},\"area\":{},\"risky\":{},\"inside\":{}}}",
        event, LEAF.load(Relaxed), TWICE.load(Relaxed), AREA.load(Relaxed), RISKY.load(Relaxed), INSIDE.load(Relaxed)
    );
    std::io::stdout().flush().unwrap();
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    say("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (word, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let n: u64 = number.parse().unwrap();
        match word {
            "go" => {
                let threads: Vec<_> = (0..3).map(|_| thread::spawn(move || everything(n))).collect();
                everything(n);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
            "panic" => {
                for i in 0..n {
                    assert!(panic::catch_unwind(|| risky(i, true)).is_err());
                }
            }
            _ => break,
        }
        say("done");
    }
}
