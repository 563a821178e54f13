// The normalizer of tokenizer.json: what happens to a text before it is split. Known: NFC, NFD,
// NFKC, NFKD (ICU), Prepend, Replace, and a Sequence of them.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tokenizer/pattern.h"

namespace shoal::tokenizer {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

struct Prepend {
  std::string text;  // before what is not empty
};
struct Replace {
  Pattern pattern;
  std::string content;
};
using NormalizerStep = std::variant<UnicodeForm, Prepend, Replace>;

// Normalizes on one thread; must not outlive `steps`.
class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  // Valid UTF-8 in and out. The result is `text` itself or lies in this object until the next call.
  Result<std::string_view> apply(std::string_view text);

 private:
  const std::vector<NormalizerStep>& steps_;
  std::vector<Matcher> matchers_;  // of the Replace steps, in order
  std::string current_, next_;
};

}  // namespace shoal::tokenizer
