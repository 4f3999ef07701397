#include "runtime/image/debug_sections.h"

#include <fmt/format.h>

#include <algorithm>

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/Decompressor.h"
#include "runtime/image/debug_file.h"
#include "runtime/image/object.h"

namespace mdl::image {
namespace {

constexpr std::string_view kWanted[] = {
    "debug_info",  "debug_abbrev", "debug_str",      "debug_str_offsets", "debug_line_str",
    "debug_addr",  "debug_loc",    "debug_loclists", "debug_ranges",      "debug_rnglists",
    "debug_types", "debug_line",   "debug_aranges"};

bool has_debug_info(const ElfFile& file) {
  const Section* section = file.section(".debug_info");
  return section != nullptr && section->type != llvm::ELF::SHT_NOBITS && section->size > 0;
}

llvm::Expected<llvm::object::Decompressor> decompressor(const DebugSection& section) {
  return llvm::object::Decompressor::create(section.name, {section.bytes.data(), section.bytes.size()},
                                            /*IsLE=*/true, /*Is64Bit=*/true);
}

// Without bytes where it cannot be read.
DebugSection read_section(const ElfFile& file, const Section& section, uint64_t limit) {
  DebugSection out{
      section.name.substr(1), {}, section.size, (section.flags & llvm::ELF::SHF_COMPRESSED) != 0};
  if (section.size > limit) return out;
  std::vector<std::byte> raw = file.bytes_of(section);
  const auto* begin = reinterpret_cast<const char*>(raw.data());
  out.bytes.assign(begin, begin + raw.size());
  if (!out.is_packed) return out;
  auto packed = decompressor(out);
  if (packed) out.size = packed->getDecompressedSize();
  if (!packed || out.size > limit) out.bytes.clear();
  if (!packed) llvm::consumeError(packed.takeError());
  return out;
}

Result<ElfFile> open_separate(const Image& image, const Object& object) {
  const Error none{
      fmt::format("{} has no debug information, and no package with it is installed", object.name)};
  auto file = find_debug_file(image.pid, object.build_id);
  if (!file || !has_debug_info(*file)) return none;
  return std::move(*file);
}

}  // namespace

Result<DebugSections> read_debug_sections(const Image& image, const Object& object, uint64_t most) {
  auto file = open_object(image, object);
  if (!file) return file.error();
  if (!has_debug_info(*file)) file = open_separate(image, object);
  if (!file) return file.error();
  return read_debug_sections(*file, object.name, most);
}

Result<DebugSections> read_debug_sections(const ElfFile& file, const std::string& name, uint64_t most) {
  DebugSections sections;
  uint64_t left = std::min(most, file.most_bytes());
  for (const Section& section : file.sections()) {
    if (!section.name.starts_with('.')) continue;
    if (std::ranges::find(kWanted, std::string_view(section.name).substr(1)) == std::end(kWanted)) continue;
    DebugSection one = read_section(file, section, left);
    if (one.bytes.empty() && section.size > 0)
      return Error{fmt::format("the debug information of {} cannot be read", name)};
    left -= one.size;
    sections.push_back(std::move(one));
  }
  return sections;
}

bool unpack(DebugSections& sections) {
  for (DebugSection& section : sections) {
    if (!section.is_packed) continue;
    std::vector<char> bytes(section.size);
    auto packed = decompressor(section);
    llvm::Error failed = packed ? packed->decompress({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()})
                                : packed.takeError();
    if (failed) return llvm::consumeError(std::move(failed)), false;
    section.bytes = std::move(bytes);
    section.is_packed = false;
  }
  return true;
}

}  // namespace mdl::image
