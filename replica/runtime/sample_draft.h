// The short text that a checkpoint shows of its model: the continuation of a held-out window, token
// by token, until it is long enough or the time is up. What there is then is the sample; none at
// all is no failure. The same job, round and parameters give the same text, as far as it comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "job/job_spec.h"
#include "outer_opt/core/round/round.h"
#include "tokenizer/text_tokenizer.h"

namespace shoal::replica {

// UTF-8 for people: bytes that are none, and control characters but line ends and tabs, become
// U+FFFD.
std::string readable_text(std::string_view bytes);

class SampleDraft {
 public:
  static constexpr std::int64_t kTokens = 200;
  static constexpr double kTemperature = 0.8;
  static constexpr std::chrono::milliseconds kLimit{2000};

  using Clock = std::chrono::steady_clock;

  // It continues from `prompt`, `context` tokens; empty: there is none, and the draft is over.
  // `tokenizer` makes text of the tokens and outlives the draft; null: they are bytes, or stay
  // numbers.
  SampleDraft(const JobSpec& spec, const tokenizer::TextTokenizer* tokenizer,
              std::vector<std::int64_t> prompt, RoundNumber round, Clock::time_point now);

  std::span<const std::int64_t> window() const { return window_; }  // `context` tokens
  void take(std::span<const float> logits);                         // of what follows the window
  bool over(Clock::time_point now) const { return left_ == 0 || now >= deadline_; }
  Clock::time_point deadline() const { return deadline_; }
  std::string text() const;  // at most kSampleBytesMax bytes

 private:
  Tokenizer format_;
  const tokenizer::TextTokenizer* tokenizer_;
  Prng prng_;
  Clock::time_point deadline_;
  std::vector<std::int64_t> window_;
  std::int64_t left_ = kTokens;
  std::vector<tokenizer::TokenId> written_;
};

}  // namespace shoal::replica
