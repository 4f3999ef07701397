#include "runtime/image/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/BinaryFormat/ELF.h"
#include "runtime/image/frames.h"
#include "runtime/image/incoming_jumps.h"
#include "runtime/image/references.h"
#include "runtime/image/unnamed.h"

namespace mdl::image {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostSequences = 16 << 20;  // bytes of their descriptions, and of one
constexpr size_t kComparedSegments = 16;
constexpr uint64_t page_down(uint64_t value) {
  return value & ~(kPage - 1);
}
constexpr uint64_t page_up(uint64_t value) {
  return page_down(value + kPage - 1);
}

bool is_code(const Segment& segment) {
  return segment.type == llvm::ELF::PT_LOAD && (segment.flags & llvm::ELF::PF_X) != 0;
}

bool overlaps(const Range& range, const Segment& segment, uint64_t bias) {
  uint64_t start = bias + segment.address;
  return range.start < start + segment.memory_size && start < range.end;
}

// The rest of the last page of each code segment. The bytes there are in no segment, so
// nothing refers to them; they are executable because protection is by page.
std::vector<Range> unused_text(const ElfFile& file, const std::vector<Range>& text, uint64_t bias) {
  std::vector<Range> unused;
  for (const Segment& segment : file.segments()) {
    if (!is_code(segment) || segment.memory_size != segment.file_size) continue;
    uint64_t end = bias + segment.address + segment.memory_size;
    Range rest{end, page_up(end)};
    bool mapped = std::any_of(text.begin(), text.end(), [&](const Range& range) {
      return rest.start > range.start && rest.end <= range.end;
    });
    bool free = std::none_of(file.segments().begin(), file.segments().end(), [&](const Segment& other) {
      return other.type == llvm::ELF::PT_LOAD && overlaps(rest, other, bias);
    });
    if (rest.start < rest.end && mapped && free) unused.push_back(rest);
  }
  return unused;
}

// A program may map a piece of its file a second time (V8 does, for its built-in functions): only
// what is inside the mappings exists there.
bool is_outside(const Object& object, uint64_t address) {
  return std::none_of(object.text.begin(), object.text.end(),
                      [&](const Range& range) { return range.contains(address); });
}

// struct rseq_cs of linux/rseq.h.
struct Sequence {
  uint32_t version, flags;
  uint64_t start, size, abort;
};

void refuse(Object& object) {
  object.problem = over_budget(object);
  object.functions = {};
}

// A file that is sparse may have any size.
std::shared_ptr<const Budget> make_budget(const ElfFile& file, const Object& object,
                                          std::shared_ptr<Budget::Common> common) {
  uint64_t code = 0;
  for (const Range& range : object.text) code += range.end - range.start;
  const uint64_t frames = object.frame_table ? object.frame_table->section().size() : 0;
  return std::make_shared<Budget>(std::min(code, file.stored_bytes()), std::min(frames, file.stored_bytes()),
                                  std::move(common));
}

// With its functions, all of them or those that have symbols.
void finish(Object& object, std::vector<Function> functions, bool is_whole) {
  if (object.budget->is_spent()) return refuse(object);
  std::erase_if(functions, [&](const Function& function) { return is_outside(object, function.address); });
  object.parts.clear();
  for (size_t i = 0; i < functions.size(); ++i)
    for (const Range& part : functions[i].parts) object.parts.push_back({part, i});
  object.functions = {std::move(functions), is_whole};
  std::sort(object.parts.begin(), object.parts.end(),
            [](const Part& a, const Part& b) { return a.range.start < b.range.start; });
}

// Whether a page of the file at this offset is mapped for the segment.
bool covers(const Segment& segment, uint64_t offset) {
  return segment.type == llvm::ELF::PT_LOAD && segment.file_size != 0 &&
         offset >= page_down(segment.offset) &&
         offset - page_down(segment.offset) < segment.file_size + segment.offset % kPage;
}

// How many of the file's loaded segments are where this bias has them. `mappings`: of the file, by address. A file
// with more than the first 16 is made to be slow.
size_t segments_in_place(const ElfFile& file, uint64_t bias, std::span<const Mapping* const> mappings) {
  size_t loaded = 0, in_place = 0;
  for (const Segment& segment : file.segments()) {
    if (segment.type != llvm::ELF::PT_LOAD || ++loaded > kComparedSegments) continue;
    const uint64_t start = bias + segment.address;
    const auto after = std::ranges::upper_bound(mappings, start, {}, &Mapping::start);
    if (after == mappings.begin()) continue;
    const Mapping& mapping = **std::prev(after);
    if (start < mapping.end && start - mapping.start + mapping.offset == segment.offset) in_place++;
  }
  return in_place;
}

}  // namespace

