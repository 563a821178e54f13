// See tokenizer.h.
#include "cli/commands/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/number_text.h"
#include "cli/api.h"
#include "cli/format.h"
#include "cli/terminal.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/corpus/prepare.h"
#include "tokenizer/corpus/word_counts.h"
#include "tokenizer/sentence_piece/sentence_piece.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;
using tokenizer::TokenId;

constexpr std::size_t kStdinMost = 64 << 20;
constexpr double kRedrawS = 0.2;

int threads_of(int wanted) {
  return wanted > 0 ? wanted : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// How much of the files was read, on a terminal.
class ReadProgress {
 public:
  explicit ReadProgress(const std::vector<std::string>& files) {
    std::error_code failure;
    for (const std::string& file : files) {
      const auto size = fs::file_size(file, failure);
      if (!failure) total_ += static_cast<double>(size);
    }
  }
  ~ReadProgress() { clear(); }

  void show(std::int64_t bytes) {
    const double now = now_s();
    if (!terminal().stderr_is_tty || now - shown_s_ < kRedrawS) return;
    shown_s_ = now;
    const double speed = static_cast<double>(bytes) / std::max(now - begun_s_, 1e-3);
    std::cerr << "\r\033[K" << size_text(static_cast<double>(bytes)) << " of " << size_text(total_)
              << "  " << size_text(speed) << "/s" << std::flush;
  }
  void clear() {
    if (shown_s_ > 0) std::cerr << "\r\033[K" << std::flush;
    shown_s_ = 0;
  }

 private:
  double total_ = 0, begun_s_ = now_s(), shown_s_ = 0;
};

Result<std::string> read_stdin() {
  std::string text;
  char block[1 << 16];
  while (std::cin.read(block, sizeof block), std::cin.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() <= kStdinMost) continue;
    return Error{Code::kResourceExhausted, "stdin has over 64 MiB", "",
                 "`shoal dataset prepare` takes files of any size"};
  }
  return text;
}

Result<std::string> text_of(const std::vector<std::string>& words) {
  if (words.empty()) return read_stdin();
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Status write_file(const std::string& path, const std::string& content) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << content << std::flush;
  std::error_code failure;
  if (file) fs::rename(partial, path, failure);
  if (file && !failure) return {};
  return Error{Code::kUnavailable, path + " cannot be written", "--output",
               "name a file in a folder where you may write"};
}

