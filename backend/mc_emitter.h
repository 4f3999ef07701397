// LLVM's machine code layer, behind one header: assembly text to an ELF object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mdl::backend {

// A section that is not code: no flags, no alignment.
struct DataSection {
  std::string name;
  std::string bytes;
};

// Assembles `text`, which begins in .text, and adds the sections, in their order. The same
// arguments give the same bytes. Errors: an unknown CPU, or text that is not assembly of
// the target (a defect of ours; the error quotes the line).
Result<std::vector<std::byte>> assemble(std::string_view triple, std::string_view cpu,
                                        const std::string& text, const std::vector<DataSection>& sections);

// An error when LLVM does not know the CPU, or when it lacks one of the features (LLVM's words).
Result<void> check_cpu(std::string_view triple, std::string_view cpu,
                       std::span<const std::string_view> required);

// The name of this machine's CPU, when it is one of the triple's; else "".
std::string native_cpu(std::string_view triple);

// The bytes of a section of an object that assemble() made; empty when there is none.
std::span<std::byte> section_bytes(std::vector<std::byte>& object, std::string_view name);

// The sizes of an object's functions, by name.
std::map<std::string, uint64_t> function_sizes(const std::vector<std::byte>& object);

}  // namespace mdl::backend
