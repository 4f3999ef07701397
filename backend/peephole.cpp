// One walk from the end. The code behind a line is final when the line is looked at, and so is which
// registers anybody reads there: branches go forward only. So a row is tried where its first line is met, and
// again on what it has left; each makes the code shorter, or an instruction's operands fewer, so that ends.
//
// Exchanging `from` for `to` is right when each register that `from` writes is written by `to` as well, or is
// not wanted any more, and when `to` reads none as it was only behind a line of `from` that writes it.
#include "backend/peephole.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

namespace mdl::backend {
namespace {

using Registers = uint64_t;  // a set, by number

constexpr Registers bit(Register r) {
  return r == kNoRegister ? 0 : Registers{1} << r;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%';
}

template <typename Visit>
void each_word(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_word(text[end])) end++;
    if (end > i) visit(text.substr(i, end - i));
    i = end > i ? end : i + 1;
  }
}

std::string_view mnemonic(std::string_view text) {
  return text.substr(0, text.find(' '));
}

// The first or the last operand of an instruction, as it is written.
std::string_view operand(std::string_view text, bool last) {
  const size_t begin = text.find(' ');
  if (begin == std::string_view::npos) return {};
  std::string_view operands = text.substr(begin + 1);
  if (!last) return operands.substr(0, operands.find(','));
  const size_t comma = operands.rfind(", ");
  return comma == std::string_view::npos ? operands : operands.substr(comma + 2);
}

// --- patterns ---

using Bindings = std::array<std::string_view, 128>;  // by the word's letter

bool fits(char letter, std::string_view text, const Target& target) {
  if (letter == 'm') return true;
  if (letter != 'i' && letter != 'h') return target.register_of(text) != kNoRegister;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  return letter == 'i' || (value >= -2048 && value <= 2047);
}

bool matches(std::string_view pattern, std::string_view text, Bindings& bound, const Target& target) {
  size_t at = 0;
  for (size_t i = 0; i < pattern.size(); i++) {
    if (pattern[i] != '{' || pattern[i + 1] == 'L') {
      if (at == text.size() || text[at++] != pattern[i]) return false;
      continue;
    }
    const char letter = pattern[i + 1];
    i += 2;  // over the letter and the brace
    size_t end = at;
    while (end < text.size() && (is_word(text[end]) || text[end] == '+' || (text[end] == '-' && end == at)))
      end++;
    const std::string_view word = text.substr(at, end - at);
    std::string_view& known = bound[static_cast<size_t>(letter)];
    if (word.empty() || (!known.empty() && known != word) || !fits(letter, word, target)) return false;
    known = word;
    at = end;
  }
  return at == text.size();
}

std::string filled(std::string_view pattern, const Bindings& bound) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); i++) {
    if (pattern[i] != '{') {
      text += pattern[i];
      continue;
    }
    text += bound[static_cast<size_t>(pattern[i + 1])];
    i += 2;
  }
  return text;
}

std::vector<std::string_view> split(std::string_view instructions) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t end = instructions.find("; ");
    out.push_back(instructions.substr(0, end));
    if (end == std::string_view::npos) return out;
    instructions.remove_prefix(end + 2);
  }
}

constexpr std::string_view kLabelWord = " {L}";

// --- the walk ---

class Walk {
 public:
  Walk(const Target& target, const std::vector<bool>& dead_at_end) : target_(target) {
    for (size_t r = 0; r < target.registers.size(); r++)
      if (!dead_at_end[r]) at_end_ |= bit(static_cast<Register>(r));
  }

  std::vector<Line> run(std::vector<Line> lines) {
    for (size_t i = lines.size(); i-- > 0;) {
      if (goes_on(lines[i])) continue;
      push(std::move(lines[i]));
      while (improve()) continue;
    }
    std::vector<Line> result;
    for (size_t i = done_.size(); i-- > 0;) result.push_back(std::move(done_[i].line));
    return result;
  }

 private:
  struct Done {
    Line line;
    Registers live = 0;  // in front of it
  };

  // A jump or branch to a label that only labels separate it from.
  bool goes_on(const Line& line) const {
    if (line.kind != Line::Kind::jump && line.kind != Line::Kind::branch) return false;
    for (size_t i = done_.size(); i-- > 0 && done_[i].line.kind == Line::Kind::label;)
      if (done_[i].line.label == line.label) return true;
    return false;
  }

  Registers live_behind(size_t lines) const {
    return done_.size() > lines ? done_[done_.size() - lines - 1].live : at_end_;
  }

  void push(Line line) {
    const Registers live = live_before(line, live_behind(0));
    if (line.kind == Line::Kind::label) at_label_[line.label] = live;
    done_.push_back({std::move(line), live});
  }

