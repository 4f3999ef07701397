// Fields of two files of /proc/PID (proc(5)), as views into their text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mdl {

// Of stat, by its number in proc(5), from 3 (the state) on: field 2 is the name in parentheses, which the process
// chooses and which may hold anything. "" where there is none.
std::string_view stat_field(std::string_view stat, int field);

// The same as a number; nothing where there is none.
std::optional<uint64_t> stat_number(std::string_view stat, int field);

// It has not ended, nor waits to be reaped; false also for "".
bool stat_is_alive(std::string_view stat);

// Of status: the value of the line "KEY:\tVALUE". A name that the process chooses holds no line's end there. "" where
// there is none.
std::string_view status_value(std::string_view status, std::string_view key);

}  // namespace mdl
