// SHA-256 (FIPS 180-4): the checksum of plans and of journals.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace mdl {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> bytes);

}  // namespace mdl
