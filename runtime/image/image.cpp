#include "runtime/image/image.h"

#include <elf.h>  // the C library's: Elf64_auxv_t
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <span>

#include "base/in_parallel.h"
#include "runtime/arch/description.h"
#include "runtime/image/auxiliary.h"
#include "runtime/image/block_memory.h"
#include "runtime/image/caught_faults.h"
#include "runtime/image/chosen.h"
#include "runtime/image/debug_file.h"
#include "runtime/image/elf.h"
#include "runtime/image/frames.h"
#include "runtime/image/object.h"
#include "runtime/image/read_log.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::image {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

std::string without_deleted(std::string path) {
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

// A path as /proc/PID/maps has it.
std::string as_in_maps(std::string path) {
  for (size_t at = 0; (at = path.find('\n', at)) != path.npos;) path.replace(at, 1, "\\012");
  return path;
}

// The addresses that the kernel told the program at its start (getauxval(3)).
struct Auxiliary {
  uint64_t loader = 0;  // AT_BASE
  uint64_t vdso = 0;    // AT_SYSINFO_EHDR
  uint64_t entry = 0;   // AT_ENTRY
  uint64_t name = 0;    // AT_EXECFN, the address of a string
};

Auxiliary read_auxiliary(pid_t pid) {
  const std::string vector = kernel::proc_text(pid, "auxv");
  const auto value = [&](uint64_t key) { return auxiliary_value(vector, key).value_or(0); };
  return {value(AT_BASE), value(AT_SYSINFO_EHDR), value(AT_ENTRY), value(AT_EXECFN)};
}

struct OpenFile {
  std::shared_ptr<const Memory> bytes;
  uint64_t size = 0;
  uint64_t stored = 0;  // of that, on its disk
};

// FUSE without allow_other: the part of mdl-inject that reads files has no rights and another user.
constexpr const char* kOwnersOnly =
    " (a file system in user space shows its files to who has mounted it, unless it is mounted with "
    "allow_other; --no-separate has them read with the rights of mdl-inject's user)";

// The file that a mapping maps, whatever its name leads to by now. map_files is that file
// itself but needs privilege; a file found by name must be the same inode. `pid`: of a thread that lives.
Result<OpenFile> open_mapped(pid_t pid, const Mapping& mapping) {
  struct stat status;
  int descriptor = kernel::open_regular(pid, fmt::format("map_files/{:x}-{:x}", mapping.start, mapping.end));
  if (descriptor < 0 && errno == EACCES)
    return Error{fmt::format("{}, which process {} has mapped, is not a regular file", mapping.path, pid)};
  if (descriptor < 0) {
    descriptor = kernel::open_below_root(pid, mapping.path);
    if (descriptor < 0)
      return Error{fmt::format(
          "cannot open {}, which process {} has mapped: {}{}", mapping.path, pid, std::strerror(errno),
          mapping.path.ends_with(" (deleted)")
              ? "; run this as root or with CAP_CHECKPOINT_RESTORE, or restart the process"
              : "")};
    if (fstat(descriptor, &status) != 0 || status.st_ino != mapping.inode ||
        status.st_dev != mapping.device) {
      close(descriptor);
      return Error{
          fmt::format("{} was replaced since process {} mapped it: run this as root or with "
                      "CAP_CHECKPOINT_RESTORE, or restart the process",
                      mapping.path, pid)};
    }
  }
  auto bytes = std::make_shared<BlockMemory>(std::make_shared<FileMemory>(descriptor));
  if (fstat(descriptor, &status) != 0)
    return Error{fmt::format("cannot look at {}, which process {} has mapped: {}{}", mapping.path, pid,
                             std::strerror(errno), errno == EACCES ? kOwnersOnly : "")};
  return OpenFile{std::move(bytes), static_cast<uint64_t>(status.st_size), stored_bytes(status)};
}

bool is_elf(const Memory& bytes) {
  std::byte magic[SELFMAG];
  return bytes.read(0, magic) && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

bool has_symbols(const ElfFile& file) {
  return std::any_of(file.sections().begin(), file.sections().end(),
                     [](const Section& section) { return section.type == SHT_SYMTAB; });
}

using FileKey = std::pair<uint64_t, uint64_t>;  // device, inode

struct MappedFile {
  std::vector<const Mapping*> mappings;
};

// Code in the place of the file's own: some programs copy theirs to huge pages at their start (node
// --use-largepages). The code there is not known, nor where it jumps to.
std::string replaced_code(const ElfFile& file, const Object& object, std::span<const Mapping* const> loaded,
                          const std::vector<Mapping>& mappings) {
  auto is_loaded = [&](const Mapping& one) {
    return std::any_of(loaded.begin(), loaded.end(),
                       [&](const Mapping* own) { return own->start == one.start; });
  };
  auto load = std::ranges::find(file.segments(), uint32_t{PT_LOAD}, &Segment::type);
  if (load == file.segments().end() || std::ranges::none_of(loaded, [&](const Mapping* own) {
        return Range{own->start, own->end}.contains(object.bias + load->address);
      }))
    return {};  // a piece that the program has mapped again, and nothing else of the file (V8)
  for (; load != file.segments().end(); ++load) {
    if (load->type != PT_LOAD || !(load->flags & PF_X)) continue;
    const uint64_t start = object.bias + load->address, end = start + load->memory_size;
    for (const Mapping& mapping : mappings)
      if (mapping.execute && mapping.start < end && start < mapping.end && !is_loaded(mapping))
        return fmt::format(
            "the code of {} at {:#x} to {:#x} is no longer that of its file: it was replaced, or copied to "
            "huge pages (node --use-largepages): start it without that",
            object.name, mapping.start, mapping.end);
  }
  return {};
}

// The separate debug file of one that has no symbols of its own, or what it holds of it.
std::optional<ElfFile> read_debug(pid_t pid, const ElfFile& file) {
  if (has_symbols(file)) return std::nullopt;
  auto debug = find_debug_file(pid, file.build_id());
  return debug ? std::move(debug) : unpack_debug_data(file);
}

// One file may be loaded twice (dlmopen): each bias is an object. A file that is no ELF file
// (code that a program wrote itself) is none.
void add_objects(pid_t pid, const MappedFile& mapped, const std::vector<Mapping>& mappings, Depth depth,
                 const std::shared_ptr<Budget::Common>& common, ReadLog* log, std::vector<Object>& objects) {
  auto first_code = std::find_if(mapped.mappings.begin(), mapped.mappings.end(),
                                 [](const Mapping* mapping) { return mapping->execute; });
  if (first_code == mapped.mappings.end()) return;
  std::string path = without_deleted((*first_code)->path);
  Object base;
  base.name = path.substr(path.rfind('/') + 1);
  base.path = (*first_code)->path;
  Result<OpenFile> opened = open_mapped(pid, **first_code);
  if (opened && !is_elf(*opened->bytes)) return;
  Result<ElfFile> file = opened ? ElfFile::read(opened->bytes, opened->size, path, opened->stored)
                                : Result<ElfFile>(opened.error());
  if (file && file->machine() != arch::kMachine.elf_machine)
    file = Error{fmt::format("{} is for {}; this build instruments {}", path, machine_name(file->machine()),
                             arch::kMachine.name)};
  if (!file) {
    base.problem = file.error().text;
    for (const Mapping* mapping : mapped.mappings)
      if (mapping->execute) base.text.push_back({mapping->start, mapping->end});
    objects.push_back(std::move(base));
    return;
  }
  std::optional<ElfFile> debug;
  if (depth != Depth::code) debug = read_debug(pid, *file);
  const LiveMemory process(kernel::live_thread(pid));
  const BlockMemory blocks(process);
  const LoggedMemory live(process, log), memory(blocks, log);
  std::map<uint64_t, std::vector<const Mapping*>> by_bias;
  for (const Mapping* mapping : mapped.mappings)
    if (std::optional<uint64_t> bias = bias_of(*file, *mapping, mapped.mappings))
      by_bias[*bias].push_back(mapping);
  for (const auto& [bias, loaded] : by_bias) {
    if (std::none_of(loaded.begin(), loaded.end(), [](const Mapping* one) { return one->execute; })) continue;
    Object object = base;
    describe(*file, loaded, bias, object, common);
    if (depth != Depth::code) {
      object.restartable = read_restartable(*file, object, live);
      object.catches_faults = object.frame_table && file->section(".gcc_except_table") &&
                              catches_faults(*object.frame_table, memory, *object.budget);
      object.problem = replaced_code(*file, object, loaded, mappings);
      const bool was_rewritten =
          file->section(".bolt.org.text") != nullptr;  // then runs_old_code() wants all
      if (object.problem.empty())
        add_functions(*file, object, debug ? &*debug : nullptr, depth == Depth::named && !was_rewritten);
      object.runs_old_code = runs_old_code(*file, object);
    }
    objects.push_back(std::move(object));
  }
}

// The functions of a program are looked at for most requests. Of a small one to find all of them takes no time beside
// its libraries; a large one without symbols takes a hundred times as long as what was asked for.
bool is_small_program(const MappedFile& file, const std::string& executable) {
  constexpr uint64_t kSmall = 2 << 20;  // bytes of code
  uint64_t code = 0;
  for (const Mapping* mapping : file.mappings) {
    if (mapping->path != executable) return false;
    if (mapping->execute) code += mapping->end - mapping->start;
  }
  return code <= kSmall;
}

// The name that the program was started by, where it leads to the program's file. It is a name only, so no log has it: it
// stands among what programs write over to show what they do.
std::string started_as(pid_t pid, const Auxiliary& auxiliary) {
  char text[PATH_MAX] = {};
  // The string lies at the very end of the stack: what can be read may be shorter than the buffer.
  LiveMemory memory(pid);
  for (size_t i = 0; i + 1 < sizeof text; ++i)
    if (!memory.read(auxiliary.name + i, std::as_writable_bytes(std::span(&text[i], 1))) || text[i] == 0)
      break;
  struct stat named, program;
  std::string path = text;
  const std::string base = path.starts_with('/') ? "root" : "cwd/";
  if (path.empty() || !kernel::stat_proc(pid, base + path, named) ||
      !kernel::stat_proc(pid, "exe", program) || named.st_ino != program.st_ino ||
      named.st_dev != program.st_dev)
    return {};
  return path.substr(path.rfind('/') + 1);
}

void name_main(Object& object, const std::string& started_as) {
  if (started_as.empty() || started_as == object.name) return;
  object.aliases.push_back(object.name);
  object.name = started_as;
}

bool is_loader(const Object& object, const Auxiliary& auxiliary) {
  if (auxiliary.loader != 0) return object.bias == auxiliary.loader;
  return object.name.starts_with("ld-linux") || object.name.starts_with("ld-musl");
}

// From 64 bytes behind the last one that is not zero (a table may end in zeros) to the end of the mapping.
Range zeros_behind(std::span<const std::byte> bytes, uint64_t start) {
  constexpr uint64_t kRoom = 64;
  uint64_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;
  const uint64_t end = start + bytes.size();
  return {std::min(start + size + kRoom, end), end};
}

std::shared_ptr<const FrameTable> read_vdso(Image& image, pid_t live, uint64_t start, ReadLog* log) {
  for (const Mapping& mapping : image.mappings) {
    if (mapping.start != start || start == 0 || mapping.end - start > (1u << 20)) continue;
    std::vector<std::byte> bytes(mapping.end - start);
    const LiveMemory memory(live);
    if (!LoggedMemory(memory, log).read(start, bytes)) return nullptr;
    uint64_t size = bytes.size();
    image.vdso_unused = zeros_behind(bytes, start);
    Result<ElfFile> file = ElfFile::read(std::make_shared<BufferMemory>(std::move(bytes)), size, "the vdso");
    if (!file) return nullptr;
    std::optional<uint64_t> bias = bias_of(*file, mapping);
    return bias ? read_frames(*file, *bias) : nullptr;
  }
  return nullptr;
}

}  // namespace

Result<ElfFile> open_object(const Image& image, const Object& object) {
  for (const Mapping& mapping : image.mappings) {
    if (object.text.empty() || mapping.start != object.text[0].start) continue;
    auto opened = open_mapped(kernel::live_thread(image.pid), mapping);
    if (!opened) return opened.error();
    return ElfFile::read(opened->bytes, opened->size, object.path, opened->stored);
  }
  return Error{fmt::format("{} is not mapped", object.path)};
}

Result<void> read_mapped(pid_t pid, const Mapping& mapping, uint64_t address, std::span<std::byte> into) {
  if (address < mapping.start || into.size() > mapping.end - address)
    return Error{fmt::format("{:#x} is not in the mapping of {}", address, mapping.path)};
  auto opened = open_mapped(kernel::live_thread(pid), mapping);
  if (!opened) return opened.error();
  const uint64_t at = mapping.offset + (address - mapping.start);
  const uint64_t there = at < opened->size ? std::min<uint64_t>(into.size(), opened->size - at) : 0;
  std::fill(into.begin() + static_cast<std::ptrdiff_t>(there), into.end(), std::byte{0});
  if (!opened->bytes->read(at, into.first(there)))
    return Error{fmt::format("cannot read {}, which process {} has mapped", mapping.path, pid)};
  return {};
}

Result<std::vector<std::byte>> read_loaded(pid_t pid, const Mapping& mapping, uint64_t address,
                                           uint64_t most) {
  auto opened = open_mapped(kernel::live_thread(pid), mapping);
  if (!opened) return opened.error();
  auto file = ElfFile::read(opened->bytes, opened->size, mapping.path, opened->stored);
  if (!file) return file.error();
  const std::optional<uint64_t> bias = bias_of(*file, mapping);
  std::vector<std::byte> bytes;
  if (bias) bytes = file->at_address(address - *bias, most);
  if (bytes.empty()) return Error{fmt::format("{} has nothing at {:#x}", mapping.path, address)};
  return bytes;
}

Result<Image> read_image(pid_t pid, Depth depth, ReadLog* log) {
  Image image;
  image.pid = pid;
  pid_t live = kernel::live_thread(pid);
  Result<std::vector<Mapping>> mappings = read_maps(live);
  if (!mappings) return mappings.error();
  image.mappings = std::move(*mappings);
  Auxiliary auxiliary = read_auxiliary(live);
  const std::string executable = as_in_maps(kernel::proc_link(live, "exe"));

  std::map<FileKey, MappedFile> files;
  for (const Mapping& mapping : image.mappings)
    if (mapping.inode != 0 && mapping.path.starts_with('/'))
      files[{mapping.device, mapping.inode}].mappings.push_back(&mapping);
  const auto common = std::make_shared<Budget::Common>();
  std::vector<std::pair<const MappedFile*, std::vector<Object>>> read;
  for (const auto& [key, mapped] : files) read.push_back({&mapped, {}});
  in_parallel(read.size(), 1, [&](size_t i) {
    const MappedFile& mapped = *read[i].first;
    const bool is_whole = depth == Depth::named && is_small_program(mapped, executable);
    add_objects(live, mapped, image.mappings, is_whole ? Depth::functions : depth, common, log,
                read[i].second);
  });
  for (auto& [mapped, objects] : read) std::ranges::move(objects, std::back_inserter(image.objects.own()));

  for (Object& object : image.objects.own()) {
    object.is_main = object.path == executable &&
                     std::any_of(object.text.begin(), object.text.end(),
                                 [&](const Range& range) { return range.contains(auxiliary.entry); });
    if (object.is_main) name_main(object, started_as(live, auxiliary));
    object.is_loader = !object.is_main && is_loader(object, auxiliary);
  }
  std::ranges::sort(image.objects.own(), [](const Object& a, const Object& b) {
    return a.is_main != b.is_main ? a.is_main : a.text.front().start < b.text.front().start;
  });
  if (image.objects.empty() || (depth != Depth::code && !image.objects.front().is_main))
    return Error{
        fmt::format("process {} does not have its program {} mapped as code: it may be ending, run under an "
                    "emulator, or have copied its code to huge pages",
                    pid, executable)};
  if (depth != Depth::code && !image.objects.front().problem.empty())
    return Error{image.objects.front().problem};
  image.vdso_frames = read_vdso(image, live, auxiliary.vdso, log);
  if (depth != Depth::code) {
    const LiveMemory memory(live);
    name_chosen_implementations(image, LoggedMemory(memory, log));
  }
  return image;
}

Result<bool> read_wanted(Image& image, ReadLog* log) {
  if (!is_any_wanted(image)) return false;
  for (Object& object : image.objects.own()) {
    if (!object.functions.is_wanted()) continue;
    auto file = open_object(image, object);
    if (!file) return file.error();
    add_unnamed(*file, object);
  }
  if (!image.objects.front().problem.empty()) return Error{image.objects.front().problem};
  for (const Object& object : image.objects) object.budget->renew();
  const LiveMemory memory(kernel::live_thread(image.pid));
  name_chosen_implementations(image, LoggedMemory(memory, log));
  return true;
}

bool is_any_wanted(const Image& image) {
  return std::ranges::any_of(image.objects, [](const Object& one) { return one.functions.is_wanted(); });
}

void want_all(const Image& image) {
  for (const Object& object : image.objects) (void)object.functions.all();
}

const Object* object_at(const Image& image, uint64_t address) {
  for (const Object& object : image.objects)
    for (const Range& range : object.text)
      if (range.contains(address)) return &object;
  return nullptr;
}

const Function* function_at(const Object& object, uint64_t address) {
  // Functions may overlap (hand-written assembly with inner entries): the nearest start before
  // the address whose range holds it; a few are looked at.
  auto after =
      std::upper_bound(object.functions.begin(), object.functions.end(), address,
                       [](uint64_t value, const Function& function) { return value < function.address; });
  for (int looked_at = 0; after != object.functions.begin() && looked_at < 16; ++looked_at) {
    const Function& function = *--after;
    if (address - function.address < function.size) return &function;
  }
  auto part = std::upper_bound(object.parts.begin(), object.parts.end(), address,
                               [](uint64_t value, const Part& one) { return value < one.range.start; });
  if (part == object.parts.begin() || !(--part)->range.contains(address)) return nullptr;
  return &object.functions[part->function];
}

}  // namespace mdl::image
