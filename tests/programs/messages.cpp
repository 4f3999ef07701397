// Messages with tags, and for each tag the truth of how often t_hit ran while it was active.
//
//   messages [SECONDS]
//
// t_recv(address, tag, ...) makes `tag` active at its entry, and its return lowers every tag that is active
// by one: what `if ($arg[1] == $constraint[0]) tag += 1` and `if (tag > 0) tag -= 1` do for every
// $constraint[0] at once. Answers carry {"hits":..,"tags":{"TAG":N,..},"blocks":{..}}, since the program's
// start; `blocks` likewise of the 64-byte block of `address`, from kBlocks on, which each return clears.
//
//   go N       four threads, N times each: nested calls, small tags and large ones, negative ones
//   throw N    the same; every third time an exception leaves the calls
//   raise N    likewise with a signal, sent to the thread itself, whose handler receives as well
//   many N     N different tags, one after the other
//   deep N     N calls inside each other, each with a tag of its own
//   quit       ends with status 0
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol.h"
#include "totals.h"

#define COUNTED extern "C" __attribute__((noinline, used))

namespace {

constexpr long kBlocks = 1 << 20, kBlockSize = 64;
enum class Leave { normally, by_throw, by_signal };

std::mutex mutex;
std::atomic<unsigned long> hits;
Totals all_tags, all_blocks;

struct Raised {
  unsigned long count;
  int frame;  // the outermost
};
struct Receiver {
  Random random;
  int frames = 0;
  Leave leave = Leave::normally;
  std::map<long, Raised> tags;
  std::map<long, Raised> blocks;
  Totals tag_totals, block_totals;

  void vanish(int height) {
    std::erase_if(tags, [&](const auto& tag) { return tag.second.frame > height; });
    std::erase_if(blocks, [&](const auto& block) { return block.second.frame > height; });
    frames = height;
  }
  void flush() {
    std::lock_guard lock(mutex);
    move_to(all_tags, tag_totals), move_to(all_blocks, block_totals);
  }
};
thread_local Receiver receiver;

long some_tag() {
  constexpr long kLarge[] = {INT64_MIN, INT64_MAX, -1, 1L << 40, -(1L << 33), 4096 * 4096, 0x7fffffff};
  if (receiver.random.next(4) == 0) return kLarge[receiver.random.next(std::size(kLarge))];
  return static_cast<long>(receiver.random.next(300));
}

}  // namespace

COUNTED void t_hit() {
  ++hits;
  for (const auto& [tag, raised] : receiver.tags) receiver.tag_totals[tag]++;
  for (const auto& [block, raised] : receiver.blocks) receiver.block_totals[block]++;
}

COUNTED void t_recv(long address, long tag, int levels) {
  const int frame = ++receiver.frames;
  auto raised = receiver.tags.try_emplace(tag, Raised{0, frame}).first;
  raised->second.count++;
  const long block = (address - kBlocks) / kBlockSize;
  if (address >= kBlocks && block < 100) receiver.blocks.try_emplace(block, Raised{1, frame});
  t_hit();
  if (levels > 0) {
    t_recv(kBlocks + static_cast<long>(receiver.random.next(200) * 40), some_tag(), levels - 1);
  } else if (receiver.leave == Leave::by_throw) {
    throw 1;
  } else if (receiver.leave == Leave::by_signal) {
    receiver.leave = Leave::normally;
    raise(SIGUSR1);
  }
  t_hit();
  for (auto& [active, what] : receiver.tags) what.count--;
  std::erase_if(receiver.tags, [](const auto& active) { return active.second.count == 0; });
  receiver.blocks.clear();
  --receiver.frames;
}

// Not t_recv, whose truth would be of more tags than are kept. The innermost call alone hits; nothing is a
// jump out.
COUNTED void t_deep(long tag, long until) {
  if (tag == until)
    t_hit();
  else
    t_deep(tag + 1, until);
  asm volatile("" ::: "memory");
}

COUNTED void t_outer() {
  const int height = receiver.frames;
  try {
    t_recv(0, some_tag(), 4);
  } catch (int) {
    receiver.vanish(height);
  }
  t_hit();
}

namespace {

void on_raise(int) {
  t_recv(kBlocks, some_tag(), 1);
}

void go(unsigned long rounds, Leave how) {
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([=] {
      receiver.random.state = seed;
      for (unsigned long i = 0; i < rounds; ++i) {
        receiver.leave = i % 3 == 2 ? how : Leave::normally;
        t_outer();
      }
      receiver.flush();
    });
  for (std::thread& thread : threads) thread.join();
}

void answer(const char* event) {
  receiver.flush();
  protocol::say_event(event, protocol::field("hits", hits) + ",\"tags\":" + object(all_tags) +
                                 ",\"blocks\":" + object(all_blocks));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  struct sigaction action {};
  action.sa_handler = on_raise;
  sigaction(SIGUSR1, &action, nullptr);
  answer("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      go(command.number, Leave::normally);
    } else if (command.word == "throw") {
      go(command.number, Leave::by_throw);
    } else if (command.word == "raise") {
      go(command.number, Leave::by_signal);
    } else if (command.word == "many") {
      for (unsigned long i = 0; i < command.number; ++i) t_recv(0, static_cast<long>(i * 7919), 0);
    } else if (command.word == "deep") {
      t_deep(0, static_cast<long>(command.number));
    } else {
      break;
    }
    answer("done");
  }
  return 0;
}
