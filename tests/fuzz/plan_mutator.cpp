// Changes to a plan's file that get past its door: the checksum is made right, and what changes is what a
// section holds: a number or a word of the manifest, an instruction, the fields of a relocation, a symbol, a
// section's header.
#include <elf.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/SHA256.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kDigest = 32;
constexpr uint64_t kEdges[] = {0,
                               1,
                               4,
                               7,
                               8,
                               0x7f,
                               0x80,
                               0xff,
                               0xffff,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               INT64_MAX,
                               uint64_t(INT64_MAX) + 1,
                               UINT64_MAX - 7,
                               UINT64_MAX};

struct Part {
  size_t header = 0;  // where its section header is
  size_t at = 0, size = 0;
};

class File {
 public:
  explicit File(std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  // Nothing when the file is too broken to be looked into.
  std::optional<Part> part(std::string_view wanted) const {
    Elf64_Ehdr head;
    if (!read(0, head) || head.e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
    Elf64_Shdr names;
    if (!read(head.e_shoff + uint64_t{head.e_shstrndx} * sizeof names, names)) return std::nullopt;
    for (unsigned i = 0; i < head.e_shnum; i++) {
      Elf64_Shdr section;
      const uint64_t where = head.e_shoff + i * sizeof section;
      if (!read(where, section)) return std::nullopt;
      if (!fits(names.sh_offset + section.sh_name, wanted.size() + 1)) continue;
      const char* name = reinterpret_cast<const char*>(bytes_.data()) + names.sh_offset + section.sh_name;
      if (std::string_view(name, wanted.size()) != wanted || name[wanted.size()] != '\0') continue;
      if (!fits(section.sh_offset, section.sh_size)) return std::nullopt;
      return Part{where, section.sh_offset, section.sh_size};
    }
    return std::nullopt;
  }

  void seal() {
    const auto checksum = part(".mdl.checksum");
    if (!checksum || checksum->size != kDigest) return;
    std::memset(bytes_.data() + checksum->at, 0, kDigest);
    const auto digest = llvm::SHA256::hash(llvm::ArrayRef(bytes_.data(), bytes_.size()));
    std::memcpy(bytes_.data() + checksum->at, digest.data(), kDigest);
  }

 private:
  bool fits(uint64_t at, uint64_t size) const { return at <= bytes_.size() && size <= bytes_.size() - at; }
  template <typename T>
  bool read(uint64_t at, T& into) const {
    if (!fits(at, sizeof into)) return false;
    std::memcpy(&into, bytes_.data() + at, sizeof into);
    return true;
  }
  std::vector<uint8_t>& bytes_;
};

class Mutation {
 public:
  Mutation(std::vector<uint8_t>& bytes, unsigned seed) : bytes_(bytes), file_(bytes), random_(seed) {}

  bool run() {
    const uint8_t magic[] = {0x7f, 'E', 'L', 'F'};
    if (bytes_.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes_.data(), magic, sizeof magic) != 0)
      return false;
    for (size_t times = 1 + below(4); times > 0; times--) once();
    file_.seal();
    return true;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  uint64_t edge() { return kEdges[below(std::size(kEdges))]; }

  void once() {
    constexpr std::string_view kSections[] = {".mdl.manifest", ".text",         ".rela.text",
                                              ".symtab",       ".mdl.manifest", ".strtab"};
    const size_t choice = below(std::size(kSections) + 1);
    if (choice == std::size(kSections)) return header();
    const auto part = file_.part(kSections[choice]);
    if (!part || part->size == 0) return;
    if (kSections[choice] == ".mdl.manifest") return word(*part);
    if (kSections[choice] == ".rela.text") return field(*part, sizeof(Elf64_Rela));
    if (kSections[choice] == ".symtab") return field(*part, sizeof(Elf64_Sym));
    put(part->at + below(part->size), below(2) ? random_() : edge(), 1 + below(4));
  }

  void put(size_t at, uint64_t value, size_t size) {
    for (size_t i = 0; i < size && at + i < bytes_.size(); i++)
      bytes_[at + i] = static_cast<uint8_t>(value >> 8 * i);
  }

  // A field of a table's row: whole, one more, one less, or an edge.
  void field(const Part& part, size_t row) {
    const size_t at = part.at + below(part.size / row) * row + below(row / 4) * 4;
    const size_t size = below(2) ? 4 : 8;
    uint64_t old = 0;
    for (size_t i = 0; i < size && at + i < bytes_.size(); i++) old |= uint64_t{bytes_[at + i]} << 8 * i;
    const uint64_t values[] = {edge(), old + 1, old - 1, old ^ uint64_t{1} << below(32), old + row};
    put(at, values[below(std::size(values))], size);
  }

  void header() {
    constexpr std::string_view kAll[] = {".text",         ".rela.text", ".mdl.manifest",
                                         ".mdl.checksum", ".symtab",    ".strtab"};
    if (const auto part = file_.part(kAll[below(std::size(kAll))]))
      field({0, part->header, sizeof(Elf64_Shdr)}, sizeof(Elf64_Shdr));
  }

  // In the manifest's text, without a change of its length: a digit, a letter, a bracket, a piece of itself.
  void word(const Part& part) {
    uint8_t* text = bytes_.data() + part.at;
    size_t at = below(part.size);
    while (at < part.size && !std::isalnum(text[at])) at++;
    if (at == part.size) return;
    switch (below(4)) {
      case 0:
        text[at] = std::isdigit(text[at]) ? static_cast<uint8_t>('0' + below(10))
                                          : static_cast<uint8_t>('a' + below(26));
        break;
      case 1:
        text[below(part.size)] = static_cast<uint8_t>("[]{},:\"\\-.e0\xff"[below(13)]);
        break;
      case 2: {  // all digits of a number
        for (; at < part.size && std::isdigit(text[at]); at++) text[at] = '9';
        break;
      }
      default: {
        const size_t from = below(part.size), size = std::min(1 + below(64), part.size - std::max(from, at));
        std::memmove(text + at, text + from, size);
      }
    }
  }

  std::vector<uint8_t>& bytes_;
  File file_;
  std::mt19937 random_;
};

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most) __attribute__((weak));

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::vector<uint8_t> bytes(data, data + size);
  if (!Mutation(bytes, seed).run()) return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, most) : 0;
  std::memcpy(data, bytes.data(), size);
  return size;
}
