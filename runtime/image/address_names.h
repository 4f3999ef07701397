// What lies at an address of a process, in words: for people, not for changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::image {

class AddressNames {
 public:
  // The functions and, where they are wanted, the variables of an image, which need not outlive it.
  static AddressNames of(const Image& image, bool variables);

  // `main`, `table+0x10`, `libc.so.6+0x2a1b0` in an object where no symbol is, `0x7f0012345678` elsewhere. Names of C++
  // are demangled; two addresses may have one name.
  std::string at(uint64_t address) const;
  // `/Code/libc.so.6/malloc`, with the linkage name, where a function begins at the address; else as above.
  std::string path(uint64_t address) const;
  // `/Code/libc.so.6`, where the address is in that object; else as above.
  std::string object(uint64_t address) const;
  // The same as at() of a return address: it belongs to the function that has called, though that may end before it.
  std::string of_caller(uint64_t address) const;

 private:
  struct Named {
    Range at;
    std::string name;  // linkage name
    std::string behind;
  };
  struct Place {
    Range at;
    uint64_t bias = 0;
    std::string object;
  };
  // `within`: the address that decides where it is.
  std::string name_of(uint64_t address, uint64_t within) const;

  std::vector<Named> named_;   // by address
  std::vector<Place> places_;  // likewise
};

}  // namespace mdl::image
