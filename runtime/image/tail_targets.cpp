#include "runtime/image/tail_targets.h"

#include <algorithm>
#include <array>
#include <set>

#include "llvm/BinaryFormat/ELF.h"
#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"
#include "runtime/image/function_code.h"
#include "runtime/image/object.h"

namespace mdl::image {
namespace {

// A function of any kind: also one that only call frame information shows.
const Function* beginning_at(const Object& object, uint64_t address) {
  auto found = std::lower_bound(object.functions.begin(), object.functions.end(), address,
                                [](const Function& one, uint64_t value) { return one.address < value; });
  return found != object.functions.end() && found->address == address ? &*found : nullptr;
}

bool is_writable(const Image& image, uint64_t address) {
  return std::ranges::any_of(image.mappings, [&](const Mapping& mapping) {
    return mapping.write && mapping.start <= address && address < mapping.end;
  });
}

TailTarget not_known(std::string obstacle) {
  TailTarget out;
  out.obstacle = std::move(obstacle);
  return out;
}

// The word at an address of its own that an indirect jump reads, 0 for any other jump.
uint64_t word_of(const Instruction& jump) {
  Instruction in;
  Detail detail;
  if (!arch::decode_instruction(std::as_bytes(std::span(jump.bytes)), jump.address, in, detail)) return 0;
  if (!detail.has_memory || detail.memory.base != kPcRegister) return 0;
  return jump.address + jump.size + static_cast<uint64_t>(detail.memory.displacement);
}

const Function* behind_cfi_entry(const Object& object, uint64_t address, const Memory& memory) {
  std::array<std::byte, arch::kMostOfStub> bytes;
  if (!memory.read(address, bytes)) return nullptr;
  const std::optional<arch::CfiEntry> entry = arch::read_cfi_entry(bytes, address);
  return entry ? beginning_at(object, entry->target) : nullptr;
}

}  // namespace

// Names as the dynamic linker knows them, and those that only .symtab has: one more makes a name doubtful, no
// less.
void TailTargets::read_names() {
  names_.emplace();
  std::set<std::string_view> objects;
  for (const Object& object : image_.objects)
    if (!object.problem.empty() || !objects.insert(object.name).second) return;
  auto add = [&](std::string_view name, const Object& object, const Function& function) {
    auto [known, fresh] = names_->try_emplace(name, Named{&object, &function});
    if (!fresh && known->second.function != &function) known->second = {};
  };
  for (const Object& object : image_.objects)
    for (const Function& function : object.functions.named()) {
      add(function.name, object, function);
      for (const std::string& alias : function.aliases) add(alias, object, function);
    }
}

const TailTargets::Named* TailTargets::only_one_named(const std::string& name) {
  if (!names_) read_names();
  auto found = names_->find(name);
  if (found == names_->end() || !found->second.function || found->second.function->is_ifunc) return nullptr;
  return &found->second;
}

const TailTargets::Slots& TailTargets::slots_of(const Object& object) {
  auto [known, fresh] = slots_.try_emplace(&object);
  if (!fresh) return known->second;
  auto file = open_object(image_, object);
  if (!file) return known->second;
  const SymbolTable symbols = file->symbols(llvm::ELF::SHT_DYNSYM);
  for (const Relocation& relocation : file->relocations())
    if (relocation.type == arch::kMachine.relocations.jump_slot && relocation.symbol < symbols.symbols.size())
      known->second[object.bias + relocation.address] = symbols.symbols[relocation.symbol].name;
  return known->second;
}

TailTarget TailTargets::through_word(const Object& object, uint64_t word) {
  TailTarget out;
  out.slot = word;
  if (!memory_.read(word, std::as_writable_bytes(std::span(&out.value, 1))))
    return not_known("the word that it goes through cannot be read");
  out.object = object_at(image_, out.value);
  out.function = out.object ? beginning_at(*out.object, out.value) : nullptr;
  if (out.function) return out;
  const Slots& slots = slots_of(object);
  auto slot = slots.find(word);
  const Named* named = slot == slots.end() || out.object != &object ? nullptr : only_one_named(slot->second);
  if (!named) return not_known("its slot of the linkage table is not bound yet");
  out.unbound = out.value;
  out.object = named->object, out.function = named->function;
  (void)out.object->functions.all();
  out.value = out.function->address;
  return out;
}

TailTarget TailTargets::of(const Object& object, const Instruction& jump) {
  if (jump.flow == Flow::jump_indirect) {
    const uint64_t word = word_of(jump);
    if (word == 0 || is_writable(image_, word))
      return not_known("where an indirect jump leads is known only when it is taken");
    return through_word(object, word);
  }
  const Function* function = beginning_at(object, jump.target);
  // A stub of the linkage table is no function, unless a program has such functions of its own.
  if (!function)
    if (const uint64_t slot = linkage_slot(memory_, jump.target)) return through_word(object, slot);
  if (!function) function = behind_cfi_entry(object, jump.target, memory_);
  if (!function) return not_known("no function is known to begin where it leads");
  TailTarget out;
  out.object = &object, out.function = function;
  return out;
}

}  // namespace mdl::image
