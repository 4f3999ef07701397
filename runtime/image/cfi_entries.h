// The tables of jumps that clang's control flow integrity makes (-fsanitize=cfi-icall).
//
// A function whose address is taken gets an entry in such a table: `jmp f.cfi`, filled up with int3 to 8
// bytes (behind endbr64: to 16). Pointers lead to the entry, and the entry has the function's name `f`, while
// the code is `f.cfi`; each entry's symbol has the size of the whole table (LLVM,
// lib/Transforms/IPO/LowerTypeTests.cpp). Entries are no functions, as those of the procedure linkage table
// are none: a call by pointer would be counted twice, and one by name not at all. Their names are names of
// what they lead to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mdl::image {

struct CfiEntry {
  uint64_t size = 0;
  uint64_t target = 0;
};
inline constexpr size_t kMostOfCfiEntry = 16;

// What these bytes at an address are, if they are an entry of such a table.
std::optional<CfiEntry> read_cfi_entry(std::span<const std::byte> bytes, uint64_t address);

}  // namespace mdl::image
