#include "runtime/process/bpf.h"

#include <cstring>

namespace mdl::process {
namespace {

class Machine {
 public:
  Machine(std::span<const sock_filter> filter, const seccomp_data& call) : filter_(filter) {
    std::memcpy(words_, &call, sizeof words_);
  }

  std::optional<Ruling> run() {
    while (at_ < filter_.size()) {
      const sock_filter& in = filter_[at_++];
      if (!step(in)) return std::nullopt;
      if (done_) return Ruling{result_, looked_at_};
    }
    return std::nullopt;  // a jump behind the end, or no return
  }

 private:
  static constexpr size_t kWords = sizeof(seccomp_data) / sizeof(uint32_t);

  bool end(uint32_t value) {
    result_ = value;
    return done_ = true;
  }
  // A constant or the index register.
  uint32_t source(const sock_filter& in) const { return BPF_SRC(in.code) == BPF_X ? x_ : in.k; }

  bool step(const sock_filter& in) {
    switch (BPF_CLASS(in.code)) {
      case BPF_LD:
      case BPF_LDX:
        return load(in);
      case BPF_ST:
      case BPF_STX:
        if (in.code != BPF_CLASS(in.code) || in.k >= BPF_MEMWORDS) return false;
        memory_[in.k] = BPF_CLASS(in.code) == BPF_ST ? a_ : x_;
        return true;
      case BPF_ALU:
        return compute(in);
      case BPF_JMP:
        return jump(in);
      case BPF_RET:
        if (in.code == (BPF_RET | BPF_K)) return end(in.k);
        return in.code == (BPF_RET | BPF_A) && end(a_);
      default:  // BPF_MISC
        if (in.code == (BPF_MISC | BPF_TAX)) return x_ = a_, true;
        return in.code == (BPF_MISC | BPF_TXA) && (a_ = x_, true);
    }
  }

  bool load(const sock_filter& in) {
    uint32_t& to = BPF_CLASS(in.code) == BPF_LD ? a_ : x_;
    switch (in.code & ~0x7) {  // without the class
      case BPF_W | BPF_ABS:
        if (BPF_CLASS(in.code) != BPF_LD || in.k % sizeof(uint32_t) != 0 || in.k / sizeof(uint32_t) >= kWords)
          return false;
        looked_at_ |= static_cast<uint16_t>(1u << (in.k / sizeof(uint32_t)));
        to = words_[in.k / sizeof(uint32_t)];
        return true;
      case BPF_W | BPF_LEN:
        to = sizeof(seccomp_data);
        return true;
      case BPF_W | BPF_IMM:
        to = in.k;
        return true;
      case BPF_W | BPF_MEM:
        if (in.k >= BPF_MEMWORDS) return false;
        to = memory_[in.k];
        return true;
      default:
        return false;
    }
  }

  bool compute(const sock_filter& in) {
    const uint32_t by = source(in);
    switch (BPF_OP(in.code)) {
      case BPF_ADD:
        return a_ += by, true;
      case BPF_SUB:
        return a_ -= by, true;
      case BPF_MUL:
        return a_ *= by, true;
      case BPF_DIV:  // by a register that is 0: the kernel ends the filter with 0
        if (by == 0) return BPF_SRC(in.code) == BPF_X && end(0);
        return a_ /= by, true;
      case BPF_AND:
        return a_ &= by, true;
      case BPF_OR:
        return a_ |= by, true;
      case BPF_XOR:
        return a_ ^= by, true;
      case BPF_LSH:
      case BPF_RSH:
        if (BPF_SRC(in.code) == BPF_K && by >= 32) return false;
        return a_ = BPF_OP(in.code) == BPF_LSH ? a_ << (by & 31) : a_ >> (by & 31), true;
      case BPF_NEG:
        return in.code == (BPF_ALU | BPF_NEG) && (a_ = -a_, true);
      default:
        return false;
    }
  }

  bool jump(const sock_filter& in) {
    const uint32_t by = source(in);
    bool taken = false;
    switch (BPF_OP(in.code)) {
      case BPF_JA:
        if (in.code != (BPF_JMP | BPF_JA) || in.k > filter_.size()) return false;
        at_ += in.k;
        return true;
      case BPF_JEQ:
        taken = a_ == by;
        break;
      case BPF_JGT:
        taken = a_ > by;
        break;
      case BPF_JGE:
        taken = a_ >= by;
        break;
      case BPF_JSET:
        taken = (a_ & by) != 0;
        break;
      default:
        return false;
    }
    at_ += taken ? in.jt : in.jf;
    return true;
  }

  std::span<const sock_filter> filter_;
  uint32_t words_[kWords];
  uint32_t memory_[BPF_MEMWORDS] = {};
  uint32_t a_ = 0, x_ = 0, result_ = 0;
  size_t at_ = 0;
  uint16_t looked_at_ = 0;
  bool done_ = false;
};

}  // namespace

std::optional<Ruling> evaluate(std::span<const sock_filter> filter, const seccomp_data& call) {
  return Machine(filter, call).run();
}

bool is_stricter(uint32_t a, uint32_t b) {
  // Lower is stricter, as signed numbers: SECCOMP_RET_KILL_PROCESS has the highest bit.
  return static_cast<int32_t>(a & SECCOMP_RET_ACTION_FULL) <
         static_cast<int32_t>(b & SECCOMP_RET_ACTION_FULL);
}

}  // namespace mdl::process
