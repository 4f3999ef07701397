// Texts in which linkage names of C++ and Rust stand, as people read them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mdl::image {

// With each of these demangled; the destructor that `delete` calls is said to be that one. One that is longer than
// `longest` lacks its middle; 0: none does.
std::string for_people(std::string_view text, size_t longest = 0);

// Of the resources in a focus, those of code: a file, or a text of the program's, may be called as a function is.
// `exactly`: with what tells each from others that read alike.
std::string focus_for_people(std::string_view focus, bool exactly = false);

}  // namespace mdl::image
