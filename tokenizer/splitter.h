// The pre-tokenizer of tokenizer.json: how a text is split into words, within which the model
// merges. Known: Split, ByteLevel, Digits, Metaspace, and a Sequence of them. ByteLevel's change of
// bytes into characters is the model's affair here (bpe.h): words stay the bytes of the text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/enumerators.h"
#include "base/result.h"
#include "tokenizer/pattern.h"

namespace shoal::tokenizer {

// What becomes of what a pattern matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
constexpr auto enumerators_of(Of<SplitBehavior>) {
  using enum SplitBehavior;
  return enumerators<SplitBehavior>({{kRemoved, "Removed"},
                                     {kIsolated, "Isolated"},
                                     {kMergedWithPrevious, "MergedWithPrevious"},
                                     {kMergedWithNext, "MergedWithNext"},
                                     {kContiguous, "Contiguous"}});
}

struct Split {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what does not match is what the behavior is about
};
struct PrefixSpace {};  // a blank before a piece that begins with none
enum class PrependScheme { kFirst, kNever, kAlways };
constexpr auto enumerators_of(Of<PrependScheme>) {
  using enum PrependScheme;
  return enumerators<PrependScheme>({{kFirst, "first"}, {kNever, "never"}, {kAlways, "always"}});
}
// Blanks become `replacement`; the scheme says which pieces also begin with one.
struct Metaspace {
  std::string replacement;
  PrependScheme scheme = PrependScheme::kAlways;
};
using SplitStep = std::variant<Split, PrefixSpace, Metaspace>;

// The largest n <= most at which all patterns in use split, whatever follows, and no normal form
// combines both sides: before a blank between two letters, or between a single line feed and a
// letter. 0: there is none.
std::size_t cut_between_words(std::string_view text, std::size_t most);

extern const std::string_view kGpt2Expression;  // what ByteLevel splits at

// Splits on one thread; must not outlive `steps`.
class Splitter {
 public:
  using Sink = std::function<void(std::string_view word)>;

  explicit Splitter(const std::vector<SplitStep>& steps);
  // Calls the sink with each word; a word lasts until the sink returns. `begins_text`: nothing of
  // the text was before this piece.
  Status split(std::string_view piece, bool begins_text, const Sink& sink);

 private:
  struct Part {
    std::size_t begin = 0, end = 0;
    bool is_match = false;
  };
  struct Work {                    // of one step
    std::vector<Matcher> matcher;  // one, or none
    std::vector<Part> parts;
    std::string text;
  };
  Status run(std::size_t step, std::string_view piece, bool begins_text);
  Status run_split(std::size_t step, const Split& split, std::string_view piece, bool begins_text);
  Status run_metaspace(std::size_t step, const Metaspace& metaspace, std::string_view piece,
                       bool begins_text);

  const std::vector<SplitStep>& steps_;
  std::vector<Work> work_;
  const Sink* sink_ = nullptr;
};

}  // namespace shoal::tokenizer
