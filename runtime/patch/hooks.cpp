#include "runtime/patch/hooks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/arch/hooked_code.h"
#include "runtime/image/function_code.h"
#include "runtime/image/image.h"
#include "runtime/patch/find_in_code.h"

namespace mdl::patch {
namespace {

struct Hooked {
  arch::Hook hook;
  enum class In { any, library, followed } in;  // any object, the C library, or that where forks are followed
};

const std::unordered_map<std::string_view, Hooked> kHooks = {
    // What landing pads call where they have caught: C++, Ada, D (GCC's, LLVM's), Objective-C.
    {"__cxa_begin_catch", {arch::Hook::catch_, Hooked::In::any}},
    {"__gnat_begin_handler_v1", {arch::Hook::catch_, Hooked::In::any}},
    {"__gdc_begin_catch", {arch::Hook::catch_, Hooked::In::any}},
    {"_d_eh_enter_catch", {arch::Hook::catch_, Hooked::In::any}},
    {"objc_begin_catch", {arch::Hook::catch_, Hooked::In::any}},
    // By it a language's personality routine says where a frame goes on: at a catch, or at what cleans up on the way. Not
    // every language calls a function where it has caught.
    {"_Unwind_SetIP", {arch::Hook::landing, Hooked::In::any}},
    // Every normal end of a process passes _Exit: exit() and a return from main call it. It is _exit by another name
    // in glibc; in musl, _exit goes on to it.
    {"_Exit", {arch::Hook::exit, Hooked::In::library}},
    {"longjmp", {arch::Hook::jump, Hooked::In::library}},
    {"_longjmp", {arch::Hook::jump, Hooked::In::library}},
    {"siglongjmp", {arch::Hook::jump, Hooked::In::library}},
    {"__longjmp_chk", {arch::Hook::jump, Hooked::In::library}},
    // glibc calls it when a thread has left its start routine, however it did, and in exit(): what lies below
    // its caller on the stack has ended, as below the caller of __cxa_begin_catch.
    {"__call_tls_dtors", {arch::Hook::end, Hooked::In::library}},
    // Where these return, the child has executed another program, or ended: its frames were those of this thread.
    {"vfork", {arch::Hook::vfork, Hooked::In::library}},
    {"posix_spawn", {arch::Hook::spawn, Hooked::In::library}},
    {"posix_spawnp", {arch::Hook::spawn, Hooked::In::library}},
    // Through these a process puts itself under a seccomp filter (libseccomp calls syscall), or has its system calls
    // come back to it as SIGSYS.
    {"prctl", {arch::Hook::prctl, Hooked::In::library}},
    {"syscall", {arch::Hook::syscall, Hooked::In::library}},
    {"clone", {arch::Hook::clone, Hooked::In::library}},
    // A child that executes another program ends as far as it is measured.
    {"execve", {arch::Hook::exec, Hooked::In::followed}},
    {"execveat", {arch::Hook::exec, Hooked::In::followed}},
    {"fexecve", {arch::Hook::exec, Hooked::In::followed}},
};

std::optional<Hooked> hooked(const image::Function& function) {
  if (is_rust_catch(function)) return Hooked{arch::Hook::catch_, Hooked::In::any};
  if (const auto found = kHooks.find(function.name); found != kHooks.end()) return found->second;
  for (const std::string& alias : function.aliases)
    if (const auto found = kHooks.find(alias); found != kHooks.end()) return found->second;
  return std::nullopt;
}

// It starts main(): glibc and musl, which is its own loader, and a static program. Other objects, and glibc's loader,
// may have functions of their own that are called longjmp or syscall.
bool is_c_library(const image::Object& object) {
  const auto starts_main = [](std::string_view name) {
    return name == "__libc_start_main" || name == "__uClibc_main";
  };
  return std::ranges::any_of(object.functions.named(), [&](const image::Function& function) {
    return starts_main(function.name) || std::ranges::any_of(function.aliases, starts_main);
  });
}

// Which one a function of this object gets.
class HookChoice {
 public:
  HookChoice(const image::Object& object, bool flags, bool follow)
      : object_(object), flags_(flags), follow_(follow) {}

