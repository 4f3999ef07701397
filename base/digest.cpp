#include "base/digest.h"

#include <sodium.h>

namespace mdl {

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.data()),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return digest;
}

}  // namespace mdl
