// Names of C++ and Rust. LLVM demangles them, without a bound: a name says "the same as there" of a part of itself, which
// may say that, too, so a symbol of some hundred letters can stand for gigabytes; and each pointer to a pointer is one
// more call on the stack. So a name that may grow is demangled in a process of its own (base/confined.h). When one ends
// that, further names of this kind stay as the linker has them. Most names have few such parts, and are demangled here.
#include "llvm/Demangle/Demangle.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "base/confined.h"
#include "base/say.h"
#include "runtime/image/image.h"

namespace mdl::image {
namespace {

constexpr size_t kShort = 1024;        // letters; and so deep at most
constexpr int kFewParts = 8;           // each of them can double what there is
constexpr size_t kLongest = 16 << 10;  // compilers make none that is longer and could be read
constexpr unsigned kSeconds = 2;       // for all names of a process
constexpr uint64_t kMemory = uint64_t{128} << 20;

struct Free {
  void operator()(char* text) const { std::free(text); }
};
using Text = std::unique_ptr<char, Free>;

// Rust's older mangling is that of C++ with a hash at the end, and with escapes for what C++ has no letters
// for (the crate rustc-demangle, legacy.rs). The full name keeps the hash, the plain one is what programmers
// write.
constexpr size_t kHash = 19;  // "::h" and 16 digits

bool has_rust_hash(std::string_view name) {
  return name.size() > kHash && name.substr(name.size() - kHash, 3) == "::h" &&
         name.find_first_not_of("0123456789abcdef", name.size() - kHash + 3) == std::string_view::npos;
}

std::string rust_name(std::string_view name) {
  struct Escape {
    std::string_view escaped, text;
  };
  constexpr Escape kEscapes[] = {{"$SP$", "@"},  {"$BP$", "*"},  {"$RF$", "&"},  {"$LT$", "<"},
                                 {"$GT$", ">"},  {"$LP$", "("},  {"$RP$", ")"},  {"$C$", ","},
                                 {"..", "::"},   {"$u20$", " "}, {"$u27$", "'"}, {"$u5b$", "["},
                                 {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u7e$", "~"}};
  std::string out;
  while (!name.empty()) {
    const auto* escape = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                      [&](const Escape& one) { return name.starts_with(one.escaped); });
    // A part that would begin with an escape has an underscore in front.
    if (name.starts_with("_$") && (out.empty() || out.ends_with("::"))) {
      name.remove_prefix(1);
    } else if (escape == std::end(kEscapes)) {
      out += name.front();
      name.remove_prefix(1);
    } else {
      out += escape->text;
      name.remove_prefix(escape->escaped.size());
    }
  }
  return out;
}

// How many parts stand for what came before: S_, S1A_, T_ and T2_ in C++, B_ and B3x_ in Rust. Letters of an identifier
// may look so, too.
int repeated_parts(std::string_view name) {
  const bool rust = name.starts_with("_R");
  int out = 0;
  for (size_t i = 0; i < name.size(); i++) {
    if (rust ? name[i] != 'B' : name[i] != 'S' && name[i] != 'T') continue;
    size_t end = i + 1;
    while (end < name.size() && (std::isdigit(static_cast<unsigned char>(name[end])) ||
                                 (rust ? std::isalpha(static_cast<unsigned char>(name[end])) != 0
                                       : std::isupper(static_cast<unsigned char>(name[end])) != 0)))
      end++;
    if (end < name.size() && name[end] == '_') out++;
  }
  return out;
}

// Whether no name of this kind takes more than some hundred kilobytes. A pack (Dp, sp) stands for each of its elements.
bool is_tame(std::string_view name) {
  if (name.size() > kShort) return false;
  const int parts = repeated_parts(name);
  return parts == 0 || (parts <= kFewParts && name.find("Dp") == name.npos && name.find("sp") == name.npos);
}

DemangledName demangle_here(const std::string& linkage_name) {
  if (linkage_name.starts_with("_R")) {
    Text text(llvm::rustDemangle(linkage_name));
    if (text) return {text.get(), text.get()};
  }
  if (linkage_name.starts_with("_Z")) {
    Text full(llvm::itaniumDemangle(linkage_name));
    if (full && has_rust_hash(full.get())) {
      std::string name = rust_name(full.get());
      std::string plain = name.substr(0, name.size() - kHash);
      return {std::move(name), std::move(plain)};
    }
    if (full) {
      llvm::ItaniumPartialDemangler parts;
      if (parts.partialDemangle(linkage_name.c_str()) || !parts.isFunction()) return {full.get(), full.get()};
      size_t size = 0;
      Text plain(parts.getFunctionName(nullptr, &size));
      return {full.get(), plain ? plain.get() : full.get()};
    }
  }
  return {linkage_name, linkage_name};
}

// The process for the others. It answers with both names, and a NUL between them.
class Demangler {
 public:
  DemangledName ask(const std::string& linkage_name) {
    const DemangledName as_it_is{linkage_name, linkage_name};
    const std::lock_guard lock(mutex_);
    if (failed_) return as_it_is;
    if (!other_) start();
    auto answer = other_ ? other_->ask(linkage_name) : Result<std::string>(Error{"it could not be started"});
    const size_t end = answer ? answer->find('\0') : std::string::npos;
    if (end != std::string::npos) return {answer->substr(0, end), answer->substr(end + 1)};
    failed_ = true;
    say(stderr,
        "warning: a name of {} letters in the process is not one of a compiler: from here on, long names of "
        "C++ "
        "and Rust are known as the linker has them only\n",
        linkage_name.size());
    return as_it_is;
  }

 private:
  void start() {
    auto started = Confined::start(
        [](const std::string& name) {
          const DemangledName names = demangle_here(name);
          return names.full + '\0' + names.plain;
        },
        kSeconds, kMemory);
    if (started) other_ = std::move(*started);
  }
  std::mutex mutex_;
  std::optional<Confined> other_;
  bool failed_ = false;
};

}  // namespace

DemangledName demangle(const std::string& linkage_name) {
  static Demangler others;
  if (!linkage_name.starts_with("_R") && !linkage_name.starts_with("_Z")) return {linkage_name, linkage_name};
  if (linkage_name.size() > kLongest) return {linkage_name, linkage_name};
  return is_tame(linkage_name) ? demangle_here(linkage_name) : others.ask(linkage_name);
}

}  // namespace mdl::image