std::vector<Range> read_restartable(const ElfFile& file, const Object& object, const Memory& memory) {
  std::vector<Range> out;
  for (const char* name : {"__rseq_cs", "__rseq_table"}) {  // the second: before Linux 4.19
    const Section* section = file.section(name);
    if (!section) continue;
    std::vector<Sequence> sequences(std::min<uint64_t>(section->size, kMostSequences) / sizeof(Sequence));
    if (section->size > kMostSequences ||
        !memory.read(object.bias + section->address, std::as_writable_bytes(std::span(sequences))))
      return object.text;
    for (const Sequence& one : sequences) {
      if (one.start == 0 && one.size == 0) continue;
      if (is_outside(object, one.start) || one.size > kMostSequences)
        return object.text;  // not relocated yet
      out.push_back({one.start, one.start + one.size});
      // The kernel looks for a signature in the four bytes before.
      out.push_back({one.abort - sizeof(uint32_t), one.abort + 1});
    }
  }
  return out;
}

bool runs_old_code(const ElfFile& file, const Object& object) {
  const Section* section = file.section(".bolt.org.text");
  if (!section) return false;
  const Range old{section->address + object.bias, section->address + object.bias + section->size};
  std::vector<Range> kept;  // by address, each reaching as far as any before it
  for (const Function& function : object.functions.named())
    if (old.contains(function.address))
      kept.push_back(
          {function.address, std::max(kept.empty() ? 0 : kept.back().end, function.address + function.size)});
  return std::ranges::any_of(file.relocated_pointers(), [&](uint64_t pointer) {
    const uint64_t address = pointer + object.bias;
    const auto after = std::ranges::upper_bound(kept, address, {}, &Range::start);
    return old.contains(address) && (after == kept.begin() || std::prev(after)->end <= address);
  });
}

std::optional<uint64_t> bias_of(const ElfFile& file, const Mapping& mapping,
                                std::span<const Mapping* const> mappings) {
  // One page of the file may be mapped by several segments, also by two of code (gold's text-unlikely-segment).
  // At a wrong one's bias the others are not in their places. A piece that the program has mapped again (V8) has no
  // others: then its rights tell, and that it begins as its segment does.
  std::optional<uint64_t> best;
  std::tuple<size_t, bool, bool> best_signs;
  for (const Segment& segment : file.segments()) {
    if (!covers(segment, mapping.offset)) continue;
    const uint64_t bias = mapping.start - mapping.offset - (segment.address - segment.offset);
    const std::tuple signs{segments_in_place(file, bias, mappings),
                           ((segment.flags & llvm::ELF::PF_X) != 0) == mapping.execute,
                           mapping.offset == page_down(segment.offset)};
    if (best && signs <= best_signs) continue;
    best = bias;
    best_signs = signs;
  }
  return best;
}

