// See generate.h.
#include "trainer/generate.h"

#include <charconv>
#include <iostream>
#include <optional>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "replica/runtime/sampling.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/compute/job_tokenizer.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

using Tokens64 = std::vector<std::int64_t>;

Error bad_prompt(const std::string& what, const std::string& remedy) {
  return {Code::kValidation, what, "--prompt", remedy};
}

using Text = std::unique_ptr<tokenizer::TextTokenizer>;  // null: there is none

// An empty prompt begins where a document does.
Result<Tokens64> encoded(const std::string& prompt, const tokenizer::TextTokenizer& text) {
  std::vector<tokenizer::TokenId> tokens = text.frame().before;
  const Status done = text.encoder()->encode(prompt, tokens);
  if (!done) return bad_prompt(done.error().message, done.error().remedy);
  if (tokens.empty()) tokens.push_back(text.end_of_text().value_or(0));
  return Tokens64(tokens.begin(), tokens.end());
}

Result<Tokens64> numbers(const std::string& prompt) {
  Tokens64 tokens;
  std::istringstream words(prompt);
  for (std::string word; words >> word;) {
    std::int64_t token = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || end != word.data() + word.size()) {
      return bad_prompt(
          "\"" + word + "\" is no token number",
          "this checkpoint has no tokenizer: give numbers separated by spaces, or put "
          "its tokenizer.json into its folder");
    }
    tokens.push_back(token);
  }
  if (tokens.empty()) tokens.push_back(0);
  return tokens;
}

Result<Tokens64> tokens_of(const std::string& prompt, const JobSpec& spec, const Text& text) {
  auto tokens = text ? encoded(prompt, *text) : numbers(prompt);
  if (!tokens) return tokens;
  for (const std::int64_t token : *tokens) {
    if (token < 0 || token >= spec.model.vocab) {
      return bad_prompt("token " + std::to_string(token) + " is outside of the vocabulary of " +
                            std::to_string(spec.model.vocab),
                        "");
    }
  }
  return tokens;
}

// What the tokens say, as they come.
class Teller {
 public:
  Teller(const Text& text, bool live) : live_(live) {
    if (text) stream_.emplace(*text);
    if (text) end_ = text->end_of_text();
  }
  // False: the text has ended.
  bool tell(std::int64_t token) {
    if (end_ && token == static_cast<std::int64_t>(*end_)) return false;
    say(stream_ ? stream_->add(static_cast<tokenizer::TokenId>(token))
                : std::to_string(token) + " ");
    return true;
  }
  std::string finish() {
    if (stream_) say(stream_->finish());
    return std::move(said_);
  }

 private:
  void say(const std::string& piece) {
    said_ += piece;
    if (live_) std::cout << piece << std::flush;
  }

  bool live_;
  std::optional<tokenizer::StreamDecoder> stream_;
  std::optional<tokenizer::TokenId> end_;
  std::string said_;
};

int complain(const std::string& text) {
  std::cerr << "shoal-trainer: " << text << std::endl;
  return 1;
}

void print_json(const GenerateOptions& options, const StoredModel& checkpoint,
                const std::string& text) {
  nlohmann::ordered_json json = {
      {"prompt", options.prompt},         {"text", text},
      {"tokens", options.tokens},         {"temperature", options.temperature},
      {"top_k", options.top_k},           {"seed", options.seed},
      {"job", checkpoint.spec().name},    {"round", checkpoint.key().round},
      {"step", checkpoint.step().count()}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace

int generate(const GenerateOptions& options) {
  const DeviceChoice device{DeviceKind::kCpu, 0, options.threads};
  if (const Status prepared = prepare_device(device); !prepared)
    return complain(to_string(prepared.error()));
  auto checkpoint = StoredModel::open(options.checkpoint);
  if (!checkpoint) return complain(to_string(checkpoint.error()));
  JobSpec spec = checkpoint->spec();
  spec.train.precision = Precision::kFp32;  // the CPU's
  auto text = checkpoint_tokenizer(options.checkpoint, spec);
  if (!text) return complain(to_string(text.error()));
  if (!*text && spec.data.tokenizer == Tokenizer::kBytes) *text = tokenizer::byte_tokenizer();
  auto tokens = tokens_of(options.prompt, spec, *text);
  if (!tokens) return complain(to_string(tokens.error()));
  std::unique_ptr<StageModel> model;
  if (const auto failure = StageModel::create_frozen(spec, device, checkpoint->values(), model)) {
    return complain(failure->detail);
  }
  Learner learner(*model, nullptr);

  Prng prng(options.seed);
  std::vector<float> logits;
  if (!options.json) std::cout << options.prompt << std::flush;
  Teller teller(*text, !options.json);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto seen = std::min(tokens->size(), static_cast<std::size_t>(spec.model.context));
    if (const auto failure = learner.next_logits(std::span(*tokens).last(seen), logits)) {
      return complain(failure->detail);
    }
    tokens->push_back(replica::sample_token(logits, options.temperature, options.top_k, prng));
    if (!teller.tell(tokens->back())) break;
  }
  const std::string said = teller.finish();
  if (options.json) {
    print_json(options, *checkpoint, said);
  } else {
    std::cout << std::endl;
  }
  return std::cout.good() ? 0 : complain("stdout cannot be written");
}

}  // namespace shoal::trainer
