// Where the time of a command goes (mdl-inject --timing): its phases, one after the other, each with the wall time and
// the processor time that this process spent in it. A name that begins again adds up. One thread begins them; a forked
// process goes on with those of before.
#pragma once

#include <cstdio>
#include <string_view>

namespace mdl::phases {

void begin(std::string_view name);  // ends the phase before; a literal
void print(std::FILE* to);          // a table; ends the last phase

}  // namespace mdl::phases
