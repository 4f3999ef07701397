#include "mdl-inject/join.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/phases.h"
#include "base/say.h"
#include "mdl-inject/clean.h"
#include "runtime/process/target.h"

namespace mdl::inject {

std::string named(pid_t pid) {
  return fmt::format("process {} ({})", pid, process::read_status(pid).name);
}

namespace {

// Before the insertion an error may have a reason that explains it better.
Error blamed(const Error& why, pid_t pid, bool was_there, const process::TargetMemory* memory) {
  if (was_there && process::ends_now(pid))
    return {fmt::format("process {} has ended before it could be measured", pid)};
  return memory && !memory->is_of(pid) ? process::another_program(pid) : why;
}

// What goes before the insertion into it; of what is in it by now, only what is left behind is changed.
Result<Joining> look_at(const Options& options, const plan::Plan& plan, const Target& target,
                        std::optional<process::Launch>& launched, std::optional<Early> early, Audit& audit,
                        const AttachedProcess::Kin* kin = nullptr) {
  phases::begin("process");
  const pid_t pid = target.pid;
  const bool was_there = !process::has_ended(pid);
  auto status = process::check_target(pid);
  if (!status) return blamed(status.error(), pid, was_there, nullptr);
  // First of all: what is read from here on is of this program, or nothing is done to it (target_memory.h).
  Result<process::TargetMemory> memory = early      ? std::move(early->memory)
                                         : launched ? launched->take_memory()
                                                    : process::TargetMemory::open(pid);
  if (!memory) return blamed(memory.error(), pid, was_there, nullptr);
  if (target.start != 0 && process::start_time(pid) != target.start)
    return Error{fmt::format("process {} has ended, and another one has its id", pid)};
  if (!launched && !options.dry_run && !early)  // else there was nothing
    if (auto ok = clean(options, pid, *memory, audit); !ok)
      return blamed(ok.error(), pid, was_there, &*memory);
  std::optional<Contents> contents;
  if (early) contents.emplace(std::move(early->contents));
  auto process = AttachedProcess::look(options, plan, pid, status->name, *memory, std::move(contents), kin);
  if (!process) return blamed(process.error(), pid, was_there, &*memory);
  return Joining{pid, was_there, std::move(*memory), std::move(*process)};
}

// What to do where one of several cannot be measured: nothing of it, with an error, or all but it.
Result<void> without(const Options& options, const Target& target, const Error& why) {
  if (!options.several) return why;
  const bool is_gone = target.how != Target::How::named && !process::is_running(target.pid, target.start);
  if (!is_gone && (!options.skip_refused || why.status == Status::left_inert))
    return Error{
        fmt::format(
            "none of the {} processes is measured, because of {}: {}; --skip-refused measures the others",
            options.targets.size(), named(target.pid), why.text),
        why.status};
  say(stderr, "{}process {} is not measured: {}\n", is_gone ? "" : "warning: ", target.pid,
      is_gone ? "it has ended" : why.text);
  return {};
}

constexpr int kTries = 3;

// What changed while it was prepared, such as a library that was unloaded, is looked at again.
Result<std::unique_ptr<AttachedProcess>> insert_one(const Options& options, const plan::Plan& plan,
                                                    const Target& target, output::Feed& feed, double began_s,
                                                    Joining one, Audit& audit, int tries = kTries) {
  const auto inserted = one.process->insert(one.memory, feed, began_s);
  if (inserted) return std::move(one.process);
  if (!inserted.error().is_passing || tries == 1 || options.start) return one.blamed(inserted.error());
  std::optional<process::Launch> none;
  auto again = look_at(options, plan, target, none, {}, audit);
  if (!again) return again.error();
  if (auto ok = again->process->check(); !ok) return again->blamed(ok.error());
  return insert_one(options, plan, target, feed, began_s, std::move(*again), audit, tries - 1);
}

}  // namespace

Error Joining::blamed(const Error& why) const {
  return inject::blamed(why, pid, was_there, &memory);
}

std::optional<Early> look_early(pid_t pid) {
  phases::begin("process");
  if (!process::check_target(pid)) return std::nullopt;
  auto memory = process::TargetMemory::open(pid);
  if (!memory) return std::nullopt;
  phases::begin("objects");
  auto contents = read_contents(pid, {});
  if (!contents) return std::nullopt;
  return Early{std::move(*memory), std::move(*contents)};
}

Result<std::vector<Joining>> look_at_all(const Options& options, const plan::Plan& plan,
                                         std::optional<process::Launch>& launched, std::optional<Early> early,
                                         Audit& audit) {
  std::vector<Joining> out;
  AttachedProcess::Kin kin;
  for (const Target& target : options.targets) {
    auto one = look_at(options, plan, target, launched, std::move(early), audit,
                       options.targets.size() > 1 ? &kin : nullptr);
    early.reset();
    const auto checked = [&]() -> Result<void> {
      if (!one) return one.error();
      if (options.explain && options.several) say(stderr, "{}:\n", named(target.pid));
      if (options.explain) one->process->explain();
      if (options.dry_run) return {};
      auto ok = one->process->check();
      return ok ? ok : one->blamed(ok.error());
    }();
    if (checked)
      kin.push_back(out.emplace_back(std::move(*one)).process.get());
    else if (auto ok = without(options, target, checked.error()); !ok)
      return ok.error();
  }
  if (out.empty() && !options.follow) return Error{"none of the processes can be measured"};
  return out;
}

Result<std::vector<std::unique_ptr<AttachedProcess>>> insert_all(const Options& options,
                                                                 const plan::Plan& plan, output::Feed& feed,
                                                                 std::vector<Joining> joining, Audit& audit) {
  std::vector<std::unique_ptr<AttachedProcess>> out;
  for (Joining& one : joining) {
    const Target& target = *std::ranges::find(options.targets, one.pid, &Target::pid);
    auto inserted = insert_one(options, plan, target, feed, 0, std::move(one), audit);
    if (inserted) {
      out.push_back(std::move(*inserted));
      // One that has been measured for a while may stand at its end, and waits for us.
      for (const auto& before : out) (void)before->measurement().read_end();
      continue;
    }
    auto ok = without(options, target, inserted.error());
    if (ok) continue;
    for (const auto& before : out) {
      Measurement& measurement = before->measurement();
      if (measurement.result()) continue;
      measurement.abandon(ok.error());
      if (const Error& left = measurement.result()->error(); left.status == Status::left_inert) ok = left;
    }
    return ok.error();
  }
  if (out.empty() && !options.follow) return Error{"none of the processes could be measured"};
  return out;
}

Result<std::unique_ptr<AttachedProcess>> join(const Options& options, const plan::Plan& plan, pid_t pid,
                                              output::Feed& feed, double began_s, Audit& audit) {
  audit.is_also_about(pid);
  std::optional<process::Launch> none;
  const Target target{pid, process::start_time(pid), Target::How::found};
  auto one = look_at(options, plan, target, none, {}, audit);
  if (!one) return one.error();
  if (auto ok = one->process->check(); !ok) return one->blamed(ok.error());
  if (auto ok = audit.say_of(pid, "attach", "begins"); !ok) return ok.error();
  auto inserted = insert_one(options, plan, target, feed, began_s, std::move(*one), audit);
  (void)audit.say_of(pid, "attach", inserted ? "done" : inserted.error().text);
  if (inserted && options.explain) (*inserted)->explain();
  return inserted;
}

}  // namespace mdl::inject
