// LLVM's machine code layer, behind one header: assembly text to an ELF object.
#pragma once

#include <array>
#include <cstddef>
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

bool is_cpu(std::string_view triple, std::string_view cpu);

// The bytes of a section of an object that assemble() made; empty when there is none.
std::span<std::byte> section_bytes(std::vector<std::byte>& object, std::string_view name);

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes);

}  // namespace mdl::backend
