#include "mdlc/arguments.h"

#include <fmt/format.h>

#include <string_view>

#include "base/read_text.h"

namespace mdl::mdlc {
namespace {

constexpr size_t kMaxDepth = 8;                // of response files that name response files
constexpr size_t kMaxBytes = size_t{4} << 20;  // of one of them
constexpr size_t kMaxWords = 100000;
constexpr size_t kMaxFiles = 1000;

// Compilers' traditional options with one dash and several letters, which CLI11 does not
// have: as they are typed, and as it is told.
struct OneDash {
  std::string_view typed;
  std::string_view told;
};
constexpr OneDash kOneDash[] = {{"-mcpu", "--mcpu"}, {"-MD", "--depfile"}};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

class Words {
 public:
  Result<void> add(std::string word, size_t depth) {
    if (!options_end_ && word.size() > 1 && word[0] == '@') return file(word.substr(1), depth);
    if (words_.size() == kMaxWords)
      return Error{fmt::format("more than {} words on the command line", kMaxWords), Status::usage};
    options_end_ = options_end_ || word == "--";
    if (!options_end_) one_dash(word);
    words_.push_back(std::move(word));
    return {};
  }

  std::vector<std::string> take() { return std::move(words_); }

 private:
  static void one_dash(std::string& word) {
    for (const OneDash& option : kOneDash) {
      bool with_value = word.starts_with(option.typed) && word[option.typed.size()] == '=';
      if (word != option.typed && !with_value) continue;
      word.replace(0, option.typed.size(), option.told);
      return;
    }
  }

  Result<void> file(const std::string& path, size_t depth) {
    auto wrong = [&](std::string_view why) {
      return Error{fmt::format("response file '{}': {}", path, why), Status::usage};
    };
    if (depth == kMaxDepth || ++files_ > kMaxFiles)
      return wrong("response files name each other without end");
    auto text = read_file(path, kMaxBytes);
    if (!text) return wrong(text.error().text);
    if (text->size() > kMaxBytes) return wrong(fmt::format("it is larger than {} bytes", kMaxBytes));
    if (text->find('\0') != std::string::npos) return wrong("it has a NUL byte");
    return split(*text, wrong, depth + 1);
  }

  template <typename Wrong>
  Result<void> split(std::string_view text, Wrong wrong, size_t depth) {
    std::string word;
    bool in_word = false;
    char quote = 0;
    for (size_t i = 0; i < text.size(); i++) {
      char c = text[i];
      bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size();
      if (quote == 0 && is_space(c)) {
        if (in_word)
          if (auto added = add(std::move(word), depth); !added) return added;
        word.clear();
        in_word = false;
        continue;
      }
      in_word = true;
      if (escapes)
        word += text[++i];
      else if (quote == 0 && (c == '\'' || c == '"'))
        quote = c;
      else if (c == quote)
        quote = 0;
      else
        word += c;
    }
    if (quote != 0) return wrong("a quoted word does not end");
    return in_word ? add(std::move(word), depth) : Result<void>();
  }

  std::vector<std::string> words_;
  size_t files_ = 0;
  bool options_end_ = false;
};

}  // namespace

Result<std::vector<std::string>> arguments(int argc, const char* const* argv) {
  Words words;
  for (int i = 1; i < argc; i++)
    if (auto added = words.add(argv[i], 0); !added) return added.error();
  return words.take();
}

}  // namespace mdl::mdlc
