// The auditor's own decoder of the toy machine: it reads the bytes by itself, without encoding.h's names.
#include <algorithm>
#include <cstring>

#include "runtime/audit/instruction.h"

namespace mdl::audit {
namespace {

constexpr size_t kWhole = 8;  // bytes of an instruction, and where its immediate is
constexpr size_t kImmediateAt = 4;

struct Fact {
  Kind kind = Kind::other;
  bool is_relative = false;  // its immediate leads from behind it
};

// By the operation, the first byte.
constexpr Fact kFacts[] = {
    {Kind::other},          // trap
    {Kind::plain},          // nop
    {Kind::plain},          // landing
    {Kind::plain},          // set
    {Kind::plain},          // move
    {Kind::plain},          // add
    {Kind::plain},          // add immediate
    {Kind::plain, true},    // address
    {Kind::plain},          // load
    {Kind::plain},          // store
    {Kind::plain},          // count
    {Kind::plain},          // compare
    {Kind::plain},          // compare both
    {Kind::plain},          // get flags
    {Kind::plain},          // set flags
    {Kind::jump, true},     //
    {Kind::indirect_jump},  // far jump: the word behind it is no instruction
    {Kind::branch, true},   //
    {Kind::call, true},     //
    {Kind::indirect_call},  //
    {Kind::indirect_jump},  //
    {Kind::return_},        //
    {Kind::other},          // system call
};
constexpr uint8_t kLoadsAddress = 7, kNop = 1, kLanding = 2;

template <typename Look>
void each(std::span<const std::byte> text, uint64_t start, Look look) {
  for (uint64_t at = (start + kWhole - 1) / kWhole * kWhole; at + kWhole <= start + text.size(); at += kWhole)
    if (const auto in = decode(text.subspan(at - start, kWhole), at)) look(*in);
}

}  // namespace

uint8_t size_of_instruction(std::span<const std::byte> bytes) {
  return bytes.size() >= kWhole && static_cast<size_t>(bytes[0]) < std::size(kFacts) ? kWhole : 0;
}

std::optional<Instruction> decode(std::span<const std::byte> bytes, uint64_t address) {
  if (size_of_instruction(bytes) == 0) return std::nullopt;
  Instruction out;
  out.address = address;
  out.size = kWhole;
  std::memcpy(out.bytes.data(), bytes.data(), kWhole);
  int32_t immediate;
  std::memcpy(&immediate, bytes.data() + kImmediateAt, sizeof immediate);
  const auto operation = static_cast<uint8_t>(bytes[0]);
  const uint64_t leads = out.end() + static_cast<uint64_t>(int64_t{immediate});
  out.kind = kFacts[operation].kind;
  out.is_padding = operation == kNop || (operation == 0 && out.bytes[1] == 0);
  out.is_landing = operation == kLanding;
  out.is_address = operation == kLoadsAddress;
  if (out.kind == Kind::branch) out.condition = out.bytes[1];
  if (!kFacts[operation].is_relative)
    out.constants[0] = static_cast<uint64_t>(int64_t{immediate});
  else if (out.is_address)
    out.operand_at = kImmediateAt, out.operand = leads;
  else
    out.target = leads;
  return out;
}

// A moved instruction differs in the immediate alone, and leads where it did.
bool has_same_effect(const Instruction& original, const Instruction& copy) {
  if (original.kind == Kind::call || original.kind == Kind::indirect_call || original.kind == Kind::other)
    return false;
  const size_t fixed = kFacts[original.bytes[0]].is_relative ? kImmediateAt : kWhole;
  return std::equal(original.bytes.begin(), original.bytes.begin() + fixed, copy.bytes.begin()) &&
         original.target == copy.target && original.operand == copy.operand;
}

bool goes_on_as(const Instruction& call, const Instruction& jump) {
  return call.kind == Kind::call && jump.kind == Kind::jump && jump.target == call.target;
}

bool is_opposite(const Instruction& branch, const Instruction& other) {
  return branch.kind == Kind::branch && other.kind == Kind::branch &&
         other.condition == (branch.condition ^ 1);
}

void find_leads(std::span<const std::byte> text, uint64_t start, const image::Range& watched, Report report) {
  each(text, start, [&](const Instruction& in) {
    const uint64_t to = in.is_address ? in.operand : in.target;
    if (in.is_address || (to != 0 && watched.contains(to)))
      report({in.address + kImmediateAt, to, in.is_address});
  });
}

// Every branch is a long one.
void find_short_leads(std::span<const std::byte>, uint64_t, const image::Range&, Report) {}

void find_constants(std::span<const std::byte> text, uint64_t start, const image::Range& watched,
                    Report report) {
  each(text, start, [&](const Instruction& in) {
    if (in.constants[0] != 0 && watched.contains(in.constants[0]))
      report({in.address + kImmediateAt, in.constants[0]});
  });
}

}  // namespace mdl::audit
