// One ELF file as a process has it mapped: from headers and sections to an Object.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/image/elf.h"
#include "runtime/image/image.h"

namespace mdl::image {

// Run-time address minus virtual address for the segment that `mapping` maps; nothing when no
// loaded segment covers the mapping's file offset. `mappings`, all of the file by address, tell which segment is
// meant where several cover it.
std::optional<uint64_t> bias_of(const ElfFile& file, const Mapping& mapping,
                                std::span<const Mapping* const> mappings = {});

// The file of an object, opened again.
Result<ElfFile> open_object(const Image& image, const Object& object);

// Fills an Object with all that the file says of it but its functions. `mappings` are those of the file at
// this bias. `common`: of its budget, that of its process; without one there is no end to it.
void describe(const ElfFile& file, std::span<const Mapping* const> mappings, uint64_t bias, Object& object,
              std::shared_ptr<Budget::Common> common = {});
// Its restartable sequences (rseq(2)), after describe(), by their descriptions in `__rseq_cs`, and where each
// begins again. All of its code when these cannot be read, or hold no addresses yet.
std::vector<Range> read_restartable(const ElfFile& file, const Object& object, const Memory& memory);
// After add_functions(): whether pointers lead to code from before BOLT has rewritten the file, but to no function
// that was left there. It does not follow the addresses of labels (`goto *`), so a function that has them goes on in
// its old copy, and calls old copies from there.
bool runs_old_code(const ElfFile& file, const Object& object);
// Why nothing of an object is measured whose budget is spent.
std::string over_budget(const Object& object);
// Its functions, after describe(), or those of them that have symbols. `debug` is its separate debug file, or null.
void add_functions(const ElfFile& file, Object& object, const ElfFile* debug = nullptr,
                   bool only_named = false);
// The others, for an object that has only those.
void add_unnamed(const ElfFile& file, Object& object);

// The call frame information of a file, null when it has none.
std::shared_ptr<const FrameTable> read_frames(const ElfFile& file, uint64_t bias);

// The functions of a file that have symbols, by address: those of its own tables and of `debug` (its separate
// debug file or null). `frames` (may be null) bounds those without a size.
struct NamedFunctions {
  std::vector<Function> functions;
  bool has_haskell = false;     // as in Object
  bool is_mono = false;         // the same
  bool catches_faults = false;  // the same
};
NamedFunctions read_functions(const ElfFile& file, const ElfFile* debug, uint64_t bias,
                              const FrameTable* frames);

}  // namespace mdl::image
