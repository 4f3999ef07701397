#include "runtime/kernel/rights.h"

#include <grp.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/proc_text.h"
#include "runtime/kernel/direct.h"

namespace mdl::kernel {
namespace {

constexpr int kGenerations = 64;

template <typename Number>
Number number(std::string_view text, int base = 10) {
  Number out{};
  std::from_chars(text.data(), text.data() + text.size(), out, base);
  return out;
}

void add_numbers(std::string_view text, std::vector<uint32_t>& out) {
  std::istringstream words{std::string(text)};
  for (uint32_t one; words >> one;) out.push_back(one);
}

Rights rights_of(pid_t pid, std::string_view status) {
  Rights out;
  add_numbers(status_value(status, "Uid"), out.uids);
  add_numbers(status_value(status, "Gid"), out.gids);
  add_numbers(status_value(status, "Groups"), out.gids);
  out.capabilities = number<uint64_t>(status_value(status, "CapPrm"), 16) |
                     number<uint64_t>(status_value(status, "CapAmb"), 16);
  out.users = direct::proc_link(pid, "ns/user");
  return out;
}

// The time of its start; 0 when it is gone. Of its first thread, which has the same: for that of the process the kernel
// adds up what all its threads have used.
uint64_t start_of(pid_t pid) {
  constexpr int kStart = 22;
  const std::string stat = direct::proc_text(pid, "task/" + std::to_string(pid) + "/stat");
  return number<uint64_t>(stat_field(stat, kStart));
}

bool are_among(const std::vector<uint32_t>& some, const std::vector<uint32_t>& all) {
  return !some.empty() &&
         std::ranges::all_of(some, [&](uint32_t one) { return std::ranges::count(all, one) != 0; });
}

}  // namespace

bool within(const Rights& rights, const Rights& named, const std::string& ours) {
  const bool same_users = !rights.users.empty() && rights.users == named.users;
  if (!same_users && rights.users == ours) return false;
  if (same_users && rights.capabilities & ~named.capabilities) return false;
  // Who may change its user has the rights of all of them.
  return named.capabilities & kSetsUser ||
         (are_among(rights.uids, named.uids) && are_among(rights.gids, named.gids));
}

pid_t group_of(std::string_view status) {
  return number<pid_t>(status_value(status, "Tgid"));
}

uint64_t own_capabilities() {
  const std::string status = direct::own_text("status");
  return number<uint64_t>(status_value(status, "CapPrm"), 16) |
         number<uint64_t>(status_value(status, "CapEff"), 16);
}

AsOwner::AsOwner(pid_t pid) {
  const std::string status = direct::proc_text(pid, "status");
  std::vector<uint32_t> uids, gids;
  std::vector<gid_t> groups;
  add_numbers(status_value(status, "Uid"), uids);
  add_numbers(status_value(status, "Gid"), gids);
  add_numbers(status_value(status, "Groups"), groups);
  if (uids.size() != 4 || gids.size() != 4) return;
  if (uids[3] == geteuid() && gids[3] == getegid()) {
    worked_ = true;
    return;
  }
  groups_.resize(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(static_cast<int>(groups_.size()), groups_.data());
  if (count < 0 || setgroups(groups.size(), groups.data()) != 0) return;
  changed_ = true;
  setfsgid(gids[3]);
  setfsuid(uids[3]);
  constexpr uid_t kAsk = static_cast<uid_t>(-1);
  worked_ = static_cast<uid_t>(setfsuid(kAsk)) == uids[3] && static_cast<gid_t>(setfsgid(kAsk)) == gids[3];
}

AsOwner::~AsOwner() {
  if (!changed_) return;
  setfsuid(geteuid());
  setfsgid(getegid());
  (void)!setgroups(groups_.size(), groups_.data());
}

Family::Family(pid_t named) {
  ours_ = direct::own_link("ns/user");
  if (named > 0) adopt(named);
}

void Family::adopt(pid_t pid) {
  const std::string status = direct::proc_text(pid, "status");
  const pid_t group = group_of(status);
  if (group == 0) return;
  head_ = pid;
  named_ = rights_of(group, status);
  since_ = start_of(group);
  remember(group, since_);
}

void Family::remember(pid_t process, uint64_t start) {
  known_[process] = start;
  if (std::string vector = direct::proc_text(process, "auxv"); !vector.empty())
    vectors_.insert(std::move(vector));
}

bool Family::is_known(pid_t process) const {
  const auto found = known_.find(process);
  return found != known_.end() && found->second == start_of(process);
}

bool Family::is_peer(const Family& other) const {
  return named_ && other.named_ && named_->users == other.named_->users &&
         within(*named_, *other.named_, ours_) && within(*other.named_, *named_, ours_);
}

bool Family::is_over() const {
  return std::ranges::none_of(known_, [&](const auto& one) { return is_known(one.first); });
}

// Its parent has ended, and it is a copy of the memory of one of us (fork(2)). Another copy of what we are a copy of
// ourselves still has its parent, which is one, too.
bool Family::is_orphan(pid_t process, pid_t parent) const {
  const std::string vector = direct::proc_text(process, "auxv");
  return vectors_.contains(vector) && direct::proc_text(parent, "auxv") != vector;
}

bool Family::belongs(pid_t process, int depth) {
  if (is_known(process)) return true;
  const uint64_t start = start_of(process);
  if (start == 0) return false;
  const auto parent = number<pid_t>(status_value(direct::proc_text(process, "status"), "PPid"));
  bool ours = start >= since_ && ((depth < kGenerations && parent > 1 && belongs(parent, depth + 1)) ||
                                  is_orphan(process, parent));
  for (auto one = known_.begin(); !ours && one != known_.end(); ++one)
    ours = is_known(one->first) && direct::compare_memory(one->first, process) == true;
  if (ours && start_of(process) == start) remember(process, start);
  return ours;
}

bool Family::are_within(pid_t tid, std::string_view status) const {
  return named_ && within(rights_of(tid, status), *named_, ours_);
}

bool Family::may_touch(pid_t tid) {
  const std::string status = direct::proc_text(tid, "status");
  const pid_t group = group_of(status);
  const bool may = group != 0 && named_ && belongs(group, 0) && are_within(tid, status);
  if (!may) errno = group == 0 ? ESRCH : EPERM;
  return may;
}

// A program that it has executed since has another vector.
void Family::take(pid_t tid) {
  const pid_t group = group_of(direct::proc_text(tid, "status"));
  if (const auto found = known_.find(group); found != known_.end()) remember(group, found->second);
}

}  // namespace mdl::kernel
