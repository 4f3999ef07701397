// What the analysis of a process's code may cost.
//
// Honest code is looked at a few times, so its analysis takes time and memory by its size. A file of an attacker's stands
// for more than it holds: functions that overlap, one frame description over everything, jumps that all lead into one
// place. So what is done again for each function, jump or frame is counted. When an object's budget is spent, what is asked
// of its code is answered as if it could not be read, and none of its functions is measured (codes.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace mdl::image {

class Budget {
 public:
  static constexpr int64_t kCommonSteps = int64_t{4} << 20, kCommonKept = int64_t{1} << 20;
  // Beyond what its objects have by their size, for all of a process together.
  struct Common {
    std::atomic<int64_t> steps = kCommonSteps, kept = kCommonKept;
  };

  Budget() = default;  // without an end
  // Of an object with so many bytes of code and of frame descriptions.
  Budget(uint64_t code, uint64_t frames, std::shared_ptr<Common> common)
      : all_steps_(static_cast<int64_t>(code * kStepsPerByte + frames * kStepsPerByte)),
        all_kept_(static_cast<int64_t>(code / kBytesPerKept)),
        common_(std::move(common)) {
    renew();
  }

  // A step is what it takes to decode a byte of code, 0.1 us. False when they are spent, and from then on.
  bool spend(uint64_t steps) const { return take(steps_, &Common::steps, steps); }
  // Instructions that are held for a function, for as long as its points are not in place.
  bool keep(uint64_t instructions) const { return take(kept_, &Common::kept, instructions); }
  bool is_spent() const { return is_spent_; }
  // All of it again, where all that was found out is found out again: callers bound how often.
  void renew() const {
    steps_ = all_steps_, kept_ = all_kept_, is_spent_ = false;
    if (common_) common_->steps = kCommonSteps, common_->kept = kCommonKept;
  }

 private:
  using Counter = std::atomic<int64_t>;
  static constexpr uint64_t kStepsPerByte = 12, kBytesPerKept = 2;

  static bool take_from(Counter& from, int64_t much) {
    if (from.fetch_sub(much, std::memory_order_relaxed) >= much) return true;
    from += much;
    return false;
  }
  bool take(Counter& own, Counter Common::*common, uint64_t much) const {
    const auto wanted = static_cast<int64_t>(much);
    if (!common_ || take_from(own, wanted) || take_from((*common_).*common, wanted)) return !is_spent_;
    is_spent_ = true;
    return false;
  }

  int64_t all_steps_ = 0, all_kept_ = 0;
  mutable Counter steps_ = 0, kept_ = 0;
  mutable std::atomic<bool> is_spent_ = false;
  std::shared_ptr<Common> common_;
};

}  // namespace mdl::image
