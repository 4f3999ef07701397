// A format that is a line for each point, perhaps behind a head.
#pragma once

#include <string>
#include <string_view>

#include "runtime/output/series.h"
#include "runtime/output/sink.h"

namespace mdl::output {

class LineWriter final : public Consumer {
 public:
  using Line = std::string (*)(const Point& point, bool final);  // with its end
  LineWriter(Sink& sink, Line line, std::string_view head = "") : sink_(sink), line_(line), head_(head) {}
  Result<void> begin() override { return sink_.write(head_); }
  Result<void> sample(std::span<const Point> points, bool final) override {
    std::string text;
    for (const Point& point : points) text += line_(point, final);
    return sink_.write(text);
  }

 private:
  Sink& sink_;
  const Line line_;
  const std::string_view head_;
};

}  // namespace mdl::output
