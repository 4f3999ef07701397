// A binding while it is made: code is laid onto points, each piece behind or in front of what is there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/focus/evaluate.h"
#include "runtime/focus/every_point.h"
#include "runtime/focus/request.h"

namespace mdl::focus {

inline constexpr size_t kMostSnippets = 2'000'000;

// A constraint at a resource: its flag, and where its code went.
struct Instance {
  std::vector<CellId> cells;     // the flag first
  std::vector<size_t> points;    // indices into Binding::points, with repetitions
  std::vector<size_t> balances;  // indices into Binding::balances
  std::vector<std::string> missing;
  bool idle = false;  // conditions keep all of its code out
};

using Cells = std::vector<std::pair<std::string_view, CellId>>;  // by the names that stencils use

class Draft {
 public:
  static constexpr size_t kNoInstance = SIZE_MAX;  // of a piece that is a base's

  explicit Draft(const plan::Plan& plan) : plan_(plan) {}

  // Requests, symbols and key tables are added to it as they are known.
  Binding& binding() { return binding_; }
  // The next request's index.
  uint32_t next() const { return static_cast<uint32_t>(binding_.requests.size()); }
  CellId cell(const format::Cell& cell, std::string label);
  size_t new_instance() { return instances_.emplace_back(), instances_.size() - 1; }
  Instance& instance(size_t index) { return instances_[index]; }

  // Functions that raise a flag, or start a timer, at their entry and lower or stop it at their return, or
  // before and after their calls. Returns the indices of what it adds to Binding::balances.
  std::vector<size_t> balance(const std::vector<Insertion>& code, const format::Cell& cell, CellId id,
                              uint32_t request);
  // A further request selects an instance that stands already.
  void share(size_t instance, uint32_t request);
  // A request for other threads' values of all code that the first one needs.
  void share_code(uint32_t first, uint32_t request);
  // Code that writes the flag of an instance is followed by what tracks it.
  void track(size_t instance, const TrackedCells& track);
  // Code of the instance that writes the table's `change` changes its keys.
  void change_keys(size_t instance, uint32_t table);

  // The snippets at $points, to be laid when all else is.
  std::vector<EverySnippet> take_every() { return std::move(every_); }
  // Everything else, with the pieces at their points.
  Binding take();

 private:
  struct Piece {
    BoundSnippet snippet;
    size_t instance = kNoInstance;
  };
  struct PointKey {
    const image::Function* function;
    format::PointKind kind;
    uint64_t place;
    bool operator==(const PointKey&) const = default;
  };
  struct PointHash {
    size_t operator()(const PointKey& key) const {
      return std::hash<const void*>()(key.function) * 31 + key.place * 16 + static_cast<size_t>(key.kind);
    }
  };

  friend class Requests;  // whose `lay` is the one way to lay code: it asks first what the code may do

  Result<void> lay(const std::vector<Insertion>& code, const Cells& cells, const std::vector<CellId>& guards,
                   size_t instance, std::optional<uint32_t> request);
  size_t point(const Insertion& insertion);

  const plan::Plan& plan_;
  Binding binding_;
  std::vector<Instance> instances_;
  std::vector<std::vector<Piece>> pieces_;  // as Binding::points
  std::vector<EverySnippet> every_;
  std::unordered_map<PointKey, size_t, PointHash> points_;
  size_t laid_ = 0;
};

Error too_much();

}  // namespace mdl::focus
