#include "runtime/image/address_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/image/variables.h"

namespace mdl::image {
namespace {

// The one with the greatest beginning that is not above the address.
template <typename Item>
const Item* last_before(const std::vector<Item>& items, uint64_t address) {
  const auto next = std::upper_bound(items.begin(), items.end(), address,
                                     [](uint64_t a, const Item& item) { return a < item.at.start; });
  return next == items.begin() ? nullptr : &*std::prev(next);
}

}  // namespace

AddressNames AddressNames::of(const Image& image, bool variables) {
  AddressNames out;
  for (const Mapping& mapping : image.mappings)
    for (const Object& object : image.objects)
      if (!mapping.path.empty() && mapping.path == object.path)
        out.places_.push_back({{mapping.start, mapping.end}, object.bias, object.name});
  for (const Object& object : image.objects) {
    for (const Function& function : object.functions) {
      out.named_.push_back({{function.address, function.address + function.size}, function.name, ""});
      for (const Range& part : function.parts) out.named_.push_back({part, function.name, ".cold"});
    }
  }
  if (variables)
    for (NamedVariable& one : variables_of(image)) out.named_.push_back({one.at, std::move(one.name), ""});
  // Of several names of one place the first: those of .symtab come before those of .dynsym.
  const auto before = [](const auto& a, const auto& b) { return a.at.start < b.at.start; };
  std::stable_sort(out.named_.begin(), out.named_.end(), before);
  const auto same = std::unique(out.named_.begin(), out.named_.end(),
                                [](const Named& a, const Named& b) { return a.at.start == b.at.start; });
  out.named_.erase(same, out.named_.end());
  std::sort(out.places_.begin(), out.places_.end(), before);
  return out;
}

std::string AddressNames::at(uint64_t address) const {
  return name_of(address, address);
}

std::string AddressNames::path(uint64_t address) const {
  const Named* named = last_before(named_, address);
  const Place* place = last_before(places_, address);
  if (named == nullptr || named->at.start != address || place == nullptr || !place->at.contains(address))
    return at(address);
  return fmt::format("/Code/{}/{}", place->object, named->name);
}

std::string AddressNames::object(uint64_t address) const {
  const Place* place = last_before(places_, address);
  return place != nullptr && place->at.contains(address) ? "/Code/" + place->object : at(address);
}

std::string AddressNames::of_caller(uint64_t address) const {
  return name_of(address, address - 1);
}

std::string AddressNames::name_of(uint64_t address, uint64_t within) const {
  const Named* named = last_before(named_, within);
  if (named != nullptr && (named->at.start == within || named->at.contains(within))) {
    const std::string name = demangle(named->name).full + named->behind;
    return address == named->at.start ? name : fmt::format("{}+{:#x}", name, address - named->at.start);
  }
  const Place* place = last_before(places_, within);
  if (place != nullptr && place->at.contains(within))
    return fmt::format("{}+{:#x}", place->object, address - place->bias);
  return fmt::format("{:#x}", address);
}

}  // namespace mdl::image
