#include "coordinator/service/files/resolve.h"

#include "data/stored_tokens.h"
#include "job/data_rules.h"
#include "job/field_checker.h"

namespace shoal::coordinator {
namespace {

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

}  // namespace

Status resolve_datasets(JobSpec& spec, const FileStore& files) {
  if (!spec.data.dataset.empty()) return resolve(spec, spec.data.dataset, "data.dataset", files);
  for (MixturePart& part : spec.data.mixture) {
    if (Status s = resolve(spec, part.dataset, "data.mixture", files); !s.ok()) return s;
  }
  return {};
}

}  // namespace shoal::coordinator
