// The files that an output was made of, for make and ninja.
#pragma once

#include <string>
#include <vector>

namespace mdl::mdlc {

// "output: file file…\n", with the characters escaped that make reads as something else.
std::string dependencies(const std::string& output, const std::vector<std::string>& files);

}  // namespace mdl::mdlc
