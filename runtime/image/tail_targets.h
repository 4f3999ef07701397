// Where a function goes on that ends with a jump: a tail call, seen from the jump.
//
// Known is a function's beginning to which the jump leads directly, or through one word that the linker
// keeps: a slot of the linkage table, or a word that the program cannot write (the global offset table of
// -fno-plt). Such a word is read now; code that relies on it compares the word again at each jump. A jump
// through a register or a pointer of the program may lead anywhere.
//
// A slot that nothing has used yet leads to the dynamic linker, which looks for the slot's name at the first
// jump. Where just one function of the process has that name, it will find this one. It is not known where
// several have it (versions, libraries that replace a function, an indirect function), where some object
// could not be read, and where objects are loaded in several name spaces, of dlmopen or for auditing, which
// is seen by a C library that is there twice.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/image/code.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct TailTarget {
  const Object* object = nullptr;
  const Function* function = nullptr;  // null: not known, and why
  std::string obstacle;
  uint64_t slot = 0;     // the word that the jump goes through, 0 = none
  uint64_t value = 0;    // what it holds when the jump leads there,
  uint64_t unbound = 0;  // and before it has been used, 0 = it has been
};

class TailTargets {
 public:
  // Both must outlive this.
  TailTargets(const Image& image, const Memory& memory) : image_(image), memory_(memory) {}
  // `jump`: the instruction of a way out that is a jump.
  TailTarget of(const Object& object, const Instruction& jump);

 private:
  struct Named {  // null: several functions have the name
    const Object* object = nullptr;
    const Function* function = nullptr;
  };
  using Slots = std::map<uint64_t, std::string>;

  TailTarget through_word(const Object& object, uint64_t word);
  const Slots& slots_of(const Object& object);
  const Named* only_one_named(const std::string& name);
  void read_names();

  const Image& image_;
  const Memory& memory_;
  std::map<const Object*, Slots> slots_;  // of the linkage tables: names by address
  std::optional<std::unordered_map<std::string_view, Named>> names_;
};

}  // namespace mdl::image