  arch::Hook operator()(const image::Function& function);

 private:
  const image::Object& object_;
  bool flags_, follow_;
  std::optional<bool> library_;  // once it matters
};

arch::Hook HookChoice::operator()(const image::Function& function) {
  const std::optional<Hooked> found = hooked(function);
  if (!found || (!flags_ && unwinds(found->hook))) return arch::Hook::none;
  if (found->in == Hooked::In::any) return found->hook;
  if (found->in == Hooked::In::followed && !follow_) return arch::Hook::none;
  if (!library_) library_ = is_c_library(object_);
  return *library_ ? found->hook : arch::Hook::none;
}

// Where most of the code has names, what is hooked has one. The search for it takes as long as reading all of the code.
bool is_named(const image::Object& object) {
  uint64_t named = 0, all = 0;
  for (const image::Function& function : object.functions.named())
    if (!function.unnamed) named += function.size;
  for (const image::Range& text : object.text) all += text.end - text.start;
  return named > all / 4 * 3;
}

bool has_code_of_its_hook(const image::Function& function, arch::Hook hook, const image::Memory& memory) {
  if (hook != arch::Hook::landing) return true;
  std::array<std::byte, arch::kMostOfHooked> code;
  return memory.read(function.address, code) && arch::is_landing_setter(code);
}

}  // namespace

bool is_rust_catch(const image::Function& function) {
  if (function.name.ends_with("__rust_panic_cleanup")) return true;
  if (function.name.find("9panicking") == std::string::npos ||
      function.name.find("7cleanup") == std::string::npos)
    return false;
  return image::matches(function, "std::panicking::try::cleanup") ||
         image::matches(function, "std::panicking::r#try::cleanup") ||
         image::matches(function, "std::panicking::catch_unwind::cleanup");
}

bool unwinds(arch::Hook hook) {
  return hook == arch::Hook::catch_ || hook == arch::Hook::jump || hook == arch::Hook::end ||
         hook == arch::Hook::vfork || hook == arch::Hook::spawn || hook == arch::Hook::landing;
}

bool has_named_library(const image::Image& image) {
  return std::ranges::any_of(image.objects, is_c_library);
}

std::vector<HookedFunction> hooked_functions(const image::Object& object, const image::Memory& memory,
                                             const HookScope& scope) {
  std::vector<HookedFunction> out;
  std::set<arch::Hook> known;
  HookChoice hook_for(object, scope.flags, scope.follow);
  for (const image::Function& function : object.functions.named())
    if (const arch::Hook hook = hook_for(function);
        hook != arch::Hook::none && has_code_of_its_hook(function, hook, memory)) {
      out.push_back({&function, hook});
      known.insert(hook);
    }
  if (!out.empty()) (void)object.functions.all();  // their code is looked at
  if (!scope.flags || is_named(object)) return out;
  const auto is_wanted = [&](arch::Hook hook) {
    return !known.contains(hook) && (hook == arch::Hook::landing || !scope.has_library);
  };
  const auto take = [&](arch::Hook hook, uint64_t address) {
    (void)object.functions.all();
    if (const image::Function* function = image::any_function_starting_at(object, address);
        function && function->unnamed)
      out.push_back({function, hook});
  };
  find_in_code(object, memory, arch::kMostOfHooked, [&](std::span<const std::byte> bytes, uint64_t start) {
    arch::find_hooked(bytes, start, is_wanted, take);
    return uint64_t{0};
  });
  return out;
}

void want_hooked(const image::Image& image, bool follow) {
  for (const image::Object& object : image.objects)
    if (HookChoice hook_for(object, false, follow);
        std::ranges::any_of(object.functions.named(), [&](const image::Function& function) {
          return hook_for(function) != arch::Hook::none;
        }))
      (void)object.functions.all();
}

}  // namespace mdl::patch
