// A terminal that is drawn on in place, and whose keys come one by one. It is what it was before in every way out.
//
// Another process, the keeper, sets the terminal and sets it back. It is there before privileges are given up, since a
// confined process may not set a terminal (runtime/kernel/confine.cpp), and it sees the end of this one, however that
// came. It obeys two bytes, and reads nothing else.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace mdl {

struct TerminalSize {
  size_t rows = 0, columns = 0;
  bool operator==(const TerminalSize&) const = default;
};

// Of standard output.
bool can_draw();     // it is a terminal whose cursor can be moved (TERM), and this process is in front on it
bool is_in_front();  // the terminal's shell has not sent this process to the background
TerminalSize size_of_terminal();  // a usual one where it does not tell
bool shows_utf8();                // by the locale's environment

class Keys {
 public:
  // Nothing where standard input is not the terminal of standard output. To be called while there is one thread.
  static std::optional<Keys> open();
  Keys(Keys&& other) noexcept;
  Keys& operator=(Keys&&) = delete;
  ~Keys();  // release()

  // From here on keys come one by one, are not shown, and Ctrl-Z stops nobody. True when the terminal was not so:
  // the first time, and where a shell has set it since.
  bool take();
  void release();      // as it was before
  std::string read();  // what was typed since the last time

 private:
  explicit Keys(int keeper) : keeper_(keeper) {}
  void ask(char what) const;
  int keeper_;
  bool taken_ = false;
};

}  // namespace mdl
