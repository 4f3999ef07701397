// Which requests of a binding are measured at all: a value that no code writes is not 0, but unknown.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/patch/coverage.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

// Which cells are written by code that was inserted, and which flags requests wait for.
class Reach {
 public:
  Reach(const plan::Plan& plan, const focus::Binding& binding)
      : inserted_(binding),
        there_(binding),
        refused_(binding.requests.size()),
        parts_(binding.requests.size()),
        wanted_(cells_written(plan, binding)) {}
  // The coverage is of a binding that has the cells and requests of the first one.
  void add(const plan::Plan& plan, const Coverage& coverage);
  // A request is hollow when its value, or a flag or counter that its code asks, is written nowhere, though it
  // should be.
  std::vector<bool> hollow(const focus::Binding& binding) const { return inserted_.hollow(binding, wanted_); }
  // Those for which functions are missing: not even one that has no such points is there.
  std::vector<bool> without_functions(const focus::Binding& binding) const;
  // Why a hollow one is: points were refused; its function is a part of another one; or it has no such points.
  enum class Why : uint8_t { refused, part, without };
  // What it is about is there, and not measured.
  bool loses(size_t request) const { return why(request) != Why::without; }
  Why why(size_t request) const {
    return refused_[request] ? Why::refused : parts_[request] ? Why::part : Why::without;
  }

 private:
  struct Code {
    explicit Code(const focus::Binding& binding)
        : written(binding.cells.size()), guards(binding.requests.size()), read(binding.requests.size()) {}
    void add(const plan::Plan& plan, const focus::BoundSnippet& snippet);
    std::vector<bool> hollow(const focus::Binding& binding, const std::vector<bool>& wanted) const;
    std::vector<bool> written;                             // by cell
    std::vector<std::vector<focus::CellId>> guards, read;  // by request
  };
  // By cell: code of the binding writes it, whether that code can be inserted or not. A metric may well ask for a
  // flag of functions that the process does not have.
  static std::vector<bool> cells_written(const plan::Plan& plan, const focus::Binding& binding);
  Code inserted_;
  Code there_;  // of all functions that are there, whether they have such points or not
  std::vector<bool> refused_, parts_;  // by request
  std::vector<bool> wanted_;           // by cell
};

// What the journal says of that: what requests lack of the points that they want, and whether they have any.
void note_losses(const Reach& reach, const focus::Binding& binding, resident::Journal& journal);
// The same of a coverage as it is after all refusals, with how many points were refused.
void note_losses(const plan::Plan& plan, const focus::Binding& binding, const Coverage& coverage,
                 resident::Journal& journal);

}  // namespace mdl::patch
