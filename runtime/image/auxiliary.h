// The auxiliary vector: what the kernel told a program at its start (/proc/PID/auxv, getauxval(3)).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mdl::image {

// The value of a key.
std::optional<uint64_t> auxiliary_value(std::string_view vector, uint64_t key);

}  // namespace mdl::image
