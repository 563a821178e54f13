#include "coordinator/service/files/resolve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/stored_tokens.h"
#include "job/chunk_order.h"
#include "job/data_rules.h"
#include "job/field_checker.h"
#include "job/references.h"

namespace shoal::coordinator {
namespace {

// A run of a mixture has several groups of each dataset, since it does not begin where they do.
constexpr std::int64_t kGroupsOfARun = 4;

Status resolve(JobSpec& spec, std::string& text, const char* field, const FileStore& files,
               const ObjectUser& who) {
  auto dataset = parse_dataset(text);
  auto known = dataset ? files.dataset(dataset->name) : std::nullopt;
  if (known && !files.may_read_dataset(who, known->manifest)) known.reset();
  const bool has_hash = dataset && !dataset->manifest.empty();
  if (!known && !has_hash) {
    return Error{Code::kValidation, "there is no dataset " + shoal::quoted(text), field,
                 "`shoal dataset ls` lists them, `shoal dataset add` makes one"};
  }
  if (!has_hash) dataset->manifest = known->manifest;
  const auto manifest = files.manifest(dataset->manifest);
  if (!manifest || !files.may_read_dataset(who, dataset->manifest)) {
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

bool is_upload(const NamedObject& object) {
  switch (object.kind) {
    case Reference::kDataset:
    case Reference::kCode:
      return true;
    case Reference::kText:
    case Reference::kHostPath:
    case Reference::kCheckpoint:  // the core's (core/object_access.h)
      return false;
  }
  return false;
}

// The hash of its bundle or its manifest; empty: nothing here has that name.
std::string file_of(const NamedObject& object, const FileStore& files) {
  if (object.kind == Reference::kCode) {
    return object.text.substr(std::min(object.text.size(), kCodePrefix.size()));
  }
  const auto dataset = parse_dataset(object.text);
  if (!dataset || !dataset->manifest.empty()) return dataset ? dataset->manifest : std::string();
  const auto known = files.dataset(dataset->name);
  return known ? known->manifest : std::string();
}

bool may_one_read(const NamedObject& object, const FileStore& files,
                  std::span<const ObjectUser> users) {
  const std::string file = file_of(object, files);
  return std::ranges::any_of(users, [&](const ObjectUser& user) {
    return object.kind == Reference::kCode ? files.may_read(user, file)
                                           : files.may_read_dataset(user, file);
  });
}

}  // namespace

Status resolve_datasets(JobSpec& spec, const FileStore& files, const ObjectUser& who) {
  if (!spec.data.dataset.empty()) {
    return resolve(spec, spec.data.dataset, "data.dataset", files, who);
  }
  for (MixturePart& part : spec.data.mixture) {
    if (Status s = resolve(spec, part.dataset, "data.mixture", files, who); !s.ok()) return s;
  }
  return check_tokenizers(spec, files);
}

std::vector<FieldError> refused_uploads(const JobSpec& spec, const FileStore& files,
                                        std::span<const ObjectUser> users) {
  std::vector<FieldError> refused;
  for (const NamedObject& object : objects_of(spec)) {
    if (!is_upload(object) || may_one_read(object, files, users)) continue;
    const bool is_code = object.kind == Reference::kCode;
    refused.push_back({object.pointer, object.text + (is_code ? " was not uploaded"
                                                              : " is not a dataset that is here")});
  }
  return refused;
}

std::string forbidden_uploads(const JobSpec& spec, const FileStore& files,
                              std::span<const ObjectUser> users) {
  std::string forbidden;
  for (const NamedObject& object : objects_of(spec)) {
    if (!is_upload(object) || may_one_read(object, files, users)) continue;
    const auto owners = files.owners(file_of(object, files));
    if (owners.empty()) continue;
    forbidden += (forbidden.empty() ? "" : ", ") +
                 std::string(object.kind == Reference::kCode ? "code " : "dataset ") + object.text +
                 " of " + owners.front();
  }
  return forbidden;
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
