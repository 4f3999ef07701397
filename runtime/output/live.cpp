// Each frame is written over the one before, from its first line on: the cursor, which stands below a frame, goes up as
// many lines as that has. So nothing of the terminal but its keys has to be set back, what was there before stays
// above, and what others write stands in a line of its own. Messages are said between two frames. A terminal whose size
// has changed has broken lines anew, and is cleared; so is one that a shell has used meanwhile.
#include "runtime/output/live.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/say.h"
#include "base/terminal.h"
#include "runtime/output/view.h"

namespace mdl::output {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSoonest{40};  // from frame to frame

std::string_view last_line(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

class Live final : public Consumer {
 public:
  Live(Sink& sink, const Look& look)
      : sink_(sink),
        keys_(look.keys),
        colour_(look.colour),
        answers_(look.drill != nullptr),
        view_(look, shows_utf8()),
        size_(size_of_terminal()) {}
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
  ~Live() override { leave(); }  // where an error ends it

  Result<void> begin() override {
    if (keys_) keys_->take();
    if (isatty(STDERR_FILENO) == 1) keep_errors(&said_);
    return {};
  }
  Result<void> sample(std::span<const Point> points, bool final) override {
    view_.take(points, final);
    is_new_ = true;
    return draw_if_due();
  }
  Result<void> look() override {
    if (const std::string typed = keys_ ? keys_->read() : ""; !typed.empty()) {
      is_new_ = true;
      if (view_.obey(typed)) std::raise(SIGINT);  // the way in which Ctrl-C ends it
    }
    return draw_if_due();
  }
  Result<void> end() override {
    if (!is_in_front()) drawn_ = 0, is_cleared_ = false;  // below what the shell has written
    auto drawn = sink_.write(frame());
    leave();
    return drawn;
  }

 private:
  Result<void> draw_if_due() {
    const TerminalSize now = size_of_terminal();
    const bool is_due = is_new_ || !said_.empty() || now != size_;
    return is_due && Clock::now() - last_ >= kSoonest ? draw() : Result<void>{};
  }

  // In the background the terminal is a shell's.
  Result<void> draw() {
    last_ = Clock::now();
    if (!is_in_front()) {
      is_cleared_ = true;
      return {};
    }
    const TerminalSize now = size_of_terminal();
    is_cleared_ = is_cleared_ || (keys_ && keys_->take()) || now != size_;
    size_ = now;
    is_new_ = false;
    return sink_.write(frame());
  }

  std::string frame() {
    constexpr std::string_view kClear = "\x1b[H\x1b[2J", kClearBelow = "\x1b[J", kClearRight = "\x1b[K";
    constexpr std::string_view kBold = "\x1b[1m", kDim = "\x1b[2m", kPlain = "\x1b[0m";
    std::string out(std::exchange(is_cleared_, false) ? kClear : "\r");
    if (out != kClear && drawn_ > 0) out += fmt::format("\x1b[{}A", drawn_);
    if (answers_ && !said_.empty()) view_.tell(last_line(said_));
    if (!said_.empty()) (out += kClearBelow) += std::exchange(said_, "");
    const std::vector<View::Line> lines = view_.lines(size_);
    for (const View::Line& line : lines) {
      const std::string_view colour = !colour_ || line.kind == View::Line::Kind::plain ? ""
                                      : line.kind == View::Line::Kind::status          ? kDim
                                                                                       : kBold;
      ((out += colour) += line.text) += colour.empty() ? "" : kPlain;
      (out += kClearRight) += '\n';
    }
    drawn_ = lines.size();
    return out += kClearBelow;
  }

  void leave() {
    if (keys_) keys_->release();
    keep_errors(nullptr);
    if (!said_.empty()) say_text(stderr, std::exchange(said_, ""));
  }

  Sink& sink_;
  Keys* const keys_;
  const bool colour_, answers_;
  View view_;
  TerminalSize size_;
  size_t drawn_ = 0;                         // lines of the frame before
  bool is_new_ = true, is_cleared_ = false;  // before the first sample it says what the keys are
  Clock::time_point last_;
  std::string said_;  // what was said since the frame before
};

}  // namespace

std::unique_ptr<Consumer> make_live(Sink& sink, const Look& look) {
  return std::make_unique<Live>(sink, look);
}

}  // namespace mdl::output
