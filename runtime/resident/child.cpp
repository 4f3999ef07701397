#include "runtime/resident/child.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "runtime/arch/clock.h"
#include "runtime/arch/description.h"
#include "runtime/arch/target_data.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"
#include "runtime/resident/key_table.h"
#include "runtime/resident/thread_identity.h"
#include "runtime/values/cell_kinds.h"
#include "runtime/values/spans.h"

namespace mdl::resident {
namespace {

constexpr size_t kKeyWords = 5, kKeyEntries = 8, kKeyBase = 2;  // of a cell of keys, likewise
constexpr uint64_t kTotalsAtOnce = 4096;

// The data of one child.
class Copy {
 public:
  Copy(const Journal& journal, const process::TargetMemory& memory)
      : journal_(journal), layout_(journal.layout), memory_(memory) {}

  std::optional<uint64_t> word(uint64_t offset) const {
    uint64_t out = 0;
    if (!memory_.read(journal_.data.start + offset, std::as_writable_bytes(std::span(&out, 1)))) return {};
    return out;
  }
  bool write(uint64_t offset, std::span<const uint64_t> words) const {
    return memory_.write(journal_.data.start + offset, std::as_bytes(words));
  }
  bool write(uint64_t offset, uint64_t word) const { return write(offset, std::span(&word, 1)); }

  bool has_block_of(uint64_t thread) const {
    std::vector<uint64_t> pointers;
    return read_pointers(pointers) && std::any_of(pointers.begin(), pointers.end(), [&](uint64_t pointer) {
             return pointer != 0 && is_of(pointer, thread);
           });
  }

  // Empties everything but what the thread with this id keeps. Its block gets its id last: until then each of
  // its hits waits, and nobody else writes there.
  bool empty(uint64_t thread) const {
    std::vector<uint64_t> pointers;
    if (!read_pointers(pointers)) return false;
    std::optional<uint64_t> own;
    for (uint64_t slot = 0; slot < layout_.slots; slot++) {
      if (pointers[slot] == 0) continue;
      std::vector<uint64_t> block(layout_.stride / 8), before(block.size());
      if (!memory_.read(journal_.data.start + layout_.block(slot), std::as_writable_bytes(std::span(before))))
        return false;
      if (!own && is_of(pointers[slot], thread)) {
        own = layout_.block(slot);
        block = before;
        begin_anew(journal_, block, thread, arch::wall_ticks());
        block[kBlockThread / 8] = before[kBlockThread / 8];
      }
      if (!change(layout_.block(slot), before, block)) return false;
    }
    const auto is_empty = [&](const JournalTable& table) { return empty_table(table); };
    return empty_sums() && forget_running() && std::ranges::all_of(journal_.tables, is_empty) &&
           (!own || write(*own + kBlockThread, thread));
  }

 private:
  // Writes the pages that differ: what the child has not written it shares with its parent.
  bool change(uint64_t offset, std::span<const uint64_t> before, std::span<const uint64_t> after) const {
    constexpr size_t kWords = arch::kPage / sizeof(uint64_t);
    for (size_t at = 0; at < after.size(); at += kWords) {
      const std::span part = after.subspan(at, std::min(kWords, after.size() - at));
      if (!std::ranges::equal(part, before.subspan(at, part.size())) &&
          !write(offset + at * sizeof(uint64_t), part))
        return false;
    }
    return true;
  }

  // The thread pointers whose blocks there are, by slot; 0 where there is none.
  bool read_pointers(std::vector<uint64_t>& out) const {
    std::vector<uint64_t> directory(layout_.slots * 2);
    if (!memory_.read(journal_.data.start + layout_.directory(),
                      std::as_writable_bytes(std::span(directory))))
      return false;
    for (uint64_t slot = 0; slot < layout_.slots; slot++) out.push_back(directory[slot * 2]);
    return true;
  }

  // The C library's word says whose thread pointer this is. Where it cannot be read the thread is gone.
  bool is_of(uint64_t pointer, uint64_t thread) const {
    uint32_t id = 0;
    return memory_.read(pointer + layout_.thread_at, std::as_writable_bytes(std::span(&id, 1))) &&
           id == thread;
  }

  // Copies of ended threads' blocks that lie in the ring are the parent's: they count as taken.
  bool empty_sums() const {
    const std::vector<uint64_t> nothing(layout_.stride / 8);
    std::vector<uint64_t> taken = nothing;
    auto made = word(kHeaderEnded);
    if (!made) return false;
    taken[kSequenceWord] = *made;
    std::vector<uint64_t> before(layout_.stride / 8);
    const auto put = [&](uint64_t block, const std::vector<uint64_t>& words) {
      return memory_.read(journal_.data.start + block, std::as_writable_bytes(std::span(before))) &&
             change(block, before, words);
    };
    return put(layout_.taken_block(), taken) && put(layout_.ended_block(), nothing) &&
           put(layout_.overflow_block(), nothing) && write(kHeaderEnded + 8, 0) &&
           write(kHeaderOverflow, 0) && write(kHeaderExit, std::array<uint64_t, 3>{0, 0, 1});
  }

  // Calls that run were entered in the parent: what returns in the child has no duration there.
  bool forget_running() const {
    if (!layout_.times_calls) return true;
    const auto last = word(layout_.running() + kRunningLast);
    return last && write(layout_.running() + kRunningLeast, *last + 1);
  }

