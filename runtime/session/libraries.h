// Libraries that come and go while a process is measured.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/focus/request.h"
#include "runtime/image/loaded.h"
#include "runtime/patch/extend.h"
#include "runtime/session/check.h"
#include "runtime/session/inserted_code.h"
#include "runtime/session/key_names.h"

namespace mdl::inject {

// Asked every few milliseconds, it looks whether the dynamic linker's list has changed, finds out on a thread
// of its own what the requests want of new libraries (samples go on, and a process that ends is not kept
// waiting), and then inserts that. Calls between the load and the insertion, some ten milliseconds, are not
// counted.
class Libraries {
 public:
  // All of these outlive it. `input` is that of the insertion.
  Libraries(const patch::InsertInput& input, focus::BindOptions options, const process::TargetMemory& memory,
            resident::Journal& session);
  ~Libraries();

  // True when something was inserted.
  bool look();
  // What keys that are addresses are shown as, where the objects have changed since they were asked for; else null.
  std::shared_ptr<const image::AddressNames> take_names() { return std::move(names_); }
  // Whether look() would find nothing to do.
  bool is_quiet();
  // The reach of all that was inserted, at the attach and since.
  const Reach& reach() const { return reach_; }
  // All of that, where requests may change; else nothing.
  const InsertedCode& inserted() const { return inserted_; }

 private:
  // The identity of a mapped file: its first code's address, device and inode.
  using Identity = std::tuple<uint64_t, uint64_t, uint64_t>;
  struct Prepared;

  std::unique_ptr<Prepared> prepare() const;
  bool insert(Prepared& prepared);
  // True when what comes again is the program's own code.
  bool note_discarded(const Prepared& prepared);
  void forget_unloaded(const image::Image& image);
  static std::set<Identity> identities(const image::Image& image);
  void watch_windows();
  bool is_original(const resident::PatchedWindow& window);
  bool is_as_before();
  bool some_were_reloaded();
  bool some_were_left(std::chrono::steady_clock::time_point now);

  const patch::InsertInput& input_;
  focus::BindOptions options_;
  const process::TargetMemory& memory_;
  resident::Journal& session_;
  std::optional<image::LoadedList> list_;
  std::vector<uint64_t> loaded_;
  std::set<Identity> known_;
  Reach reach_;
  InsertedCode inserted_;
  std::set<std::string> said_;  // why requests cannot be, each once
  std::vector<patch::Extension> extensions_;
  std::vector<resident::PatchedWindow> watched_;  // one of each file
  std::vector<uint8_t> now_;                      // room for what is there
  uint32_t number_ = 0;
  std::chrono::steady_clock::time_point next_, next_unloaded_;
  std::chrono::nanoseconds wait_{0};  // from one look for what is left to the next
  std::future<std::unique_ptr<Prepared>> preparing_;
  std::shared_ptr<const image::AddressNames> names_;
};

}  // namespace mdl::inject
