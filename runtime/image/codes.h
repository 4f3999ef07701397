// The decoded functions of a process, each decoded once: binding asks for the call sites, loops and
// blocks of a few, deciding where code goes needs every function that is wanted.
#pragma once

#include <map>
#include <mutex>

#include "runtime/image/block_memory.h"
#include "runtime/image/code.h"
#include "runtime/image/read_log.h"

namespace mdl::image {

class Codes {
 public:
  // All must outlive this. `log`: where it is to be noted what is read.
  Codes(const Image& image, const Memory& memory, ReadLog* log = nullptr)
      : image_(image), blocks_(memory), memory_(blocks_, log) {}

  // The code of a function; when it cannot be read, none, with the reason in `doubt`. Stays valid.
  const Code& of(const Object& object, const Function& function);
  // The same, given away: the next question decodes it anew. Any number of threads may take different ones.
  Code take(const Object& object, const Function& function);

 private:
  Code read(const Object& object, const Function& function) const;

  const Image& image_;
  BlockMemory blocks_;
  LoggedMemory memory_;
  std::mutex mutex_;
  std::map<const Function*, Code> known_;
};

}  // namespace mdl::image
