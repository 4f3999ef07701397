// Where direct jumps and calls lead: to another function (an exit), or to a part of this one
// that the compiler placed elsewhere and that a stripped file does not name.
//
// The call frame information decides. A function starts with a CFA that the machine's calls make, and a tail
// call happens only when the frame is taken down to that; so code reached by a jump whose CFA is
// another one belongs to the function that jumps. Where both are that one, code that jumps back
// into the function's body belongs to it, and so does code that may end without a return, if only this
// function's jumps lead there (references.h). Other code is a function that is called last: its end is the
// end of this function, counted at the jump, unless it never comes back.
#include <algorithm>
#include <array>

#include "runtime/arch/decoder.h"
#include "runtime/image/function_code.h"
#include "runtime/image/references.h"

namespace mdl::image {
namespace {

// Functions of the C and C++ runtimes that do not come back. Code that follows a call to one is reached by a
// jump, if at all.
constexpr std::array<std::string_view, 36> kNoReturn = {"__stack_chk_fail",
                                                        "__fortify_fail",
                                                        "__chk_fail",
                                                        "abort",
                                                        "exit",
                                                        "_exit",
                                                        "_Exit",
                                                        "quick_exit",
                                                        "pthread_exit",
                                                        "__assert_fail",
                                                        "__assert_perror_fail",
                                                        "__assert",
                                                        "__libc_fatal",
                                                        "__libc_message",
                                                        "longjmp",
                                                        "_longjmp",
                                                        "siglongjmp",
                                                        "__longjmp_chk",
                                                        "__libc_longjmp",
                                                        "__libc_siglongjmp",
                                                        "err",
                                                        "errx",
                                                        "verr",
                                                        "verrx",
                                                        "__cxa_throw",
                                                        "__cxa_rethrow",
                                                        "__cxa_bad_cast",
                                                        "__cxa_bad_typeid",
                                                        "__cxa_throw_bad_array_new_length",
                                                        "__cxa_pure_virtual",
                                                        "_Unwind_Resume",
                                                        "__clang_call_terminate",
                                                        "_ZSt9terminatev",
                                                        "_ZSt10unexpectedv",
                                                        "_serverAssert",
                                                        "_serverPanic"};

bool is_no_return(std::string_view name) {
  for (std::string_view one : kNoReturn)
    if (name == one) return true;
  return name.starts_with("_ZSt") && name.find("__throw_") != std::string_view::npos;
}

bool is_returned_to_again(std::string_view name) {
  return name.ends_with("setjmp") || name == "getcontext" || name == "vfork" || name == "__vfork";
}

template <typename Test>
bool has_name(const Function& function, Test test) {
  return test(function.name) || std::any_of(function.aliases.begin(), function.aliases.end(), test);
}

// An entry of a table of jumps to functions, out of this one.
bool is_cfi_entry(const FunctionCode& code, uint64_t address) {
  std::array<std::byte, arch::kMostOfStub> bytes;
  if (!code.memory.read(address, bytes)) return false;
  std::optional<arch::CfiEntry> entry = arch::read_cfi_entry(bytes, address);
  return entry && !code.contains(entry->target) && function_starting_at(code.object, entry->target);
}

const Function* function_behind_slot(const FunctionCode& code, uint64_t slot) {
  uint64_t target = 0;
  if (!code.memory.read(slot, std::as_writable_bytes(std::span(&target, 1)))) return nullptr;
  const Object* object = object_at(code.image, target);
  return object ? function_starting_at(*object, target) : nullptr;
}

// True when a direct jump in `range` leads into this function, past its entry.
bool find_way_back(const FunctionCode& code, const Range& range) {
  constexpr uint64_t kMax = 1 << 20;
  if (range.end - range.start > kMax) return true;
  std::vector<std::byte> bytes(range.end - range.start);
  if (!code.spend(bytes.size()) || !code.memory.read(range.start, bytes)) return true;
  for (const Instruction& one : decode(bytes, range.start))
    if ((one.flow == Flow::jump || one.flow == Flow::branch) && one.target != code.function.address &&
        code.contains(one.target))
      return true;
  return false;
}

// The answer of `find` for a range, found once for each: entries of a table often lead into one.
bool remember(FunctionCode::Known& known, const FunctionCode& code, const Range& range,
              bool (*find)(const FunctionCode&, const Range&)) {
  auto [found, fresh] = known.try_emplace({range.start, range.end, code.ranges.size()}, false);
  if (fresh) found->second = find(code, range);
  return found->second;
}

bool leads_back(const FunctionCode& code, const Range& range) {
  return remember(code.ways_back, code, range, find_way_back);
}

bool is_part_without_name(const FunctionCode& code, const Range& range) {
  return remember(code.own_parts, code, range, is_own_part);
}

// "f.cold" where this is f, for the files that name it but not beyond doubt (functions.cpp).
bool is_own_cold_part(const FunctionCode& code, const Function& other) {
  auto is_cold_of = [&](const std::string& name) {
    return other.name.size() > name.size() + 4 && other.name.starts_with(name) &&
           std::string_view(other.name).substr(name.size()).starts_with(".cold");
  };
  if (is_cold_of(code.function.name)) return true;
  for (const std::string& alias : code.function.aliases)
    if (is_cold_of(alias)) return true;
  return false;
}

}  // namespace

uint64_t linkage_slot(const Memory& memory, uint64_t address) {
  std::array<std::byte, arch::kMostOfStub> bytes;
  return memory.read(address, bytes) ? arch::read_linkage_stub(bytes, address) : 0;
}

Destination classify_destination(const FunctionCode& code, uint64_t target) {
  using Kind = Destination::Kind;
  constexpr uint64_t kSteps = 4;  // of what is looked up here
  if (!code.spend(kSteps)) return {};
  bool in_object = false;
  for (const Range& range : code.object.text) in_object |= range.contains(target);
  if (!in_object) return {};
  if (const Function* known = function_starting_at(code.object, target)) {
    // A common end with a name: what starts there has others' frames.
    if (!is_own_cold_part(code, *known)) return {code.frame_is_open(target) ? Kind::unknown : Kind::exit, {}};
    return {Kind::part, {known->address, known->address + known->size}};
  }
  const Function* around = function_at(code.object, target);
  // At its start it may be a part of this function; jumped into its middle, one that has been found to be a
  // function is none.
  if (around && around->unnamed && around->address == target) around = nullptr;
  if (around && is_own_cold_part(code, *around))
    return {Kind::part, {around->address, around->address + around->size}};
  if (linkage_slot(code.memory, target) != 0) return {Kind::exit, {}};
  if (is_cfi_entry(code, target)) return {Kind::exit, {}};
  const Fde* entry = code.object.frame_table ? code.object.frame_table->find(target) : nullptr;
  if (entry && !around) {
    Range range{entry->start, entry->end};
    if (code.frame_is_open(target) || leads_back(code, range) || is_part_without_name(code, range))
      return {Kind::part, range};
    // A function that is named nowhere may start here; one may not start inside of a part.
    return {never_comes_back(code, range) ? Kind::never : Kind::exit, range};
  }
  // Assembly without call frame information goes there with a frame of its own, too.
  if (around && code.frame_is_closed(target) &&
      !leads_back(code, {around->address, around->address + around->size}))
    return {Kind::exit, {}};
  return {};
}

Comes comes_back(const FunctionCode& code, const Decoded& call) {
  const Function* callee = nullptr;
  if (call.instruction.flow == Flow::call) {
    callee = function_starting_at(code.object, call.instruction.target);
    if (!callee)
      if (uint64_t slot = linkage_slot(code.memory, call.instruction.target))
        callee = function_behind_slot(code, slot);
  } else if (call.detail.has_memory && call.detail.memory.base == kPcRegister) {
    callee = function_behind_slot(code, call.end() + static_cast<uint64_t>(call.detail.memory.displacement));
  }
  if (callee && has_name(*callee, is_no_return)) return Comes::never;
  return callee && has_name(*callee, is_returned_to_again) ? Comes::twice : Comes::back;
}

}  // namespace mdl::image
