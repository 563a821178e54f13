// See sample_draft.h.
#include "replica/runtime/sample_draft.h"

#include <algorithm>
#include <utility>

#include "messages/messages.h"
#include "replica/runtime/sampling.h"

namespace shoal::replica {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

bool continues(std::string_view bytes, std::size_t at) {
  return at < bytes.size() && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80;
}

// The length of the character at `at`, 0 when there is none (RFC 3629, section 4).
std::size_t character_at(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80)
    return lead >= 0x20 && lead != 0x7F ? 1 : lead == '\n' || lead == '\r' || lead == '\t';
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(bytes, at + i)) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool too_long = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F, beyond = lead == 0xF4 && second > 0x8F;
  return too_long || surrogate || beyond ? 0 : length;
}

// Whole characters only.
std::string shortened(std::string text) {
  if (text.size() <= kSampleBytesMax) return text;
  std::size_t end = kSampleBytesMax;
  while (end > 0 && continues(text, end)) --end;
  text.resize(end);
  return text;
}

}  // namespace

std::string readable_text(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = character_at(bytes, at);
    text += length > 0 ? bytes.substr(at, length) : kReplacement;
    at += std::max<std::size_t>(1, length);
  }
  return text;
}

SampleDraft::SampleDraft(const JobSpec& spec, const tokenizer::TextTokenizer* tokenizer,
                         std::vector<std::int64_t> prompt, RoundNumber round, Clock::time_point now)
    : format_(spec.data.tokenizer),
      tokenizer_(tokenizer),
      prng_(mix_seed(spec.train.seed, static_cast<std::uint64_t>(round))),
      deadline_(now + kLimit),
      window_(std::move(prompt)) {
  if (window_.empty()) left_ = 0;
}

void SampleDraft::take(std::span<const float> logits) {
  const std::int64_t token = sample_token(logits, kTemperature, 0, prng_);
  std::rotate(window_.begin(), window_.begin() + 1, window_.end());
  window_.back() = token;
  --left_;
  written_.push_back(static_cast<tokenizer::TokenId>(token));
}

std::string SampleDraft::text() const {
  static_assert(kTokens * 11 <= static_cast<std::int64_t>(kSampleBytesMax));  // "4294967295 "
  if (tokenizer_ != nullptr) return shortened(readable_text(tokenizer_->decode(written_, true)));
  std::string text;
  for (const tokenizer::TokenId token : written_) {
    if (format_ == Tokenizer::kBytes) {
      text += static_cast<char>(token);
    } else {
      text += std::to_string(token) + " ";
    }
  }
  return readable_text(text);
}

}  // namespace shoal::replica
