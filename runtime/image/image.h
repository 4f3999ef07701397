// The contents of a live process's memory: its objects, and the functions in them.
//
// Objects are the main program and every shared library (an ELF file with an executable
// mapping), opened through /proc/PID/map_files or /proc/PID/root so that mount namespaces
// and deleted files work; the vdso and anonymous code are mappings without an object.
// Functions come from .symtab (of the file, of its separate debug file or of .gnu_debugdata) and .dynsym
// (STT_FUNC, STT_GNU_IFUNC, defined, in an executable section), and where no symbol is, from .eh_frame
// (unnamed.h); one address is one Function, its other names are aliases. A symbol without a size is bounded
// by the next symbol, the FDE or the section's end. The function that an IFUNC's resolver chose has its
// names, too (chosen.h). All addresses are run-time addresses in the target.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/image/budget.h"
#include "runtime/image/memory.h"

namespace mdl::image {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;  // in the file
  bool read = false, write = false, execute = false, shared = false;
  uint64_t device = 0;  // as in st_dev
  uint64_t inode = 0;
  std::string path;  // as in /proc/PID/maps, "" when anonymous
};

// /proc/PID/maps, in address order.
Result<std::vector<Mapping>> read_maps(pid_t pid);
Result<std::vector<Mapping>> parse_maps(std::string_view text);
// The one that holds an address; null where nothing is mapped.
const Mapping* mapping_at(std::span<const Mapping> mappings, uint64_t address);

struct Range {
  uint64_t start = 0;
  uint64_t end = 0;
  bool contains(uint64_t address) const { return address >= start && address < end; }
};

class FrameTable;  // frames.h: the call frame information of an object
class FarJumps;    // incoming_jumps.h
class References;  // references.h
class ReadLog;     // read_log.h

struct Function {
  std::string name;                  // linkage name; of several, the shortest global one, then the first
  std::vector<std::string> aliases;  // the other names of this address
  uint64_t address = 0;
  uint64_t size = 0;
  bool is_ifunc = false;     // address is the resolver's, not the implementation's
  bool is_local = false;     // all of its names are: no other object can call it by name
  bool unnamed = false;      // no symbol is there: it was found by its call frame information
  std::vector<Range> parts;  // further ranges that belong to it: `name.cold` and the like
};

// The functions of an object, by address. Those that no symbol names take most of the time of reading it, and in most
// objects nobody asks for them: an object is read without (Depth::named), and whoever looks at all its functions has
// noted that it is wanted whole, for read_wanted(). Any thread may ask.
class Functions {
 public:
  Functions() = default;
  Functions(std::vector<Function> list, bool is_whole)
      : list_(std::move(list)), wanted_(is_whole ? nullptr : std::make_shared<std::atomic<bool>>(false)) {}

  const std::vector<Function>& all() const {
    if (wanted_) wanted_->store(true, std::memory_order_relaxed);
    return list_;
  }
  const std::vector<Function>& named() const { return list_; }  // those that have symbols, at least
  bool is_wanted() const { return wanted_ && wanted_->load(std::memory_order_relaxed); }

  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  size_t size() const { return all().size(); }
  bool empty() const { return all().empty(); }
  const Function& operator[](size_t index) const { return all()[index]; }
  const Function& front() const { return all().front(); }
  const Function& back() const { return all().back(); }

  std::vector<Function>& list() { return list_; }  // for who makes it

 private:
  std::vector<Function> list_;
  std::shared_ptr<std::atomic<bool>> wanted_;  // null: they are all there
};

// A part of a function, found by its address.
struct Part {
  Range range;
  size_t function = 0;  // index into Object::functions
};