Result<std::vector<TokenId>> tokens_of(const std::string& text, std::int64_t vocabulary) {
  std::vector<TokenId> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    TokenId token = 0;
    const char* end = word.data() + word.size();
    const auto [stop, failure] = std::from_chars(word.data(), end, token);
    if (failure != std::errc() || stop != end || token >= vocabulary) {
      return Error{Code::kValidation, "'" + word + "' is not a token of this tokenizer", "TOKENS",
                   "give numbers from 0 to " + std::to_string(vocabulary - 1)};
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::string listed(const std::vector<TokenId>& tokens, const tokenizer::TextTokenizer& tokenizer) {
  std::string text;
  for (const TokenId token : tokens) {
    text +=
        (text.empty() ? "" : ", ") + tokenizer.token_of(token) + " (" + std::to_string(token) + ")";
  }
  return text.empty() ? "-" : text;
}

void tell(const corpus::Skipped& skipped) {
  if (skipped.records == 0) return;
  say(plural(skipped.records, "record") + " left out; the first: " + skipped.first);
}

}  // namespace

Result<int> tokenizer_train(const TrainTokenizerOptions& options, bool json) {
  tokenizer::BpeTraining training;
  training.vocabulary = options.vocabulary;
  training.min_frequency = options.min_frequency;
  if (!options.special.empty()) training.special = options.special;
  // Before hours of reading.
  if (auto possible = tokenizer::train_bpe({}, training); !possible) return possible.error();
  const corpus::DocumentOptions documents{
      options.files, options.field, static_cast<std::int64_t>(options.bytes_max), options.skip_bad};
  ReadProgress progress(options.files);
  corpus::Skipped skipped;
  const auto words = corpus::count_words(
      documents, threads_of(options.threads), [&](std::int64_t bytes) { progress.show(bytes); },
      &skipped);
  progress.clear();
  if (!words) return words.error();
  const auto trained = tokenizer::train_bpe(*words, training);
  if (!trained) return trained.error();
  if (Status s = write_file(options.output, tokenizer::tokenizer_json(*trained)); !s) {
    return s.error();
  }
  const auto vocabulary = static_cast<std::int64_t>(trained->tokens.size());
  if (json) {
    print(Json{{"file", options.output},
               {"vocabulary", vocabulary},
               {"merges", trained->merges.size()},
               {"words", words->size()},
               {"skipped", skipped.records}}
              .dump(2) +
          "\n");
    return 0;
  }
  print(options.output + "\n");
  say(std::to_string(vocabulary) + " tokens, learned from " +
      plural(static_cast<std::int64_t>(words->size()), "different word"));
  tell(skipped);
  if (vocabulary < training.vocabulary) {
    say("No further pair occurs " + std::to_string(training.min_frequency) +
        " times: give more text, or a lower --min-frequency.");
  }
  return 0;
}

Result<int> tokenizer_encode(const EncodeOptions& options, bool json) {
  const auto loaded = tokenizer::load_any_tokenizer(options.tokenizer);
  if (!loaded) return loaded.error();
  const auto text = text_of(options.words);
  if (!text) return text.error();
  const auto& frame = (*loaded)->frame();
  std::vector<TokenId> tokens;
  if (options.frame) tokens = frame.before;
  if (Status s = (*loaded)->encoder()->encode(*text, tokens); !s) return s.error();
  if (options.frame) tokens.insert(tokens.end(), frame.after.begin(), frame.after.end());
  if (json) return print(Json{{"tokens", tokens}}.dump() + "\n"), 0;
  std::string line;
  for (const TokenId token : tokens) line += (line.empty() ? "" : " ") + std::to_string(token);
  print(line + "\n");
  return 0;
}

Result<int> tokenizer_decode(const EncodeOptions& options, bool json) {
  const auto loaded = tokenizer::load_any_tokenizer(options.tokenizer);
  if (!loaded) return loaded.error();
  const auto numbers = text_of(options.words);
  if (!numbers) return numbers.error();
  const auto tokens = tokens_of(*numbers, (*loaded)->vocabulary());
  if (!tokens) return tokens.error();
  const std::string text = (*loaded)->decode(*tokens, options.special);
  print(json ? Json{{"text", text}}.dump() + "\n" : text + "\n");
  return 0;
}

Result<int> tokenizer_info(const std::string& file, bool json) {
  const auto loaded = tokenizer::load_any_tokenizer(file);
  if (!loaded) return loaded.error();
  const tokenizer::TextTokenizer& one = **loaded;
  const auto end = one.end_of_text();
  const bool narrow = one.vocabulary() <= 65'536;
  if (json) {
    print(Json{{"kind", one.kind()},
               {"vocabulary", one.vocabulary()},
               {"tokens", narrow ? "uint16" : "uint32"},
               {"end_of_text", end ? Json(*end) : Json()},
               {"before", one.frame().before},
               {"after", one.frame().after}}
              .dump(2) +
          "\n");
    return 0;
  }
  print("kind          " + one.kind() + "\n");
  print("vocabulary    " + std::to_string(one.vocabulary()) + ", tokens are " +
        (narrow ? "uint16" : "uint32") + "\n");
  print("end of text   " + (end ? listed({*end}, one) : std::string("-")) + "\n");
  print("before a text " + listed(one.frame().before, one) + "\n");
  print("after a text  " + listed(one.frame().after, one) + "\n");
  return 0;
}

Result<int> dataset_prepare(const PrepareDatasetOptions& options, bool json) {
  if (options.tokenizer == "bytes") {
    return Error{Code::kValidation, "bytes need no shards", "--tokenizer",
                 "a job reads a text file as it is with data.tokenizer = \"bytes\""};
  }
  auto content = tokenizer::read_tokenizer_file(options.tokenizer);
  if (!content) return content.error();
  const auto loaded = tokenizer::parse_any_tokenizer(*content, options.tokenizer);
  if (!loaded) return loaded.error();
  corpus::PrepareOptions prepare;
  prepare.documents = {options.files, options.field, 0, options.skip_bad};
  prepare.output = options.output;
  prepare.end_of_text = options.end_of_text;
  prepare.threads = threads_of(options.threads);
  prepare.shard_bytes = static_cast<std::int64_t>(options.shard_bytes);
  const bool model = (*loaded)->kind() == "SentencePiece";
  ReadProgress progress(options.files);
  const auto done = corpus::prepare(
      prepare, {**loaded, model ? "tokenizer.model" : "tokenizer.json", std::move(*content)},
      [&](std::int64_t bytes) { progress.show(bytes); });
  progress.clear();
  if (!done) return done.error();
  if (json) {
    print(Json{{"folder", options.output},
               {"documents", done->documents},
               {"tokens", done->tokens},
               {"token_bytes", done->token_bytes},
               {"text_bytes", done->text_bytes},
               {"skipped", done->skipped.records},
               {"shards", done->shards.size()}}
              .dump(2) +
          "\n");
    return 0;
  }
  print(options.output + "\n");
  const double per_token = static_cast<double>(done->text_bytes) /
                           static_cast<double>(std::max<std::int64_t>(done->tokens, 1));
  say(human_count(static_cast<double>(done->tokens)) + " tokens of " + three_figures(per_token) +
      " bytes, from " + plural(done->documents, "document") + ", in " +
      plural(static_cast<std::int64_t>(done->shards.size()), "shard"));
  tell(done->skipped);
  return 0;
}

}  // namespace shoal::cli
