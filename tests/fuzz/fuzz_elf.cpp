// An ELF file of a target, from its first byte to functions, names, frames, their rows and
// landing pads, and the code of each function, with the file's own bytes as the memory.
#include <cstring>
#include <memory>

#include "runtime/image/code.h"
#include "runtime/image/debug_file.h"
#include "runtime/image/elf.h"
#include "runtime/image/frames.h"
#include "runtime/image/object.h"
#include "runtime/image/unwind.h"

using namespace mdl::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  mdl::Result<ElfFile> file = ElfFile::read(std::make_shared<BufferMemory>(bytes), size, "fuzz");
  if (!file) return 0;

  Image image;
  Mapping mapping;
  mapping.start = 0x400000;
  mapping.end = mapping.start + ((size + 4095) & ~size_t{4095}) + 4096;
  mapping.read = mapping.execute = true;
  mapping.path = "/fuzz";
  image.mappings.push_back(mapping);
  Object object;
  object.path = mapping.path;
  const Mapping* mappings[] = {&mapping};
  describe(*file, mappings, bias_of(*file, mapping).value_or(mapping.start), object);
  add_functions(*file, object);
  image.objects.own().push_back(object);

  (void)file->relocations();
  (void)unpack_debug_data(*file);

  BufferMemory memory(bytes, mapping.start);
  size_t budget = 64;  // functions may all cover all of the file
  for (const Function& function : image.objects[0].functions) {
    if (budget-- == 0) break;
    (void)matches(function, "a::b(int)");
    (void)demangle(function.name);
    (void)read_code(image, image.objects[0], function, memory);
  }
  if (const FrameTable* table = image.objects[0].frame_table.get()) {
    budget = 256;
    for (const Fde& entry : table->entries())
      if (budget-- > 0)
        (void)table->row_at(entry, entry.start + 16);
      else
        break;
  }
  Unwinder unwinder(image);
  RegisterFile registers{};
  registers[7] = mapping.start + 0x100;
  registers[16] = object.frames.empty() ? mapping.start : object.frames.front().start;
  (void)unwinder.walk(registers, memory, 100);
  return 0;
}
