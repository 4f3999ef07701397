// The processes that have the code of one insertion: the one that got it, and the children that are forked by
// it. Finds those and lets them count (--follow-fork).
//
// A child that is about to count something for the first time writes its pid to the news, a page that it
// shares with all of its family, and waits (resident/child.h). A child that counts nothing is found in /proc,
// by the journal at its place: however the family has been torn apart meanwhile (a daemon's parent ends).
//
// A thread that is about to execute a program writes its id there, too, and waits until it is answered.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/process/target_memory.h"
#include "runtime/resident/journal.h"
#include "runtime/session/options.h"
#include "runtime/session/watch.h"

namespace mdl::inject {

class Measurement;

class Follow {
 public:
  // A copy of the session is kept; the options outlive it.
  Follow(const resident::Journal& session, const SessionOptions& options);

  struct Child {
    ProcessHandle process;
    resident::Journal journal;
    process::TargetMemory memory;
  };
  // Children that have been admitted now. `measured`: all processes that are; `thoroughly`: looks at all
  // processes, not at the news alone. Children that cannot be measured are reported on standard error.
  // `busy`: of processes that cannot be stopped just now, and are looked at later.
  std::vector<Child> look(std::span<const Measurement* const> measured, bool thoroughly,
                          const std::function<bool(pid_t)>& busy);

  // Whether the news have nothing that look() and asking() would act on.
  bool is_quiet(std::span<const Measurement* const> measured) const;

  // From now on a thread that is about to execute a program asks before.
  void expect_programs(std::span<const Measurement* const> measured);
  // Threads of the family that do, as of the last look(). Others that claim to be are answered here.
  struct Asker {
    pid_t tid, process;
    uint64_t place;  // of the answer, in the news
    std::optional<process::TargetMemory> memory;
  };
  std::vector<Asker> asking(std::span<const Measurement* const> measured);
  // Lets it go on. False when that cannot be said now: it waits, and is found again.
  bool answer(const Asker& asker, std::span<const Measurement* const> measured);
  // Nobody asks any more, and who does goes on.
  void ignore_programs(std::span<const Measurement* const> measured);

  // With --detach: whoever is forked from now on does not wait.
  void leave(std::span<const Measurement* const> measured);
  // Whether there are children that are not measured.
  bool has_unmeasured() const { return !unmeasured_.empty(); }
  const resident::Journal& session() const { return session_; }
  // Takes the code out of children that are not measured.
  void clean();

 private:
  using Measured = std::span<const Measurement* const>;

  bool write(Measured measured, uint64_t offset, std::span<const uint64_t> words) const;
  // Who has not been waited for, or has waited in vain, as the news count them.
  struct Missed {
    uint64_t forks = 0, programs = 0;
    bool operator==(const Missed&) const = default;
  };
  struct News {
    const Measurement* reader;  // through whose memory they were seen
    uint64_t made, nobody;
    Missed missed;
    bool any_asks;
  };
  std::optional<News> see_news(Measured measured) const;  // nothing where nobody shows them
  void say_missed(Missed now);
  void read_news(Measured measured);
  void look_everywhere(Measured measured);
  void consider(pid_t pid, Measured measured);
  void admit(pid_t pid);
  void give_up(pid_t pid, const std::string& why);
  void clean(pid_t pid);
  bool is_young(pid_t pid) const;
  bool is_family(pid_t pid) const;

  resident::Journal session_;
  const SessionOptions& options_;
  uint64_t since_;     // no child is older
  uint64_t read_ = 0;  // entries of the news
  Missed missed_;
  bool may_ask_ = true;      // threads, as far as was seen last
  bool incomplete_ = false;  // the news name somebody who is not there: in another pid namespace, or ended
  std::set<pid_t> others_;   // processes that are not of the family, or not measured
  std::set<pid_t> admitted_;
  std::vector<pid_t> unmeasured_;
  std::vector<Child> found_;
  std::function<bool(pid_t)> busy_;
};

}  // namespace mdl::inject
