// See generate.h.
#include "trainer/generate.h"

#include <charconv>
#include <iostream>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "replica/runtime/sampling.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

using Tokens64 = std::vector<std::int64_t>;

Error bad_prompt(const std::string& what, const std::string& remedy) {
  return {Code::kValidation, what, "--prompt", remedy};
}

Result<Tokens64> tokens_of(const std::string& prompt, const JobSpec& spec) {
  Tokens64 tokens;
  if (spec.data.tokenizer == Tokenizer::kBytes) {
    for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
    if (tokens.empty()) tokens.push_back('\n');
  } else {
    std::istringstream words(prompt);
    for (std::string word; words >> word;) {
      std::int64_t token = -1;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
      if (error != std::errc() || end != word.data() + word.size()) {
        return bad_prompt("\"" + word + "\" is no token number",
                          "this model reads numbers of tokens: give them separated by spaces");
      }
      tokens.push_back(token);
    }
    if (tokens.empty()) tokens.push_back(0);
  }
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= spec.model.vocab) {
      return bad_prompt("token " + std::to_string(token) + " is outside of the vocabulary of " +
                            std::to_string(spec.model.vocab),
                        "");
    }
  }
  return tokens;
}

std::string text_of(std::int64_t token, Tokenizer tokenizer) {
  if (tokenizer == Tokenizer::kBytes) return std::string(1, static_cast<char>(token));
  return std::to_string(token) + " ";
}

int complain(const std::string& text) {
  std::cerr << "shoal-trainer: " << text << std::endl;
  return 1;
}

void print_json(const GenerateOptions& options, const Checkpoint& checkpoint,
                const std::string& text) {
  nlohmann::ordered_json json = {
      {"prompt", options.prompt},       {"text", text},
      {"tokens", options.tokens},       {"temperature", options.temperature},
      {"top_k", options.top_k},         {"seed", options.seed},
      {"job", checkpoint.spec.name},    {"round", checkpoint.key.round},
      {"step", checkpoint.step.count()}};
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace

int generate(const GenerateOptions& options) {
  const DeviceChoice device{DeviceKind::kCpu, 0, options.threads};
  if (const Status prepared = prepare_device(device); !prepared)
    return complain(to_string(prepared.error()));
  auto checkpoint = read_checkpoint(options.checkpoint, std::nullopt, false);
  if (!checkpoint) return complain(to_string(checkpoint.error()));
  JobSpec spec = checkpoint->spec;
  spec.train.precision = Precision::kFp32;  // the CPU's
  auto tokens = tokens_of(options.prompt, spec);
  if (!tokens) return complain(to_string(tokens.error()));
  std::unique_ptr<StageModel> model;
  if (const auto failure = StageModel::create(spec, whole_model(spec.model), device, model)) {
    return complain(failure->detail);
  }
  model->write_parameters(checkpoint->anchor);
  Learner learner(*model, nullptr);

  Prng prng(options.seed);
  std::string text;
  std::vector<float> logits;
  if (!options.json) std::cout << options.prompt << std::flush;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto seen = std::min(tokens->size(), static_cast<std::size_t>(spec.model.context));
    if (const auto failure = learner.next_logits(std::span(*tokens).last(seen), logits)) {
      return complain(failure->detail);
    }
    tokens->push_back(replica::sample_token(logits, options.temperature, options.top_k, prng));
    const std::string piece = text_of(tokens->back(), spec.data.tokenizer);
    text += piece;
    if (!options.json) std::cout << piece << std::flush;
  }
  if (options.json) {
    print_json(options, *checkpoint, text);
  } else {
    std::cout << std::endl;
  }
  return std::cout.good() ? 0 : complain("stdout cannot be written");
}

}  // namespace shoal::trainer
