// Where a function finds the parameters that its source names: `$args.name`.
//
// Debug information (DWARF 2 to 5) names a function's parameters, and the calling convention
// (arch/conventions.h) says where each is when the function is entered. A wrong place would be a wrong
// number, so a parameter is known only where nothing is left to doubt:
//   - the function is one that follows the convention: no clone with parameters of its own (a name with a
//     dot that the source does not have, such as f.constprop.0), not marked DW_CC_nocall;
//   - its result, the parameter and all before it are of class INTEGER in one register (integers, pointers,
//     references, enumerations, bool, char), or are in no such register: float, double, long double. What is handed
//     over by its address counts as a pointer, where debug information says so;
//   - where its code begins, debug information has the parameter in that very register, or, in code
//     that was not optimized, on the frame. A parameter that is optimized away is not known. Clang has
//     nothing to say of instructions that do nothing (endbr64, room for a patch): code begins behind these.
// Anything else (a structure among them, which may take two registers or none) is a reason.
//
// Nothing of it is trusted: what leads nowhere is a reason.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace llvm {
class DWARFContext;
class DWARFUnit;
}  // namespace llvm

namespace mdl::image {

struct Parameter {
  int number = -1;    // n where it is $arg[n]; -1: not known
  uint64_t mask = 0;  // the bits of the register that are its own
  uint64_t sign = 0;  // its sign bit; 0 for one without sign and for one of 64 bits
  std::string why;    // it is not known

  static Parameter unknown(std::string why);
};

// The width and the sign of a value in a register: it is ((register & mask) ^ sign) - sign.
struct ValueType {
  uint64_t mask = ~uint64_t{0};  // all bits where the type has 64, or is not known
  uint64_t sign = 0;
  std::string why;  // the register holds something else
};

// Where a function begins, as its file has it, and how many bytes from there on do nothing.
struct FunctionStart {
  uint64_t entry = 0;
  uint64_t idle = 0;
};
inline constexpr int kResult = -1;  // in place of an argument's number

// The linker may fold functions of the same code into one, whose types differ.
class FoldedFunctions {
 public:
  // Whether several functions of the unit begin at the address.
  bool contains(llvm::DWARFUnit& unit, uint64_t entry);

 private:
  std::unordered_map<const llvm::DWARFUnit*, std::unordered_set<uint64_t>> by_unit_;
};

// The width and sign of $arg[number], or of $return, by its declared type. $arg[number] is the parameter that has this
// number among the integers and pointers of the source, and $return is a number in one register: where the function is described and either is not so,
// or not certain by the rules above, that is why there is no such value. Nothing is guessed of a function that is not
// described, and where two functions of one unit begin at the address: all bits are the value.
ValueType find_value_type(llvm::DWARFContext& context, FoldedFunctions& folded, const FunctionStart& start,
                          int number);

Parameter find_parameter(llvm::DWARFContext& context, const FunctionStart& start, const std::string& name);

}  // namespace mdl::image
