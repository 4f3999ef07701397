// Facts from debug information about a process's functions: their parameters (parameters.h) and source files.
//
// It is that of the object's file, or of /usr/lib/debug/.build-id as the process sees it, and read when first
// asked for. LLVM reads it; it is not trusted, nor is LLVM with it: LLVM 19's reader of DWARF runs past the
// end of damaged sections (found by fuzz_dwarf), so each file is read in a process of its own
// (base/confined.h), and what ends that process is a reason why nothing is known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/confined.h"
#include "runtime/image/debug_sections.h"
#include "runtime/image/image.h"
#include "runtime/image/inlined.h"
#include "runtime/image/parameters.h"

namespace mdl::image {

// The debug information of one file. Addresses are those of the file.
class FileDebugInfo {
 public:
  // `seconds`: of processor time that reading may take.
  static Result<FileDebugInfo> open(DebugSections sections, unsigned seconds = 60);

  Parameter parameter(const FunctionStart& start, const std::string& name);
  ValueType value_type(const FunctionStart& start, int number);
  // The source file in which the function at each address begins, as the compiler was told its name; "" where
  // that is not known.
  std::vector<std::string> source_files(std::span<const uint64_t> entries);
  bool is_named(uint64_t entry, const std::string& name);  // function_die.h
  // inlined.h
  std::vector<std::string> holders(const std::string& name);
  // Of functions that have code of their own; none where that cannot be found out.
  Result<void> ask_holders(const std::vector<FunctionSymbol>& functions);
  bool has_asked_holders() const { return reader_.has_answer(); }  // who asks for them now does not wait
  std::vector<std::vector<std::string>> asked_holders();           // once

 private:
  explicit FileDebugInfo(Confined reader) : reader_(std::move(reader)) {}
  Confined reader_;
};

// The debug information of a process's objects.
class DebugInfo {
 public:
  explicit DebugInfo(const Image& image);  // which must outlive this
  ~DebugInfo();

  // Says how many bytes at a function's beginning do nothing. It is asked where there is debug information: the
  // function is decoded for that.
  using Idle = std::function<uint64_t()>;
  // Stays valid.
  const Parameter& parameter(const Object& object, const Function& function, const Idle& idle,
                             const std::string& name);

  // The type of $arg[number] or, for kResult, of $return, where the function has one name: several may be
  // functions that the linker has folded into one, whose types differ.
  const ValueType& value_type(const Object& object, const Function& function, const Idle& idle, int number);

  // Those that begin in a source file with this name, in the object's order. The name is the last component
  // of the file's: "db.c" for /build/src/db.c.
  std::vector<const Function*> functions_of_source(const Object& object, std::string_view name);

  // The functions that hold inlined copies of `name` (inlined.h); none where that takes too long to find out.
  std::vector<std::string> holders(const Object& object, const std::string& name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mdl::image
