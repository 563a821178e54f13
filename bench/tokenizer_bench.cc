// Text to tokens on one core: how fast words are counted, a vocabulary is learned, and a text is
// encoded, with the tokenizer that was learned from it or with a given one.
#include <chrono>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/prng.h"
#include "bench/bench.h"
#include "threads/file_content.h"
#include "tokenizer/bpe_trainer.h"

namespace shoal::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Words of a small language, the frequent ones short: Zipf's law.
std::string invented_text(std::size_t bytes) {
  constexpr std::uint64_t kWords = 50'000;
  Prng prng(1);
  std::vector<std::string> words;
  for (std::uint64_t i = 0; i < kWords; ++i) {
    std::string word;
    for (std::uint64_t n = 2 + prng.below(3 + i / 5000); n > 0; --n) {
      word += static_cast<char>('a' + prng.below(26));
    }
    words.push_back(std::move(word));
  }
  std::string text;
  while (text.size() < bytes) {
    constexpr double kFine = 1 << 30;
    const double chance = static_cast<double>(prng.below(std::uint64_t{1} << 30)) / kFine;
    text += words[static_cast<std::size_t>(std::pow(kWords, chance)) - 1];
    text += prng.below(12) == 0 ? ".\n" : " ";
  }
  return text;
}

tokenizer::WordCounts count(const std::string& text) {
  tokenizer::WordCounts words;
  tokenizer::Splitter splitter(tokenizer::trained_split());
  (void)splitter.split(text, true, [&](std::string_view word) { ++words[std::string(word)]; });
  return words;
}

int complain(const Error& error) {
  std::fprintf(stderr, "shoal-bench: %s\n", to_string(error).c_str());
  return 1;
}

struct Figures {
  double count_mb_s = 0, train_s = 0, encode_mb_s = 0, bytes_per_token = 0;
};

int show(const Figures& figures, std::int64_t vocabulary, bool json) {
  if (json) {
    const nlohmann::ordered_json all = {{"vocabulary", vocabulary},
                                        {"count_mb_per_s", figures.count_mb_s},
                                        {"train_s", figures.train_s},
                                        {"encode_mb_per_s", figures.encode_mb_s},
                                        {"bytes_per_token", figures.bytes_per_token}};
    std::printf("%s\n", all.dump(2).c_str());
    return 0;
  }
  std::printf("vocabulary          %8lld\n", static_cast<long long>(vocabulary));
  std::printf("words counted       %8.1f MB/s\n", figures.count_mb_s);
  std::printf("vocabulary learned  %8.2f s\n", figures.train_s);
  std::printf("text encoded        %8.1f MB/s, %.2f bytes per token\n", figures.encode_mb_s,
              figures.bytes_per_token);
  return 0;
}

}  // namespace

int run_tokenizer(const TokenizerOptions& options) {
  std::string text;
  if (options.text.empty()) {
    text = invented_text(static_cast<std::size_t>(options.bytes));
  } else {
    text = file_content(options.text).value_or("");
    if (text.empty()) return complain({Code::kNotFound, options.text + " is empty", "--text", ""});
  }
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  Figures figures;
  auto begin = std::chrono::steady_clock::now();
  const auto words = count(text);
  figures.count_mb_s = megabytes / seconds_since(begin);
  begin = std::chrono::steady_clock::now();
  const auto trained = tokenizer::train_bpe(words, {.vocabulary = options.vocabulary});
  if (!trained) return complain(trained.error());
  figures.train_s = seconds_since(begin);
  auto content = Result<std::string>(tokenizer::tokenizer_json(*trained));
  if (!options.tokenizer.empty()) content = tokenizer::read_tokenizer_file(options.tokenizer);
  if (!content) return complain(content.error());
  const auto tokenizer = tokenizer::parse_tokenizer(*content, "tokenizer.json");
  if (!tokenizer) return complain(tokenizer.error());

  std::vector<double> speeds;
  for (int i = 0; i < options.repeats; ++i) {
    const auto encoder = (*tokenizer)->encoder();
    std::vector<tokenizer::TokenId> ids;
    begin = std::chrono::steady_clock::now();
    if (Status s = encoder->encode(text, ids); !s) return complain(s.error());
    speeds.push_back(megabytes / seconds_since(begin));
    figures.bytes_per_token = static_cast<double>(text.size()) / static_cast<double>(ids.size());
  }
  figures.encode_mb_s = median(speeds);
  return show(figures, (*tokenizer)->vocabulary(), options.json);
}

}  // namespace shoal::bench
