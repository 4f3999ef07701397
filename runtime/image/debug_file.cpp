#include "runtime/image/debug_file.h"

#include <fmt/format.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "runtime/kernel/proc_file.h"

namespace mdl::image {

std::optional<ElfFile> find_debug_file(pid_t pid, const std::string& build_id) {
  if (build_id.size() < 4) return std::nullopt;
  const std::string path =
      fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", build_id.substr(0, 2), build_id.substr(2));
  const int descriptor = kernel::open_below_root(pid, path);
  if (descriptor < 0) return std::nullopt;
  auto bytes = std::make_shared<FileMemory>(descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0) return std::nullopt;
  auto file =
      ElfFile::read(std::move(bytes), static_cast<uint64_t>(status.st_size), path, stored_bytes(status));
  if (!file || file->build_id() != build_id) return std::nullopt;
  return std::move(*file);
}

std::optional<ElfFile> unpack_debug_data(const ElfFile& file) {
  constexpr uint64_t kMostMemory = 256u << 20;  // of the decoder
  constexpr size_t kMostBytes = 64u << 20;      // of a symbol table; Fedora's largest are 10 MB
  const Section* section = file.section(".gnu_debugdata");
  if (!section) return std::nullopt;
  const std::vector<std::byte> packed = file.contents(*section);
  std::vector<std::byte> bytes;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMostMemory, 0) != LZMA_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  lzma_ret state = LZMA_OK;
  while (state == LZMA_OK && bytes.size() < kMostBytes) {
    const size_t had = bytes.size();
    bytes.resize(had + (1u << 20));
    stream.next_out = reinterpret_cast<uint8_t*>(bytes.data()) + had;
    stream.avail_out = bytes.size() - had;
    state = lzma_code(&stream, LZMA_FINISH);
    bytes.resize(bytes.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (state != LZMA_STREAM_END) return std::nullopt;
  const uint64_t size = bytes.size();
  auto unpacked = ElfFile::read(std::make_shared<BufferMemory>(std::move(bytes)), size, ".gnu_debugdata");
  if (!unpacked) return std::nullopt;
  return std::move(*unpacked);
}

}  // namespace mdl::image
