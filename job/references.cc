#include "job/references.h"

#include "job/data_rules.h"

namespace shoal {
namespace {

using Values = std::vector<std::string>;

Values if_set(const std::string& text) { return text.empty() ? Values() : Values{text}; }

Values checkpoint_of_init(const JobSpec& spec) {
  return checkpoint_of_weights(spec.model.init) ? Values{spec.model.init} : Values();
}

Values datasets_of_mixture(const JobSpec& spec) {
  Values values;
  for (const MixturePart& part : spec.data.mixture) values.push_back(part.dataset);
  return values;
}

constexpr ReferenceRule kRules[] = {
    {"/name", Reference::kText},
    {"/description", Reference::kText},
    {"/model/init", Reference::kCheckpoint, checkpoint_of_init},
    {"/data/train", Reference::kHostPath},
    {"/data/tokenizer_file", Reference::kHostPath},
    {"/data/dataset", Reference::kDataset,
     [](const JobSpec& spec) { return if_set(spec.data.dataset); }},
    {"/data/mixture/*/dataset", Reference::kDataset, datasets_of_mixture},
    {"/train/continue_from", Reference::kCheckpoint,
     [](const JobSpec& spec) { return if_set(spec.train.continue_from); }},
    {"/trainer/entry", Reference::kHostPath},  // or a path within the code
    {"/trainer/code", Reference::kCode,
     [](const JobSpec& spec) { return if_set(spec.trainer.code); }},
};

}  // namespace

std::span<const ReferenceRule> reference_rules() { return kRules; }

std::vector<NamedObject> objects_of(const JobSpec& spec) {
  std::vector<NamedObject> objects;
  for (const ReferenceRule& rule : kRules) {
    if (rule.values == nullptr) continue;
    const std::string pointer(rule.pointer.substr(0, rule.pointer.find("/*")));
    for (std::string& text : rule.values(spec)) {
      objects.push_back({pointer, rule.kind, std::move(text)});
    }
  }
  return objects;
}

}  // namespace shoal
