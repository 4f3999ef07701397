// Whose threads and memory a broker touches: the process that was named by the operator, its descendants, and what runs
// in the memory of one of them, or in a copy of it; of these, such as have no more rights than the named one had.
//
// Whoever asks may have been taken over by what it parses, which is made by the owner of the named process. He must gain
// nothing that he has not got: neither a process of somebody else, nor a program that has more rights than his own.
// The kernel does not help here, since the broker may be root. So the rights are compared before a call that takes hold
// of a thread or its memory, and once more behind it (judgement.cpp): a process may execute a set-user-ID program at any moment.
//
// A process is known by its id and the time of its start, which together come only once.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mdl::kernel {

// From /proc/PID/status, by user namespaces.
struct Rights {
  std::vector<uint32_t> uids, gids;  // real, effective, saved, of files; groups too
  uint64_t capabilities = 0;         // that it may use or could
  std::string users;                 // the user namespace, as ns/user shows it
};

// `ours`: the namespace of who compares. In its own namespace a process's capabilities count; in one below they mean
// nothing to others; and who was named in one below has no business in ours.
bool within(const Rights& rights, const Rights& named, const std::string& ours);

// The process of a thread, by its status in /proc; 0 where there is none.
pid_t group_of(std::string_view status);

// While it lives, files are opened as the owner of this process could open them (setfsuid(2)), so that nobody is shown
// what he may not see himself. Where that is not allowed, has_worked() is false.
class AsOwner {
 public:
  explicit AsOwner(pid_t pid);
  AsOwner(const AsOwner&) = delete;
  AsOwner& operator=(const AsOwner&) = delete;
  ~AsOwner();
  bool has_worked() const { return worked_; }

 private:
  std::vector<gid_t> groups_;
  bool changed_ = false, worked_ = false;
};

// Those that this process has and could use.
uint64_t own_capabilities();
inline constexpr uint64_t kSetsGroup = uint64_t{1} << 6,
                          kSetsUser = uint64_t{1} << 7;  // CAP_SETGID, CAP_SETUID

class Family {
 public:
  // 0: nobody, until a program is adopted.
  explicit Family(pid_t named);
  void adopt(pid_t started);
  bool is_empty() const { return !named_; }
  pid_t head() const { return head_; }       // which was named, or started
  uint64_t since() const { return since_; }  // when it started
  bool is_peer(const Family& other) const;   // whether the one that was named has the same rights
  bool is_over() const;                      // nobody of it is left, as far as it is known
  bool has(pid_t process) const { return known_.contains(process); }
  // Of those that have been asked about already, the same process still.
  bool is_known(pid_t process) const;
  // Of a thread or a process. EPERM in errno when it may not be touched, ESRCH when it is not there.
  bool may_touch(pid_t tid);
  // Whether a thread of a known process has no more rights than the named one had. `status`: as /proc has it.
  bool are_within(pid_t tid, std::string_view status) const;
  // Its memory was opened: what is copied from it from here on is of the family.
  void take(pid_t tid);

 private:
  void remember(pid_t process, uint64_t start);
  bool belongs(pid_t process, int depth);
  bool is_orphan(pid_t process, pid_t parent) const;

  std::string ours_;
  pid_t head_ = 0;
  std::optional<Rights> named_;
  uint64_t since_ = 0;               // when the named one started
  std::map<pid_t, uint64_t> known_;  // with the times of their start
  // Their auxiliary vectors, in which the kernel has put addresses of its own choice: a copy that fork(2) makes has the
  // same, and no other.
  std::set<std::string> vectors_;
};

}  // namespace mdl::kernel
