// See special_tokens.h.
#include "trainer/compute/special_tokens.h"

#include <algorithm>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include "replica/checkpoint/safetensors.h"
#include "tokenizer/python_json.h"

namespace shoal::trainer {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kConfigBytesMax = 1 << 20, kTokenizerConfigBytesMax = 64 << 20;

class FolderTokens {
 public:
  FolderTokens(const ReadText& read, const std::string& folder, std::int64_t vocabulary)
      : read_(read), folder_(folder), vocabulary_(vocabulary) {}

  // What `tokens` lacks, of the ids in a configuration of the model.
  Status add_ids_of(const char* file) {
    const auto json = object_of(file, kConfigBytesMax);
    if (!json) return json.error();
    if (!tokens_.bos) tokens_.bos = first_of(ids_at(*json, "bos_token_id"));
    if (!tokens_.pad) tokens_.pad = first_of(ids_at(*json, "pad_token_id"));
    if (tokens_.eos.empty()) tokens_.eos = ids_at(*json, "eos_token_id");
    return {};
  }
  Status add_names() {
    const auto config = object_of("tokenizer_config.json", kTokenizerConfigBytesMax);
    if (!config) return config.error();
    const std::string bos = name_at(*config, "bos_token"), eos = name_at(*config, "eos_token"),
                      pad = name_at(*config, "pad_token");
    if (bos.empty() && eos.empty() && pad.empty()) return {};
    const auto tokenizer = object_of("tokenizer.json", tokenizer::kFileBytesMax);
    if (!tokenizer) return tokenizer.error();
    if (!tokens_.bos) tokens_.bos = id_of(*tokenizer, bos);
    if (!tokens_.pad) tokens_.pad = id_of(*tokenizer, pad);
    if (const auto id = id_of(*tokenizer, eos); id && tokens_.eos.empty()) tokens_.eos = {*id};
    return {};
  }
  const SpecialTokens& tokens() const { return tokens_; }

 private:
  // Empty where there is no such file.
  Result<Json> object_of(const char* file, std::uint64_t most) const {
    const auto text = read_(file, most);
    if (!text && text.error().code == Code::kNotFound) return Json::object();
    if (!text) return text.error();
    auto json = tokenizer::parse_python_json(*text);
    const std::string path = folder_ + "/" + file;
    if (!json) {
      return Error{json.error().code, path + " " + json.error().message, "", json.error().remedy};
    }
    if (json->is_object()) return json;
    return Error{Code::kInvalidArgument, path + " holds no object", "",
                 "take another copy of the file"};
  }
  std::optional<std::int64_t> checked(const Json& value) const {
    if (!value.is_number_integer()) return std::nullopt;
    if (value < 0 || value >= vocabulary_) return std::nullopt;
    return value.get<std::int64_t>();
  }
  // One id, or a list of them.
  std::vector<std::int64_t> ids_at(const Json& object, const char* key) const {
    const auto it = object.find(key);
    if (it == object.end()) return {};
    std::vector<std::int64_t> ids;
    for (const Json& value : it->is_array() ? *it : Json::array({*it})) {
      const auto id = checked(value);
      if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
    }
    return ids;
  }
  static std::optional<std::int64_t> first_of(const std::vector<std::int64_t>& ids) {
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  }
  // "eos_token": "</s>", or {"content": "</s>", …}.
  static std::string name_at(const Json& object, const char* key) {
    auto it = object.find(key);
    if (it == object.end()) return {};
    const Json* name = &*it;
    if (name->is_object() && name->contains("content")) name = &name->at("content");
    return name->is_string() ? name->get<std::string>() : std::string();
  }
  std::optional<std::int64_t> id_of(const Json& tokenizer, const std::string& name) const {
    if (name.empty()) return std::nullopt;
    const auto added = tokenizer.find("added_tokens");
    for (const Json& token : added != tokenizer.end() && added->is_array() ? *added : Json()) {
      if (token.is_object() && token.contains("id") && name_at(token, "content") == name)
        return checked(token.at("id"));
    }
    const Json::json_pointer vocabulary("/model/vocab");
    if (!tokenizer.contains(vocabulary)) return std::nullopt;
    const Json& words = tokenizer.at(vocabulary);
    if (!words.is_object() || !words.contains(name)) return std::nullopt;
    return checked(words.at(name));
  }

  const ReadText& read_;
  const std::string& folder_;
  const std::int64_t vocabulary_;
  SpecialTokens tokens_;
};

}  // namespace

Result<SpecialTokens> special_tokens_of(const ReadText& read, const std::string& folder,
                                        std::int64_t vocabulary) {
  FolderTokens found(read, folder, vocabulary);
  // generate() of the libraries goes by the first of them.
  for (const char* file : {"generation_config.json", "config.json"}) {
    if (Status s = found.add_ids_of(file); !s) return s.error();
  }
  if (found.tokens().eos.empty()) {
    if (Status s = found.add_names(); !s) return s.error();
  }
  return found.tokens();
}

Result<SpecialTokens> special_tokens_of(const std::filesystem::path& folder,
                                        std::int64_t vocabulary) {
  const auto read = [&](const std::string& name, std::uint64_t most) -> Result<std::string> {
    const std::filesystem::path path = folder / name;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) return replica::read_text(fd, path, most);
    return Error{Code::kNotFound, path.string() + " cannot be opened", "", ""};
  };
  return special_tokens_of(read, folder.string(), vocabulary);
}

void add_tokens_of(const tokenizer::TextTokenizer& tokenizer, SpecialTokens& tokens) {
  const auto& before = tokenizer.frame().before;
  if (!tokens.bos && before.size() == 1) tokens.bos = before.front();
  const auto end = tokenizer.end_of_text();
  if (!end || std::ranges::find(tokens.eos, *end) != tokens.eos.end()) return;
  tokens.eos.push_back(*end);
}

}  // namespace shoal::trainer