  Registers live_before(const Line& line, Registers behind) const {
    switch (line.kind) {
      case Line::Kind::label:
        return behind;
      case Line::Kind::jump:
        return at_label_.at(line.label);
      case Line::Kind::leave:
        return behind | at_end_ | reads(line);
      case Line::Kind::branch:
        return behind | at_label_.at(line.label) | reads(line);
      case Line::Kind::plain:
        break;
    }
    return (behind & ~bit(writes(line))) | reads(line);
  }

  const Shape* shape(const Line& line) const {
    for (const Shape& row : target_.shapes)
      if (row.mnemonic == mnemonic(line.text)) return &row;
    return nullptr;
  }
  // The operand that the line writes whole, "" when there is none.
  std::string_view written_operand(const Line& line) const {
    const Shape* row = shape(line);
    if (!row || row->writes == Shape::Writes::nothing) return {};
    const bool first = row->writes == Shape::Writes::first;
    if (row->writes == Shape::Writes::third && std::count(line.text.begin(), line.text.end(), ',') != 2)
      return {};
    const std::string_view found = operand(line.text, !first);
    return target_.register_of(found) == kNoRegister ? std::string_view() : found;
  }
  Register writes(const Line& line) const {
    const std::string_view whole = written_operand(line);
    return whole.empty() ? kNoRegister : target_.register_of(whole);
  }
  Registers reads(const Line& line) const {
    if (!shape(line)) return ~Registers{0};
    const std::string_view whole = written_operand(line);
    Registers out = 0;
    each_word(line.text, [&](std::string_view word) {
      if (word.data() != whole.data()) out |= bit(target_.register_of(word));
    });
    return out;
  }

  // The last lines pushed are the first of what is left: rows are tried on them.
  bool improve() {
    for (const Peephole& row : target_.peepholes)
      if (apply(row)) return true;
    return false;
  }

  // The match of a row's `from`.
  struct Matched {
    size_t count = 0;  // lines
    uint32_t label = 0;
    bool flags = false;
    Registers written = 0;
    Registers late = 0;  // read behind the line that writes them: not what they are in front of it all
  };

  bool apply(const Peephole& row) {
    if (done_.back().line.kind != Line::Kind::plain || mnemonic(row.from) != mnemonic(done_.back().line.text))
      return false;
    const std::vector<std::string_view> from = split(row.from);
    if (from.size() > done_.size()) return false;
    Bindings bound;
    Matched matched{.count = from.size()};
    std::vector<std::string> texts(from.size());  // what `bound` points into
    for (size_t i = 0; i < from.size(); i++) {
      const Line& line = done_[done_.size() - 1 - i].line;
      const bool branch = line.kind == Line::Kind::branch;
      if (!branch && line.kind != Line::Kind::plain) return false;
      texts[i] = branch ? fmt::format("{}{}", line.text, kLabelWord) : line.text;
      if (!matches(from[i], texts[i], bound, target_)) return false;
      if (branch) matched.label = line.label;
      matched.flags = matched.flags || line.writes_flags;
      matched.late |= reads(line) & matched.written;
      matched.written |= bit(writes(line));
    }
    return exchange(matched, row.to, bound);
  }

  bool exchange(const Matched& from, std::string_view to, const Bindings& bound) {
    std::vector<Line> lines;
    for (std::string_view pattern : split(to)) {
      const bool branch = pattern.ends_with(kLabelWord);
      if (branch) pattern.remove_suffix(kLabelWord.size());
      lines.push_back(
          {branch ? Line::Kind::branch : Line::Kind::plain, filled(pattern, bound), from.label, false});
    }
    lines.back().writes_flags = from.flags;
    Registers wanted = live_behind(from.count), read = 0, written = 0;
    for (size_t i = lines.size(); i-- > 0;) {
      if (lines[i].kind == Line::Kind::branch) wanted |= at_label_.at(lines[i].label);
      written |= bit(writes(lines[i]));
      read = (read & ~bit(writes(lines[i]))) | reads(lines[i]);
    }
    if (wanted & from.written & ~written || read & from.late) return false;
    done_.resize(done_.size() - from.count);
    for (Line& line : std::vector<Line>(lines.rbegin(), lines.rend())) push(std::move(line));
    return true;
  }

  const Target& target_;
  Registers at_end_ = 0;
  std::vector<Done> done_;  // the last line first
  std::map<uint32_t, Registers> at_label_;
};

}  // namespace

std::vector<Line> peephole(std::vector<Line> lines, const Target& target,
                           const std::vector<bool>& dead_at_end) {
  return Walk(target, dead_at_end).run(std::move(lines));
}

bool names_register(const Line& line, Register r, const Target& target) {
  bool named = false;
  each_word(line.text, [&](std::string_view word) { named = named || target.register_of(word) == r; });
  return named;
}

}  // namespace mdl::backend
