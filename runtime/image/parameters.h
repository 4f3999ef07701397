// Where a function finds the parameters that its source names: `$args.name`.
//
// Debug information (DWARF 2 to 5) names a function's parameters, and the calling convention (System V ABI
// for x86-64, section 3.2.3) says where each is when the function is entered. A wrong place would be a wrong
// number, so a parameter is known only where nothing is left to doubt:
//   - the function is one that follows the convention: no clone with parameters of its own (a name with a
//     dot, such as f.constprop.0), not marked DW_CC_nocall;
//   - its result, the parameter and all before it are of class INTEGER in one register (integers, pointers,
//     references, enumerations, bool, char), or are in no such register: float, double, long double;
//   - where its code begins, debug information has the parameter in that very register, or, in code
//     that was not optimized, on the frame. What is optimized away is not known.
// Anything else (a structure among them, which may take two registers or none) is a reason.
//
// Debug information is that of the file, or of /usr/lib/debug/.build-id as the process sees it, and
// read when first asked for. It is not trusted: LLVM checks it, and what leads nowhere is a reason.
#pragma once

#include <memory>
#include <string>

#include "runtime/image/debug_sections.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct Parameter {
  int number = -1;    // n where it is $arg[n]; -1: not known
  uint64_t mask = 0;  // the bits of the register that are its own
  uint64_t sign = 0;  // its sign bit; 0 for one without sign and for one of 64 bits
  std::string why;    // it is not known
};

// Of the functions in one file with debug information.
class FileParameters {
 public:
  explicit FileParameters(DebugSections sections);
  ~FileParameters();
  // `entry`: the function's first address, as the file has it.
  Parameter find(uint64_t entry, const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of a process.
class Parameters {
 public:
  explicit Parameters(const Image& image);  // which must outlive this
  ~Parameters();

  // Stays valid.
  const Parameter& find(const Object& object, const Function& function, const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mdl::image
