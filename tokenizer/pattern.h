// The regular expressions of tokenizer.json. The Hugging Face libraries read them with Oniguruma;
// here PCRE2 does, with Unicode properties. What the two would read differently is rewritten
// (\s, \w, names of scripts) or refused (anchors, \h, nested classes, a possessive {n,m}+).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shoal::tokenizer {

// Immutable; any thread may match with it.
class Pattern {
 public:
  // kIncompatible: says what is not understood; the caller adds where it stands.
  static Result<Pattern> compile(std::string_view expression);
  static Result<Pattern> literal(std::string_view text);

 private:
  friend class Matcher;
  explicit Pattern(std::shared_ptr<const void> code) : code_(std::move(code)) {}
  std::shared_ptr<const void> code_;
};

struct Match {
  std::size_t begin = 0, end = 0;
};

// Finds the matches of one text, one after the other, on one thread.
class Matcher {
 public:
  explicit Matcher(const Pattern& pattern);
  ~Matcher();
  Matcher(Matcher&&) noexcept;

  void start(std::string_view text);  // valid UTF-8, which outlives the matches
  // An empty match right after the last one is passed over.
  bool next(Match& match);
  // After next() returned false: kResourceExhausted when it gave up. The limit counts steps, not
  // time.
  Status verdict() const;

 private:
  bool find_from(std::size_t at, Match& match);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::tokenizer
