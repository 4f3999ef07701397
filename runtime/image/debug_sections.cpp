#include "runtime/image/debug_sections.h"

#include <fmt/format.h>

#include <algorithm>

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/Decompressor.h"
#include "runtime/image/debug_file.h"
#include "runtime/image/object.h"

namespace mdl::image {
namespace {

// More than any program's; what a damaged header says may be anything.
constexpr uint64_t kMaxUnpacked = 1ull << 30;

constexpr std::string_view kWanted[] = {
    "debug_info",  "debug_abbrev", "debug_str",      "debug_str_offsets", "debug_line_str",
    "debug_addr",  "debug_loc",    "debug_loclists", "debug_ranges",      "debug_rnglists",
    "debug_types", "debug_line",   "debug_aranges"};

bool has_debug_info(const ElfFile& file) {
  const Section* section = file.section(".debug_info");
  return section != nullptr && section->type != llvm::ELF::SHT_NOBITS && section->size > 0;
}

// Empty where it cannot be read.
std::vector<char> read_section(const ElfFile& file, const Section& section, uint64_t limit) {
  if (section.size > limit) return {};
  std::vector<std::byte> raw = file.bytes_of(section);
  const auto* begin = reinterpret_cast<const char*>(raw.data());
  if (!(section.flags & llvm::ELF::SHF_COMPRESSED)) return {begin, begin + raw.size()};
  auto decompressor =
      llvm::object::Decompressor::create(section.name, {begin, raw.size()}, /*IsLE=*/true, /*Is64Bit=*/true);
  if (!decompressor) return llvm::consumeError(decompressor.takeError()), std::vector<char>();
  if (decompressor->getDecompressedSize() > limit) return {};
  std::vector<char> bytes(decompressor->getDecompressedSize());
  llvm::Error failed = decompressor->decompress({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  if (failed) return llvm::consumeError(std::move(failed)), std::vector<char>();
  return bytes;
}

Result<ElfFile> open_separate(const Image& image, const Object& object) {
  const Error none{
      fmt::format("{} has no debug information, and no package with it is installed", object.name)};
  auto file = find_debug_file(image.pid, object.build_id);
  if (!file || !has_debug_info(*file)) return none;
  return std::move(*file);
}

}  // namespace

Result<DebugSections> read_debug_sections(const Image& image, const Object& object) {
  auto file = open_object(image, object);
  if (!file) return file.error();
  if (!has_debug_info(*file)) file = open_separate(image, object);
  if (!file) return file.error();
  return read_debug_sections(*file, object.name);
}

Result<DebugSections> read_debug_sections(const ElfFile& file, const std::string& name) {
  DebugSections sections;
  uint64_t left = std::min(kMaxUnpacked, file.most_bytes());
  for (const Section& section : file.sections()) {
    if (!section.name.starts_with('.')) continue;
    const std::string its = section.name.substr(1);
    if (std::find(std::begin(kWanted), std::end(kWanted), its) == std::end(kWanted)) continue;
    std::vector<char> bytes = read_section(file, section, left);
    if (bytes.empty() && section.size > 0)
      return Error{fmt::format("the debug information of {} cannot be read", name)};
    left -= bytes.size();
    sections.emplace_back(its, std::move(bytes));
  }
  return sections;
}

}  // namespace mdl::image
