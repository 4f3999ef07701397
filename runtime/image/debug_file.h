// Symbols that a stripped file has elsewhere: in a separate debug file that its build id names, or, packed,
// in its own section .gnu_debugdata.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/image/elf.h"

namespace mdl::image {

// /usr/lib/debug/.build-id/xx/yyyy.debug as the process sees it, if its own build id is that one.
std::optional<ElfFile> find_debug_file(pid_t pid, const std::string& build_id);

// The ELF file that .gnu_debugdata holds, xz-compressed: it has a symbol table of the functions that .dynsym
// does not name.
std::optional<ElfFile> unpack_debug_data(const ElfFile& file);

}  // namespace mdl::image
