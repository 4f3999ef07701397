#include "runtime/image/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "llvm/DebugInfo/DWARF/DWARFCompileUnit.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/DebugInfo/DWARF/DWARFDie.h"
#include "runtime/arch/conventions.h"
#include "runtime/arch/description.h"
#include "runtime/image/function_die.h"

namespace mdl::image {
namespace {

using llvm::DWARFDie;
namespace dw = llvm::dwarf;

constexpr int kMaxTypes = 64;           // typedefs and qualifiers around a type
constexpr int kMaxMembers = 64;         // of a structure
constexpr size_t kMaxParameters = 256;  // that are looked at
using Class = arch::ArgumentClass;
using Shape = arch::ValueShape;

// How many registers pass arguments.
int register_count() {
  return static_cast<int>(arch::kMachine.argument_registers.size());
}
constexpr std::string_view kNumbers[] = {"none", "one", "two",   "three", "four",
                                         "five", "six", "seven", "eight", "nine"};

struct Type {
  Class is = Class::unknown;
  Shape::Kind kind = Shape::Kind::other;
  uint64_t size = 8;
  bool has_sign = false;
};

Type classified(Shape::Kind kind, uint64_t size, bool has_sign) {
  const Class is = arch::class_of_argument({kind, size});
  return is == Class::unknown ? Type{} : Type{is, kind, size, has_sign};
}

// Without typedefs, const and volatile; invalid for void.
std::optional<DWARFDie> bare_type(DWARFDie of) {
  for (int i = 0; i < kMaxTypes; i++) {
    auto reference = of.findRecursively({dw::DW_AT_type});
    if (!reference) return DWARFDie();
    DWARFDie type = of.getAttributeValueAsReferencedDie(*reference);
    if (type) type = type.resolveTypeUnitReference();
    if (!type) return std::nullopt;
    switch (type.getTag()) {
      case dw::DW_TAG_typedef:
      case dw::DW_TAG_const_type:
      case dw::DW_TAG_volatile_type:
      case dw::DW_TAG_restrict_type:
      case dw::DW_TAG_atomic_type:
        of = type;
        break;
      default:
        return type;
    }
  }
  return std::nullopt;
}

uint64_t number(const DWARFDie& die, dw::Attribute attribute) {
  return dw::toUnsigned(die.find(attribute), 0);
}

Type base_type(const DWARFDie& type) {
  const uint64_t size = number(type, dw::DW_AT_byte_size);
  const uint64_t bits = number(type, dw::DW_AT_bit_size);
  if (bits != 0 && bits != 8 * size) return {};  // _BitInt(17): nobody says what the others hold
  switch (number(type, dw::DW_AT_encoding)) {
    case dw::DW_ATE_boolean:
    case dw::DW_ATE_unsigned:
    case dw::DW_ATE_unsigned_char:
    case dw::DW_ATE_UTF:
      return classified(Shape::Kind::integer, size, false);
    case dw::DW_ATE_signed:
    case dw::DW_ATE_signed_char:
      return classified(Shape::Kind::integer, size, true);
    case dw::DW_ATE_float:
    case dw::DW_ATE_complex_float:
    case dw::DW_ATE_decimal_float:
      return classified(Shape::Kind::floating, size, false);
    default:
      return {};
  }
}

// An enumeration has its underlying type's sign; where that is not said, it has one if an enumerator is
// negative.
Type enumeration(const DWARFDie& type) {
  Type result = classified(Shape::Kind::integer, number(type, dw::DW_AT_byte_size), false);
  if (result.is == Class::unknown) return {};
  auto underlying = bare_type(type);
  if (underlying && *underlying) {
    result.has_sign = base_type(*underlying).has_sign;
    return result;
  }
  for (DWARFDie child = type.getFirstChild(); child && !child.isNULL(); child = child.getSibling()) {
    auto value = child.find(dw::DW_AT_const_value);
    auto with_sign = value ? value->getAsSignedConstant() : std::nullopt;
    result.has_sign = result.has_sign || (with_sign && *with_sign < 0);
  }
  return result;
}

Type type_of(const DWARFDie& of) {
  std::optional<DWARFDie> type = bare_type(of);
  if (!type) return {};
  if (!*type) return classified(Shape::Kind::nothing, 0, false);
  switch (type->getTag()) {
    case dw::DW_TAG_base_type:
      return base_type(*type);
    case dw::DW_TAG_enumeration_type:
      return enumeration(*type);
    case dw::DW_TAG_pointer_type:
    case dw::DW_TAG_reference_type:
    case dw::DW_TAG_rvalue_reference_type:
      return classified(Shape::Kind::integer, 8, false);
    case dw::DW_TAG_subrange_type: {  // of Ada and Pascal: `Natural`
      const std::optional<DWARFDie> of_all = bare_type(*type);
      const bool has_base = of_all && *of_all && of_all->getTag() == dw::DW_TAG_base_type;
      return has_base && !type->find(dw::DW_AT_byte_size) ? base_type(*of_all) : Type{};
    }
    default:
      return {};
  }
}

bool is_structure(const DWARFDie& type) {
  return type.getTag() == dw::DW_TAG_structure_type || type.getTag() == dw::DW_TAG_class_type ||
         type.getTag() == dw::DW_TAG_union_type;
}

// A structure of one vector of 32 or 64 bytes is returned in a vector register, whatever its size.
bool holds_vector(const DWARFDie& structure, int& left) {
  for (DWARFDie child = structure.getFirstChild(); child && !child.isNULL(); child = child.getSibling()) {
    if (child.getTag() != dw::DW_TAG_member || left-- <= 0) continue;
    const std::optional<DWARFDie> type = bare_type(child);
    if (!type || !*type) continue;
    if (type->find(dw::DW_AT_GNU_vector) || (is_structure(*type) && holds_vector(*type, left))) return true;
  }
  return false;
}

Class class_of_result(const DWARFDie& function) {
  std::optional<DWARFDie> type = bare_type(function);
  if (!type) return Class::unknown;
  if (!*type) return arch::class_of_result({Shape::Kind::nothing, 0});
  if (is_structure(*type)) {
    // What a class of C++ needs to be copied decides for it, whatever its size (Itanium C++ ABI, 3.1.3.1).
    const uint64_t convention = number(*type, dw::DW_AT_calling_convention);
    if (convention == dw::DW_CC_pass_by_reference) return Class::memory;
    int members = kMaxMembers;
    if (holds_vector(*type, members)) return Class::unknown;
    return arch::class_of_result({Shape::Kind::structure, number(*type, dw::DW_AT_byte_size)});
  }
  const Type result = type_of(function);
  return arch::class_of_result({result.kind, result.size});
}

// Debug information's own word for where a parameter is when the function begins.
enum class Place : uint8_t {
  not_said,
  in_register,  // in that one
  on_frame,     // in code that was not optimized, which puts it there from its register
  by_address,  // its address is in that register, or on the frame: Fortran, and classes of C++ that are not copied
  elsewhere,  // in another one, a constant, or on the stack of the caller
};
bool is_there(Place place) {
  return place == Place::in_register || place == Place::on_frame;
}

// In the caller's frame, where arguments on the stack are, and the room that Microsoft's convention has for those in
// registers: not below the canonical frame address, where the frame base is that.
bool is_of_caller(const DWARFDie& function, const llvm::DWARFLocationExpression& location) {
  auto base = function.getLocations(dw::DW_AT_frame_base);
  if (!base) return llvm::consumeError(base.takeError()), false;
  const bool is_cfa = base->size() == 1 && base->front().Expr.size() == 1 &&
                      base->front().Expr[0] == dw::DW_OP_call_frame_cfa;
  if (!is_cfa) return false;
  // The last byte of a signed LEB128 number has its sign in bit 6 (DWARF 5, 7.6).
  size_t last = 1;
  while (last < location.Expr.size() && (location.Expr[last] & 0x80) != 0) ++last;
  return last < location.Expr.size() && (location.Expr[last] & 0x40) == 0;
}

// How many bytes the LEB128 number behind an operation takes.
size_t size_of_number(const llvm::DWARFLocationExpression& location) {
  size_t size = 1;
  while (size < location.Expr.size() && (location.Expr[size] & 0x80) != 0) ++size;
  return size;
}

bool holds_arguments(int reg) {
  return std::ranges::find(arch::kMachine.argument_registers, reg) != arch::kMachine.argument_registers.end();
}

Place place_in(const DWARFDie& function, const llvm::DWARFLocationExpression& location, uint8_t reg) {
  const auto& expr = location.Expr;
  if (expr.empty()) return Place::not_said;
  if (expr.size() == 1 && expr[0] >= dw::DW_OP_reg0 && expr[0] <= dw::DW_OP_reg31)
    return expr[0] == dw::DW_OP_reg0 + reg ? Place::in_register : Place::elsewhere;
  if (expr[0] >= dw::DW_OP_lit0 && expr[0] <= dw::DW_OP_lit31) return Place::elsewhere;
  if (expr[0] >= dw::DW_OP_const1u && expr[0] <= dw::DW_OP_consts) return Place::elsewhere;
  if (expr.size() == 2 && expr[1] == 0 && holds_arguments(expr[0] - dw::DW_OP_breg0))
    return Place::by_address;
  if (expr[0] != dw::DW_OP_fbreg) return Place::not_said;
  if (is_of_caller(function, location)) return Place::elsewhere;
  const size_t end = 1 + size_of_number(location);
  if (expr.size() == end + 1 && expr[end] == dw::DW_OP_deref) return Place::by_address;
  return expr.size() == end && !location.Range ? Place::on_frame : Place::not_said;
}

Place place_of(const DWARFDie& parameter, const FunctionStart& start, uint8_t reg) {
  if (parameter.find(dw::DW_AT_const_value)) return Place::elsewhere;
  auto locations = parameter.getLocations(dw::DW_AT_location);
  if (!locations) return llvm::consumeError(locations.takeError()), Place::not_said;
  for (const uint64_t address : {start.entry, start.entry + start.idle})
    for (const llvm::DWARFLocationExpression& location : *locations)
      if (!location.Range || (address >= location.Range->LowPC && address < location.Range->HighPC))
        return place_in(parameter.getParent(), location, reg);
  return Place::not_said;
}

// It has no place at all, in a function that only its own unit can call: LLVM hands nothing over there.
bool is_left_out(const DWARFDie& function, const DWARFDie& parameter) {
  return !parameter.find(dw::DW_AT_location) && !function.findRecursively({dw::DW_AT_external});
}

size_t count_parameters(const DWARFDie& function) {
  size_t count = 0;
  for (DWARFDie child = function.getFirstChild(); child && !child.isNULL(); child = child.getSibling())
    count += child.getTag() == dw::DW_TAG_formal_parameter;
  return count;
}

// A function that was also inlined, or declared in a class, refers to what it comes from.
bool has_all_parameters(const DWARFDie& function) {
  DWARFDie origin = function.getAttributeValueAsReferencedDie(dw::DW_AT_abstract_origin);
  return !origin || count_parameters(origin) == count_parameters(function);
}

ValueType value_type(const Type& type) {
  if (type.is != Class::integer || type.size >= 8) return {};
  return {.mask = (uint64_t{1} << (8 * type.size)) - 1,
          .sign = type.has_sign ? uint64_t{1} << (8 * type.size - 1) : 0,
          .why = {}};
}

bool follows_convention(const DWARFDie& function) {
  return dw::toUnsigned(function.findRecursively({dw::DW_AT_calling_convention}), dw::DW_CC_normal) ==
         dw::DW_CC_normal;
}

ValueType unknown_value(std::string why) {
  ValueType type;
  type.why = std::move(why);
  return type;
}

constexpr std::string_view kOwnConvention = "its calling convention is one of its own";
constexpr std::string_view kResultInDoubt =
    "what it returns may or may not take the first argument's register";
constexpr std::string_view kLeftOut = "the compiler left out some of its parameters";

// A parameter as it is handed over: by its address, whatever it is, where debug information says so.
Type handed_over(const DWARFDie& parameter, Place place) {
  return place == Place::by_address ? classified(Shape::Kind::integer, 8, false) : type_of(parameter);
}

std::string takes_any_registers(std::string_view parameter) {
  return fmt::format("its parameter `{}` may take several registers or none", parameter);
}

// The source does not have it: the length of a text (Fortran), what a constructor is given for virtual bases. `this`
// and the captures of a lambda count as the first parameter.
bool is_added(const DWARFDie& function, const DWARFDie& parameter) {
  if (!parameter.findRecursively({dw::DW_AT_artificial}) || short_name(parameter) == "this") return false;
  return function.getAttributeValueAsReferencedDie(dw::DW_AT_object_pointer) != parameter;
}

// Of the parameter that a register holds. `position`: which one it is of the source's integers and pointers.
ValueType type_in_register(const DWARFDie& function, const DWARFDie& parameter, Place place, int number,
                           int position) {
  const std::string_view name = short_name(parameter);
  if (place == Place::by_address)
    return unknown_value(
        fmt::format("`{}` is handed over by its address, which is long($arg[{}])", name, number));
  if (place == Place::elsewhere || (place == Place::not_said && is_left_out(function, parameter)))
    return unknown_value(
        fmt::format("the compiler did not keep `{}` where the calling convention has it", name));
  if (is_added(function, parameter))
    return unknown_value(fmt::format("its register holds `{}`, which the compiler has added", name));
  if (position != number)
    return unknown_value(
        fmt::format("its register holds `{}`, which is integer or pointer argument {} where the first is 0",
                    name, position));
  return is_there(place) ? value_type(type_of(parameter)) : ValueType{};
}

// What the register of an argument holds, found by walking the parameters in their order. Behind one that may take any
// number of registers, debug information has to name the register itself.
ValueType type_of_argument(const DWARFDie& function, const FunctionStart& start, int number) {
  if (number < 0 || number >= register_count()) return {};
  const uint8_t reg = arch::kMachine.argument_registers[static_cast<size_t>(number)];
  const Class result = class_of_result(function);
  if (result == Class::memory && number == 0)
    return unknown_value("its register has the address of its result");
  std::string doubt = result == Class::unknown ? std::string(kResultInDoubt) : "";
  int at = result == Class::memory ? 1 : 0;
  int position = 0;
  size_t seen = 0;
  bool has_more = false;
  for (DWARFDie child = function.getFirstChild(); child && !child.isNULL(); child = child.getSibling()) {
    has_more = has_more || child.getTag() == dw::DW_TAG_unspecified_parameters;
    if (child.getTag() == dw::DW_TAG_GNU_formal_parameter_pack && doubt.empty())
      doubt = "it has a parameter pack";
    if (child.getTag() != dw::DW_TAG_formal_parameter) continue;
    if (++seen > kMaxParameters) return {};
    const Place place = place_of(child, start, reg);
    const Type type = handed_over(child, place);
    const bool is_here =
        doubt.empty() ? type.is == Class::integer && at == number : place == Place::in_register;
    if (is_here) return type_in_register(function, child, place, number, position);
    if (type.is == Class::unknown && doubt.empty()) doubt = takes_any_registers(short_name(child));
    at += type.is == Class::integer;
    position += type.is == Class::integer && !is_added(function, child);
  }
  if (!doubt.empty()) return unknown_value(std::move(doubt));
  // Those of a variable number follow the named ones.
  if (has_more && number >= position && at == position) return {};
  return unknown_value("none of its parameters is in its register");
}

ValueType type_of_result(const DWARFDie& function) {
  const std::optional<DWARFDie> bare = bare_type(function);
  if (!bare) return {};
  if (!*bare) return unknown_value("it returns nothing");
  if (is_structure(*bare)) return unknown_value("it returns a structure");
  if (bare->getTag() == dw::DW_TAG_array_type) return unknown_value("it returns an array");
  const Type type = type_of(function);
  if (type.kind == Shape::Kind::floating) return unknown_value("it returns a floating-point number");
  if (bare->getTag() == dw::DW_TAG_base_type && number(*bare, dw::DW_AT_byte_size) > 8)
    return unknown_value("its result takes more than one register");
  return value_type(type);
}

// Assemblers describe functions without their parameters and results.
bool is_assembly(const DWARFDie& function) {
  return number(function.getDwarfUnit()->getUnitDIE(), dw::DW_AT_language) == dw::DW_LANG_Mips_Assembler;
}

Parameter look(const DWARFDie& function, const FunctionStart& start, const std::string& name) {
  if (!follows_convention(function)) return Parameter::unknown(std::string(kOwnConvention));
  if (!has_all_parameters(function)) return Parameter::unknown(std::string(kLeftOut));
  const Class result = class_of_result(function);
  if (result == Class::unknown) return Parameter::unknown(std::string(kResultInDoubt));
  int at = result == Class::memory ? 1 : 0;
  std::string names;
  size_t seen = 0;
  for (DWARFDie child = function.getFirstChild(); child && !child.isNULL(); child = child.getSibling()) {
    if (child.getTag() == dw::DW_TAG_GNU_formal_parameter_pack)
      return Parameter::unknown("it has a parameter pack");
    if (child.getTag() != dw::DW_TAG_formal_parameter || ++seen > kMaxParameters) continue;
    const bool by_address = place_of(child, start, 0) == Place::by_address;
    const Type type = handed_over(child, by_address ? Place::by_address : Place::not_said);
    const std::string_view its = short_name(child);
    if (its != name) {
      if (type.is == Class::unknown) return Parameter::unknown(takes_any_registers(its));
      at += type.is == Class::integer;
      if (names.size() < 200) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", its);
      continue;
    }
    if (by_address) return Parameter::unknown(fmt::format("`{}` is handed over by its address", name));
    if (type.is != Class::integer)
      return Parameter::unknown(fmt::format("`{}` is no integer or pointer in one register", name));
    if (at >= register_count())
      return Parameter::unknown(fmt::format("`{}` is on the stack: {} are in registers", name,
                                            kNumbers[static_cast<size_t>(register_count())]));
    const uint8_t reg = arch::kMachine.argument_registers[static_cast<size_t>(at)];
    if (!is_there(place_of(child, start, reg)))
      return Parameter::unknown(
          fmt::format("the compiler did not keep `{}` where the calling convention has it", name));
    Parameter found;
    found.number = at;
    const ValueType value = value_type(type);
    found.mask = value.mask;
    found.sign = value.sign;
    return found;
  }
  return Parameter::unknown(names.empty() ? fmt::format("it has no parameter `{}`", name)
                                          : fmt::format("it has no parameter `{}`: it has {}", name, names));
}

}  // namespace

Parameter Parameter::unknown(std::string why) {
  Parameter result;
  result.why = std::move(why);
  return result;
}

bool FoldedFunctions::contains(llvm::DWARFUnit& unit, uint64_t entry) {
  const auto [slot, fresh] = by_unit_.try_emplace(&unit);
  if (!fresh) return slot->second.contains(entry);
  std::unordered_set<uint64_t> seen;
  for (const llvm::DWARFDebugInfoEntry& in_unit : unit.dies()) {
    const DWARFDie die(&unit, &in_unit);
    if (die.getTag() != dw::DW_TAG_subprogram) continue;
    auto ranges = die.getAddressRanges();
    if (!ranges) {
      llvm::consumeError(ranges.takeError());
      continue;
    }
    for (const llvm::DWARFAddressRange& range : *ranges)
      if (!seen.insert(range.LowPC).second) slot->second.insert(range.LowPC);
  }
  return slot->second.contains(entry);
}

ValueType find_value_type(llvm::DWARFContext& context, FoldedFunctions& folded, const FunctionStart& start,
                          int number) {
  const DWARFDie die = function_at(context, start.entry);
  if (!die || is_assembly(die) || folded.contains(*die.getDwarfUnit(), start.entry)) return {};
  // A convention of its own is one of parameters.
  if (number == kResult) return type_of_result(die);
  if (!follows_convention(die)) return unknown_value(std::string(kOwnConvention));
  return has_all_parameters(die) ? type_of_argument(die, start, number)
                                 : unknown_value(std::string(kLeftOut));
}

Parameter find_parameter(llvm::DWARFContext& context, const FunctionStart& start, const std::string& name) {
  const DWARFDie die = function_at(context, start.entry);
  return die ? look(die, start, name) : Parameter::unknown("debug information does not describe it");
}

}  // namespace mdl::image
