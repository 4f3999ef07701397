#include "mdl-inject/follow.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/say.h"
#include "mdl-inject/join.h"
#include "runtime/process/target.h"
#include "runtime/session/users.h"

namespace mdl::inject {
namespace {

kernel::As as(const Options& options, const Target& target) {
  return target.how == Target::How::child ? kernel::As::child
         : options.names_group()          ? kernel::As::member
                                          : kernel::As::peer;
}

std::string why_refused(kernel::As as) {
  return as == kernel::As::peer
             ? "it has other rights than those of its name that are measured, and anybody may give a program "
               "that name"
             : "it has more rights than the process that it descends from";
}

bool is_running(const Target& one) {
  return process::is_running(one.pid, one.start);
}

}  // namespace

kernel::Newcomers admission(Choice& choice, const Policy& policy, Audit& audit) {
  SessionOptions rules;
  rules.users = policy.users;
  return [&choice, &audit, rules](const kernel::Admit& admit, std::string& refused) {
    std::vector<pid_t> out;
    for (const Target& one : choice.look()) {
      const kernel::As as = inject::as(choice.options(), one);
      auto ok = check_users(one.pid, rules);
      if (ok && !admit(one.pid, one.start, as)) ok = Error{why_refused(as)};
      if (ok)
        audit.forget(one.pid), out.push_back(one.pid);
      else if (is_running(one))
        refused += fmt::format("{} is not measured: {}\n", named(one.pid), ok.error().text);
    }
    return out;
  };
}

std::optional<Newcomers::Source> source_of_newcomers(const Options& options, const plan::Plan& plan,
                                                     output::Feed& feed, Audit& audit,
                                                     std::optional<Choice>& choice) {
  if (!options.follow) return std::nullopt;
  Newcomers::Source out;
  out.look = [&options, &choice](std::string& refused) {
    if (options.separate) return kernel::newcomers(refused);
    std::vector<pid_t> pids;
    for (const Target& one : choice->look()) pids.push_back(one.pid);
    return pids;
  };
  out.attach = [&](pid_t pid, double began_s) { return join(options, plan, pid, feed, began_s, audit); };
  // By an id, others come only from those that are there.
  out.ends_with_the_last = choice->ends_with_the_last();
  for (const Target& one : options.targets) out.there.emplace_back(one.pid, one.start);
  return out;
}

}  // namespace mdl::inject
