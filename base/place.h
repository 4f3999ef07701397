// Where a file that a user names lies: through links of his own and of root's, and of nobody else.
//
// Who measures is often root, and a folder such as /tmp everybody's: a link of another user there would have the
// samples written over a file of that one's choice.
#pragma once

#include <string>

#include "base/result.h"

namespace mdl {

struct Place {
  std::string folder, name;  // of a regular file that is there or not; no link is among them
  std::string as_it_is;  // not "": no regular file, but a device, FIFO or open file, which is opened by this
};
Result<Place> place_of(const std::string& path);

}  // namespace mdl
