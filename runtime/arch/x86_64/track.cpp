// Whether a span is open is seen from the word itself: doubling it overflows when bits 62 and 63 differ
// (Intel SDM vol. 1, 3.4.3.1: OF). A signal handler of this thread may run the same code at any
// instruction of it. It leaves the span as the flag wants it, because flags come back to what they were;
// then the exchange fails, and what was wanted has been done. The exchange needs no lock prefix: only
// this thread writes its block.
//
//         mov  span(%r11), %rax
//         mov  %rax, %r10
//         add  %r10, %r10          OF: open
//         mov  %rax, %r10
//         jo   open
//         cmpq $0, flag(%r11)
//         je   end
//         sub  base(%r11), %r10
//         btc  $62, %r10
//         jmp  exchange
// open:   cmpq $0, flag(%r11)
//         jne  end
//         btc  $62, %r10
//         add  base(%r11), %r10
// exchange: cmpxchg %r10, span(%r11)
// end:
#include "runtime/arch/x86_64/track.h"

#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {
namespace {

constexpr uint8_t kOverflow = 0, kNotEqualShort = 5, kEqualShort = 4;  // condition codes of jcc

// Short branches inside the few bytes of one track.
class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out), e_(out, 0) {}

  void cell(std::initializer_list<uint8_t> code, int64_t offset) {
    e_.bytes(code);
    e_.imm32(static_cast<uint32_t>(offset));
  }
  void bytes(std::initializer_list<uint8_t> code) { e_.bytes(code); }
  size_t branch(uint8_t condition) {
    return e_.bytes({static_cast<uint8_t>(0x70 | condition), 0}), out_.size();
  }
  size_t jump() { return e_.bytes({0xeb, 0}), out_.size(); }
  void land(size_t behind) { out_[behind - 1] = static_cast<uint8_t>(out_.size() - behind); }
  void test(int64_t flag) { cell({0x49, 0x83, 0xbb}, flag), bytes({0x00}); }  // cmpq $0, flag(%r11)

 private:
  Bytes& out_;
  Emitter e_;
};

}  // namespace

void emit_track(Bytes& out, const Track& track) {
  Writer w(out);
  if (track.clock) {  // movabs $entry, %r10; movabs $routine, %rax; call *%rax
    Emitter e(out, 0);
    e.mov_imm64(r10, track.entry);
    e.mov_imm64(rax, track.routine);
    return w.bytes({0xff, 0xd0});
  }
  w.cell({0x49, 0x8b, 0x83}, track.span);  // mov span(%r11), %rax
  w.bytes({0x49, 0x89, 0xc2});             // mov %rax, %r10
  w.bytes({0x4d, 0x01, 0xd2});             // add %r10, %r10
  w.bytes({0x49, 0x89, 0xc2});             // mov %rax, %r10
  size_t open = w.branch(kOverflow);
  w.test(track.flag);
  size_t down = w.branch(kEqualShort);
  w.cell({0x4d, 0x2b, 0x93}, track.base);  // sub base(%r11), %r10
  w.bytes({0x49, 0x0f, 0xba, 0xfa, 62});   // btc $62, %r10
  size_t exchange = w.jump();
  w.land(open);
  w.test(track.flag);
  size_t up = w.branch(kNotEqualShort);
  w.bytes({0x49, 0x0f, 0xba, 0xfa, 62});   // btc $62, %r10
  w.cell({0x4d, 0x03, 0x93}, track.base);  // add base(%r11), %r10
  w.land(exchange);
  w.cell({0x4d, 0x0f, 0xb1, 0x93}, track.span);  // cmpxchg %r10, span(%r11)
  w.land(down);
  w.land(up);
}

//         push amount(%r11); movq $0, amount(%r11)    where there is one
//         push key(%r11) for each; push change(%r11); movq $0, change(%r11)
void emit_keys_before(Bytes& out, const Keys& keys) {
  Writer w(out);
  if (keys.amount) {
    w.cell({0x41, 0xff, 0xb3}, *keys.amount);
    w.cell({0x49, 0xc7, 0x83}, *keys.amount), w.bytes({0, 0, 0, 0});
  }
  for (const int64_t key : keys.keys) w.cell({0x41, 0xff, 0xb3}, key);
  w.cell({0x41, 0xff, 0xb3}, keys.change);
  w.cell({0x49, 0xc7, 0x83}, keys.change), w.bytes({0, 0, 0, 0});
}

//         cmpq $0, change(%r11); je end
//         mov  depth(%rsp), %r10; mov %r10, key(%r11)    where a key is the caller: that stands there at an entry
//         lea  depth(%rsp), %r10; push %r10      or push $0
//         movabs $table, %r10; movabs $routine, %rax; call *%rax
//         lea  8(%rsp), %rsp
// end:    pop  change(%r11); pop key(%r11) for each, the last one first; pop amount(%r11)
void emit_keys_behind(Bytes& out, const Keys& keys, uint32_t depth) {
  Writer w(out);
  Emitter e(out, 0);
  w.test(keys.change);
  size_t nothing = w.branch(kEqualShort);
  if (keys.caller) {
    w.cell({0x4c, 0x8b, 0x94, 0x24}, depth + pushed_for(keys));
    w.cell({0x4d, 0x89, 0x93}, *keys.caller);
  }
  if (keys.balanced)
    w.cell({0x4c, 0x8d, 0x94, 0x24}, depth + pushed_for(keys)), e.push(r10);
  else
    w.bytes({0x6a, 0x00});
  e.mov_imm64(r10, keys.table);
  e.mov_imm64(rax, keys.routine);
  w.bytes({0xff, 0xd0});
  w.bytes({0x48, 0x8d, 0x64, 0x24, 0x08});
  w.land(nothing);
  w.cell({0x41, 0x8f, 0x83}, keys.change);
  for (auto key = keys.keys.rbegin(); key != keys.keys.rend(); ++key) w.cell({0x41, 0x8f, 0x83}, *key);
  if (keys.amount) w.cell({0x41, 0x8f, 0x83}, *keys.amount);
}

}  // namespace mdl::arch
