// A format that is a line for each point, perhaps behind a head.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/output/series.h"
#include "runtime/output/sink.h"

namespace mdl::output {

class LineWriter final : public Consumer {
 public:
  using Line = std::string (*)(const Point& point, bool final);  // without its end; "": there is none
  LineWriter(Sink& sink, Line line, std::string_view end = "\n", std::string_view head = "")
      : sink_(sink), line_(line), end_(end), head_(head) {}
  Result<void> begin() override { return sink_.write(head_); }
  Result<void> sample(std::span<const Point> points, bool final) override {
    std::string text;
    for (const Point& point : points) {
      if (std::string line = line_(point, final); !line.empty())
        (text += sink_.shown(std::move(line))) += end_;
      if (text.size() < kPiece) continue;
      if (auto ok = sink_.write(text); !ok) return ok;
      text.clear();
    }
    return sink_.write(text);
  }

 private:
  static constexpr size_t kPiece = 1 << 20;  // a sample may have 30 MB

  Sink& sink_;
  const Line line_;
  const std::string_view end_, head_;
};

}  // namespace mdl::output
