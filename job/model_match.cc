#include "job/model_match.h"

#include <optional>
#include <type_traits>

#include "job/field_checker.h"

namespace shoal {
namespace {

constexpr std::size_t kNamedMax = 10;

template <typename T>
std::string word_of(const T& value) {
  if constexpr (std::is_same_v<T, std::optional<bool>>) {
    return value ? word_of(*value) : "unset";
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return quoted(value);
  } else if constexpr (std::is_enum_v<T>) {
    return quoted(to_string(value));
  } else {
    return shoal::text_of(value);
  }
}

struct Word {
  std::string field, value;
};

template <typename T>
void add_words(const std::string& prefix, const T& object, std::vector<Word>& words) {
  for_each_field(object, [&](const FieldInfo& info, const auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    const std::string name = prefix + "." + info.name;
    if constexpr (HasFields<Member>) {
      add_words(name, member, words);
    } else {
      words.push_back({name, word_of(member)});
    }
  });
}

std::vector<Word> texts_of(const ModelSpec& model) {
  std::vector<Word> words;
  add_words("model", model, words);
  return words;
}

}  // namespace

std::vector<ModelDifference> differences(const ModelSpec& wanted, const ModelSpec& weights) {
  ModelSpec same = wanted;
  same.init = weights.init;
  if (wanted.family == ModelFamily::kLlama && wanted.context <= weights.context) {
    same.context = weights.context;
  }
  if (wanted.tie_embeddings == false) same.tie_embeddings = weights.tie_embeddings;
  const std::vector<Word> a = texts_of(same), b = texts_of(weights);
  std::vector<ModelDifference> found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].value != b[i].value) found.push_back({a[i].field, a[i].value, b[i].value});
  }
  return found;
}

std::string text_of(const std::vector<ModelDifference>& differences) {
  std::string text;
  for (std::size_t i = 0; i < differences.size() && i < kNamedMax; ++i) {
    const auto& [field, wanted, weights] = differences[i];
    text +=
        (i == 0 ? "" : "; ") + field + " is " + wanted + " in the job and " + weights + " there";
  }
  if (differences.size() > kNamedMax) {
    text += "; and " + std::to_string(differences.size() - kNamedMax) + " more";
  }
  return text;
}

}  // namespace shoal
