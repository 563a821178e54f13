// See stored_weights.h.
#include "replica/checkpoint/stored_weights.h"

#include <algorithm>
#include <iterator>

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

Error damaged(const std::string& what) {
  return {Code::kDataLoss, what, "", "take another copy of the checkpoint"};
}

// The shape is of a tensor that was read.
std::size_t count_of(const TensorShape& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  return count;
}

}  // namespace

Status StoredWeights::add_weights(const PartReader& part) {
  const auto tensors = part.weights();
  if (!tensors) return tensors.error();
  std::optional<MappedValues> mapped;
  if (Status s = part.map_weights(*tensors, mapped); !s) return s;
  std::span<const float> values;
  if (mapped) {
    values = mapped_.emplace_back(std::move(*mapped)).values();
  } else {
    auto& read = read_.emplace_back();
    if (Status s = part.read_weights(*tensors, read); !s) return s;
    values = read;
  }
  for (const TensorShape& tensor : *tensors) {
    if (!names_.insert(tensor.name).second) {
      return damaged(tensor.name + " is also in the file of another stage");
    }
    const std::size_t count = count_of(tensor);
    tensors_.push_back({tensor.name, tensor.shape, values.first(count)});
    values = values.subspan(count);
  }
  return {};
}

// Stages that share a module have its buffers under one name: those of the first one count.
Status StoredWeights::add_buffers(const PartReader& part) {
  const auto file = part.buffers();
  if (!file) return file.error();
  if (!*file) return {};
  const auto shapes = (*file)->shapes();
  for (const std::string& name : (*file)->names()) {
    if (!names_.insert(name).second) continue;
    auto bytes = (*file)->read_bytes(name);
    if (!bytes) return bytes.error();
    const auto& kept = bytes_.emplace_back(std::move(*bytes));
    buffers_.push_back({name, shapes.at(name), {}, (*file)->type_of(name), kept});
  }
  return {};
}

Result<StoredWeights> StoredWeights::open(const fs::path& folder) {
  const auto first = read_part(folder, 0);
  if (!first) return first.error();
  const Checkpoint& whole = first->checkpoint;
  if (whole.cut.empty()) return damaged(folder.string() + ": it has no stages");
  StoredWeights stored;
  stored.spec_ = whole.spec;
  stored.of_program_ = first->is_of_program();
  for (StageIndex stage = 0; stage < std::ssize(whole.cut); ++stage) {
    const auto head = read_part(folder, stage);
    if (!head) return head.error();
    const PartReader part(folder, stage, *head, whole.key);
    if (Status s = stored.add_weights(part); !s) return s.error();
    if (Status s = stored.add_buffers(part); !s) return s.error();
  }
  std::ranges::move(stored.buffers_, std::back_inserter(stored.tensors_));
  return stored;
}

}  // namespace shoal::replica