  // The keys stay known: their totals begin at 0.
  bool empty_table(const JournalTable& table) const {
    const KeyTableShape shape = table.shape();
    return empty_totals(table.at.start, shape.totals(), shape.most, shape.others()) &&
           (shape.own() == 0 ||
            empty_totals(table.at.start + shape.own(), shape.own_totals(), shape.most_own(), 1));
  }

  bool empty_totals(uint64_t table, uint64_t totals, uint64_t most, uint64_t others) const {
    uint64_t used = 0;
    if (!memory_.read(table + kTableUsed, std::as_writable_bytes(std::span(&used, 1)))) return false;
    used = std::min(used, most + others - 1) + 1;
    std::vector<uint64_t> words;
    for (uint64_t first = 0; first < used; first += kTotalsAtOnce) {
      words.resize(std::min(kTotalsAtOnce, used - first) * kTotalSize / 8);
      const uint64_t at = table + totals + first * kTotalSize;
      if (!memory_.read(at, std::as_writable_bytes(std::span(words)))) return false;
      for (size_t i = 0; i < words.size(); i += kTotalSize / 8) {
        words[i + 1] = words[i + kTotalCount / 8] = 0;
        if (first + i / (kTotalSize / 8) < others) words[i] = 0;  // nothing has been without room yet
      }
      if (!memory_.write(at, std::as_bytes(std::span(words)))) return false;
    }
    return true;
  }

  static constexpr size_t kSequenceWord = 2;  // of a block's header (layout.h)

  const Journal& journal_;
  const Layout& layout_;
  const process::TargetMemory& memory_;
};

}  // namespace

void begin_anew(const Journal& journal, std::span<uint64_t> block, uint64_t thread, uint64_t now) {
  const Layout& layout = journal.layout;
  std::vector<uint64_t> before(block.begin(), block.end());
  const auto base_word = [&](uint64_t offset) { return block[offset / 8]; };
  std::fill(block.begin(), block.begin() + kBlockHeader / 8, 0);
  block[kBlockThread / 8] = thread;
  block[kBlockDeferred / 8] = before[kBlockDeferred / 8];  // the frames are the child's, too
  if (layout.keeps_hit_time)                               // the hit that waits has read the counter before
    block[kBlockClock / 8] = block[kBlockBegan / 8] = block[kBlockAnew / 8] = now;
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(layout.sums / 8), block.end(), 0);
  for (size_t i = 0; i < journal.kinds.size(); i++)
    if (const auto anew = values::routines(journal.kinds[i]).anew) {
      uint64_t& word = block[layout.cells[i] / 8];
      word = anew(word, now);
    }
  for (const JournalRequest& request : journal.requests) {
    if (journal.kinds[request.value] != format::CellKind::span_) continue;
    const uint64_t at = layout.cells[request.value] / 8;
    const uint32_t base = journal.requests[request.of].value;
    block[at] = values::is_open(before[at]) ? values::open_span(0, base_word(layout.cells[base])) : 0;
  }
  if (const auto deferred = static_cast<std::ptrdiff_t>(layout.deferred / 8))
    std::copy_n(before.begin() + deferred, kDeferredBytes / 8, block.begin() + deferred);
  for (const JournalTable& table : journal.tables)
    for (size_t entry = 0; entry < kKeyEntries; entry++) {
      const size_t at = table.keys / 8 + entry * kKeyWords;
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(at), kKeyWords,
                  block.begin() + static_cast<std::ptrdiff_t>(at));
      block[at + kKeyBase] = base_word(table.base);
    }
}

void let_sharer_pass(pid_t pid, const Journal& journal, const process::TargetMemory& memory) {
  const auto own = static_cast<uint64_t>(process::read_status(pid).inner_pid);
  const Copy copy(journal, memory);
  auto lock = process::TransactionLock::take(pid, std::chrono::milliseconds(100));
  if (lock && own != 0 && is_in_place(journal, memory))
    copy.write(kHeaderSharer, std::array<uint64_t, 2>{own, 0});
}

void let_miss(pid_t pid, const Journal& journal, const process::TargetMemory& memory) {
  auto lock = process::TransactionLock::take(pid, std::chrono::milliseconds(100));
  if (lock && is_in_place(journal, memory)) Copy(journal, memory).write(kHeaderMissed, 1);
}

Result<Admitted> admit(pid_t pid, const Journal& journal, const process::TargetMemory& memory) {
  const Error gone{fmt::format("process {} has ended, or executes another program", pid)};
  auto lock = process::TransactionLock::take(pid, std::chrono::milliseconds(100));
  if (!lock) return lock.error();
  const Copy copy(journal, memory);
  const auto own = static_cast<uint64_t>(process::read_status(pid).inner_pid);
  auto missed = copy.word(kHeaderMissed);
  if (!missed || own == 0 || !is_in_place(journal, memory)) return gone;
  if (*missed) return Admitted::missed;
  // No block is the child's where its thread has never counted, where its C library does not know of the
  // fork, and while it has not run yet: its id is its parent's until then. Once its thread has been stopped,
  // it has.
  if (!copy.has_block_of(own)) {
    auto place = find_thread_place(pid, memory);
    if (!place) return place.error();
    if (*place != journal.layout.thread_at) return Admitted::foreign;
  }
  if (!copy.empty(own)) return gone;
  if (!copy.write(kHeaderProcess, own)) return gone;
  missed = copy.word(kHeaderMissed);
  if (!missed) return gone;
  return *missed ? Admitted::missed : Admitted::yes;
}

}  // namespace mdl::resident