std::shared_ptr<const FrameTable> read_frames(const ElfFile& file, uint64_t bias) {
  std::vector<std::byte> bytes;
  uint64_t address = 0;
  if (const Section* section = file.section(".eh_frame")) {
    bytes = file.contents(*section);
    address = section->address + bias;
  } else {
    // Without section headers: PT_GNU_EH_FRAME is .eh_frame_hdr, whose second field points there.
    for (const Segment& segment : file.segments()) {
      if (segment.type != llvm::ELF::PT_GNU_EH_FRAME) continue;
      std::vector<std::byte> header = file.at_address(segment.address, 16);
      if (header.size() < 16 || header[0] != std::byte{1}) continue;
      uint64_t at = 4;
      std::optional<uint64_t> frames =
          read_encoded_pointer(header, segment.address, at, static_cast<uint8_t>(header[1]), 0);
      if (!frames) continue;
      bytes = file.at_address(*frames, UINT64_MAX >> 1);
      address = *frames + bias;
    }
  }
  if (bytes.empty()) return nullptr;
  auto table = std::make_shared<FrameTable>(std::move(bytes), address, bias);
  return table->entries().empty() ? nullptr : table;
}

void describe(const ElfFile& file, std::span<const Mapping* const> mappings, uint64_t bias, Object& object,
              std::shared_ptr<Budget::Common> common) {
  object.bias = bias;
  object.far_jumps = std::make_shared<FarJumps>();
  object.references = std::make_shared<References>();
  object.build_id = file.build_id();
  object.is_go = file.section(".go.buildinfo") || file.section(".note.go.buildid");
  for (const Mapping* mapping : mappings)
    if (mapping->execute) {
      object.text.push_back({mapping->start, mapping->end});
      object.is_shared |= mapping->shared;
    }
  if (!object.is_shared) object.unused_text = unused_text(file, object.text, bias);
  object.frame_table = read_frames(file, bias);
  if (common) object.budget = make_budget(file, object, std::move(common));
  if (object.frame_table) {
    object.frames.reserve(object.frame_table->entries().size());
    for (const Fde& entry : object.frame_table->entries()) object.frames.push_back({entry.start, entry.end});
  }
  std::erase_if(object.frames, [&](const Range& range) { return is_outside(object, range.start); });
  // Programs are linked with a library by this name, and it stays when the library is replaced by a newer one.
  std::string soname = file.soname();
  if (soname.empty() || soname == object.name || soname.find('/') != soname.npos) return;
  object.aliases.push_back(std::exchange(object.name, std::move(soname)));
}

std::string over_budget(const Object& object) {
  return fmt::format(
      "{} is more work than its size allows: its functions overlap, or its tables say much of the same code "
      "again and again",
      object.name);
}

// Only GCC has made the code, as far as the file says: `.comment` has a text of each compiler and linker that took
// part, with a zero byte behind it.
bool is_of_gcc(const ElfFile& file) {
  constexpr std::string_view kGcc = "GCC: (", kLinkers[] = {"Linker: ", "mold "};
  const Section* section = file.section(".comment");
  const std::vector<std::byte> bytes = section ? file.contents(*section) : std::vector<std::byte>();
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bool found = false;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const bool is_linker =
        std::ranges::any_of(kLinkers, [&](std::string_view linker) { return one.starts_with(linker); });
    if (!one.empty() && !is_linker && !one.starts_with(kGcc)) return false;
    found |= one.starts_with(kGcc);
  }
  return found;
}

void add_functions(const ElfFile& file, Object& object, const ElfFile* debug, bool only_named) {
  object.is_trimmed = !is_of_gcc(file);
  NamedFunctions named = read_functions(file, debug, object.bias, object.frame_table.get());
  object.has_haskell = named.has_haskell;
  object.is_mono = named.is_mono;
  object.catches_faults |= named.catches_faults;
  object.functions = {std::move(named.functions), false};
  if (!only_named || !object.frame_table) return add_unnamed(file, object);
  finish(object, std::move(object.functions.list()), false);
}

void add_unnamed(const ElfFile& file, Object& object) {
  std::vector<Function> functions = std::move(object.functions.list());
  if (object.frame_table)
    add_unnamed_functions(file, object.bias, *object.frame_table, *object.budget, functions);
  finish(object, std::move(functions), true);
}

}  // namespace mdl::image
