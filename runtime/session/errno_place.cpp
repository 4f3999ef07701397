#include "runtime/session/errno_place.h"

#include <algorithm>
#include <array>

#include "runtime/arch/errno_location.h"
#include "runtime/plan/capabilities.h"

namespace mdl::inject {
namespace {

// In the static storage of the thread that it is of, which lies below the thread pointer and is not large.
constexpr int64_t kLowest = -(int64_t{1} << 24);

Result<int64_t> place_of(const image::Image& image, const image::Memory& memory, uint64_t address) {
  const auto mapping = std::ranges::find_if(
      image.mappings, [&](const image::Mapping& one) { return address >= one.start && address < one.end; });
  std::array<std::byte, arch::kMostOfErrnoLocation> code{};
  std::optional<arch::ErrnoLocation> found;
  if (mapping != image.mappings.end() && image::read_mapped(image.pid, *mapping, address, code))
    found = arch::errno_location(code, address);
  if (!found) return Error{"its C library keeps errno in a way that is not known here"};
  if (found->slot != 0 && !memory.read(found->slot, std::as_writable_bytes(std::span(&found->offset, 1))))
    return Error{"where its C library keeps errno cannot be read"};
  if (found->offset < kLowest || found->offset >= 0 || found->offset % 4 != 0)
    return Error{"its C library does not say yet where it keeps errno"};
  return found->offset;
}

// An error, with the reason, where it is not known for sure.
Result<int64_t> errno_place(const image::Image& image, const image::Memory& memory) {
  std::optional<int64_t> place;
  for (const image::Object& object : image.objects)
    for (const image::Function& function : object.functions.named()) {
      constexpr std::string_view kName = "__errno_location";
      if (function.name != kName && std::ranges::find(function.aliases, kName) == function.aliases.end())
        continue;
      const auto one = place_of(image, memory, function.address);
      if (!one) return one.error();
      if (place.value_or(*one) != *one)
        return Error{"it has several C libraries, each with an errno of its own"};
      place = *one;
    }
  if (!place) return Error{"it has no function __errno_location, which would say where errno is"};
  return *place;
}

}  // namespace

int64_t errno_for(const plan::Plan& plan, const image::Image& image, const image::Memory& memory,
                  std::map<format::Routine, std::string>& denied) {
  if (std::ranges::none_of(plan.stencils,
                           [](const plan::Stencil& one) { return plan::uses(one, format::Routine::error); }))
    return 0;
  const auto at = errno_place(image, memory);
  if (!at) denied[format::Routine::error] = at.error().text;
  return at ? *at : 0;
}

}  // namespace mdl::inject