struct Object {
  // The module's name: the soname of a library that has one; else the last component of the file name, " (deleted)"
  // removed; for the main program of the name it was started by, where that is a link to the file (redis-server is one
  // in Debian).
  std::string name;
  std::string path;                  // as mapped
  std::vector<std::string> aliases;  // other names it goes by: that of its file, behind a link or a soname
  std::string build_id;              // hex, "" when there is none
  uint64_t bias = 0;                 // run-time address minus the file's virtual address
  bool is_main = false;
  bool is_loader = false;      // ld.so: its functions are not in $procedures
  bool is_go = false;          // Go code: its stacks move and its calls are not those of C
  bool is_mono = false;        // code that Mono compiled ahead of time: it reads the calls in it as it runs
  bool has_haskell = false;    // code that GHC made is among its functions (focus/exclusion.cpp)
  bool is_shared = false;      // code of it is mapped shared: what is written there is written to its file
  bool is_trimmed = false;     // LLVM may have made it: of local functions it leaves out what is not used
  bool runs_old_code = false;  // BOLT has rewritten it, and copies of before run, too, that no name means
  std::vector<Range> text;     // executable mappings of the file
  std::vector<Range>
      unused_text;      // executable bytes past the end of a segment up to the page's end; none if is_shared
  Functions functions;  // by address
  std::vector<Part> parts;         // of all functions, by address
  bool catches_faults = false;     // by exceptions: its tables (caught_faults.h) or names say so
  std::vector<Range> restartable;  // code of restartable sequences (object.h, read_restartable)
  std::vector<Range> frames;       // ranges that .eh_frame describes (one per FDE), by address
  std::shared_ptr<const FrameTable> frame_table;  // what `frames` comes from; null when there is none
  std::shared_ptr<FarJumps> far_jumps;            // found when read_code first needs them
  std::shared_ptr<References> references;         // the same
  std::shared_ptr<const Budget> budget = std::make_shared<Budget>();  // of all that is made of its code
  std::string problem;  // why the file could not be read ("" = it was): it has no functions then
};

// Copies share the objects until one of them changes its own: processes that were forked have the same.
class Objects {
 public:
  Objects() : list_(std::make_shared<std::vector<Object>>()) {}

  auto begin() const { return std::as_const(*list_).begin(); }
  auto end() const { return std::as_const(*list_).end(); }
  size_t size() const { return list_->size(); }
  bool empty() const { return list_->empty(); }
  const Object& operator[](size_t index) const { return (*list_)[index]; }
  const Object& front() const { return list_->front(); }
  const Object& back() const { return list_->back(); }

  // For who changes them.
  std::vector<Object>& own() {
    if (list_.use_count() > 1) list_ = std::make_shared<std::vector<Object>>(*list_);
    return *list_;
  }

 private:
  std::shared_ptr<std::vector<Object>> list_;
};

struct Image {
  pid_t pid = 0;
  std::vector<Mapping> mappings;
  Objects objects;                                // main program first, then by address
  std::shared_ptr<const FrameTable> vdso_frames;  // null when there is no vdso
  Range vdso_unused;                              // zeros behind it, executable as it is; may be empty
};

// How much of an image is read. Finding functions is most of the time that it takes.
enum class Depth : uint8_t {
  code,       // where code is and how it is unwound: `functions` and `parts` stay empty
  named,      // functions that have symbols, and the others of objects that are wanted whole: read_wanted()
  functions,  // everything
};

// Reads a live process without stopping it.
Result<Image> read_image(pid_t pid, Depth depth = Depth::functions, ReadLog* log = nullptr);

// Of an image that was read with Depth::named: reads the objects whose functions somebody has looked at since. True
// when there were any: pointers to their functions are not valid any more, and what was found out by looking at them is
// to be found out again.
Result<bool> read_wanted(Image& image, ReadLog* log = nullptr);
bool is_any_wanted(const Image& image);
void want_all(const Image& image);

// The bytes of the file behind a mapping for these addresses of it: those that the process would have there
// if it had never written them. Past the file's end they are zero.
Result<void> read_mapped(pid_t pid, const Mapping& mapping, uint64_t address, std::span<std::byte> into);

// The bytes that the file of a mapping has loaded at an address, which need not be in that mapping: those of the
// segment there, at most `most`. An error where it has none there.
Result<std::vector<std::byte>> read_loaded(pid_t pid, const Mapping& mapping, uint64_t address,
                                           uint64_t most);

// Demangled name with and without parameters; the linkage name itself when it is not mangled.
struct DemangledName {
  std::string full;   // "ns::f(int)"
  std::string plain;  // "ns::f"
};
DemangledName demangle(const std::string& linkage_name);
bool is_mangled(std::string_view name);  // of C++ or Rust
// A demangled name without its template arguments: "a<b<int>>::f" is "a::f".
std::string without_arguments(std::string_view name);

// True of a function that a name names: its linkage name or an alias exactly, or either of them demangled, with or
// without parameters. The name must outlive it.
class NameTest {
 public:
  explicit NameTest(std::string_view wanted);
  bool operator()(const Function& function) const;

 private:
  bool is_demangled(const std::string& name) const;
  std::string_view wanted_, identifier_;
};
bool matches(const Function& function, std::string_view wanted);

// The object whose text contains an address, and the function (its main range or a part).
const Object* object_at(const Image& image, uint64_t address);
const Function* function_at(const Object& object, uint64_t address);

}  // namespace mdl::image
