#include "coordinator/service/files/resolve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/stored_tokens.h"
#include "job/chunk_order.h"
#include "job/data_rules.h"
#include "job/field_checker.h"

namespace shoal::coordinator {
namespace {

// A run of a mixture has several groups of each dataset, since it does not begin where they do.
constexpr std::int64_t kGroupsOfARun = 4;

Status resolve(JobSpec& spec, std::string& text, const char* field, const FileStore& files) {
  auto dataset = parse_dataset(text);
  const auto known = dataset ? files.dataset(dataset->name) : std::nullopt;
  const bool has_hash = dataset && !dataset->manifest.empty();
  if (!known && !has_hash) {
    return Error{Code::kValidation, "there is no dataset " + shoal::quoted(text), field,
                 "`shoal dataset ls` lists them, `shoal dataset add` makes one"};
  }
  if (!has_hash) dataset->manifest = known->manifest;
  const auto manifest = files.manifest(dataset->manifest);
  if (!manifest) {
    return Error{Code::kValidation,
                 "dataset " + dataset->name + " is not here any more as " + dataset->manifest,
                 field, "add it again, or leave the hash out to train on what it is now"};
  }
  text = to_string(*dataset);
  return data::check_dataset(spec, dataset->name, **manifest);
}

// What two tokenizers call a token is two things: a mixture has one at most.
Status check_tokenizers(const JobSpec& spec, const FileStore& files) {
  std::string first, tokenizer;
  for (const MixturePart& part : spec.data.mixture) {
    const auto dataset = parse_dataset(part.dataset);
    const auto manifest = files.manifest(dataset ? dataset->manifest : std::string());
    if (!manifest || (*manifest)->tokenizer.empty()) continue;
    if (!tokenizer.empty() && (*manifest)->tokenizer != tokenizer) {
      return Error{Code::kValidation,
                   "datasets " + first + " and " + dataset->name + " have different tokenizers",
                   "data.mixture", "mix datasets that one tokenizer made"};
    }
    first = dataset->name;
    tokenizer = (*manifest)->tokenizer;
  }
  return {};
}

}  // namespace

Status resolve_datasets(JobSpec& spec, const FileStore& files) {
  if (!spec.data.dataset.empty()) return resolve(spec, spec.data.dataset, "data.dataset", files);
  for (MixturePart& part : spec.data.mixture) {
    if (Status s = resolve(spec, part.dataset, "data.mixture", files); !s.ok()) return s;
  }
  return check_tokenizers(spec, files);
}

std::int64_t lease_unit_of(const JobSpec& spec, const FileStore& files) {
  const std::vector<MixturePart> mixture = datasets_of(spec.data);
  double sum = 0;
  for (const MixturePart& part : mixture) sum += part.weight;
  const std::int64_t groups = mixture.size() > 1 ? kGroupsOfARun : 1;
  std::int64_t unit = 0, windows = 0;
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    const auto dataset = parse_dataset(mixture[i].dataset);
    const auto manifest = files.manifest(dataset ? dataset->manifest : std::string());
    if (!manifest) return 0;
    const ChunkOrder order = data::order_of(spec, **manifest, static_cast<std::int64_t>(i));
    const double share = mixture[i].weight / sum;
    const auto of_all = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(order.group_size() * groups) / share));
    unit = std::max(unit, of_all);
    windows += order.windows();
  }
  if (unit == 0) return 0;
  // Orders are of whole inner steps.
  return lease_unit((unit + spec.train.batch - 1) / spec.train.batch * spec.train.batch, windows);
}

}  // namespace shoal::coordinator
