#include "bench/convergence/stored_order.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "data/manifest.h"
#include "data/stored_tokens.h"
#include "threads/file_content.h"

namespace shoal::bench {
namespace {

using trainer::Dataset;
using trainer::FileDataset;

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  return std::move(result).value();
}

// Trains on one order of the text and is evaluated as the other.
class TwoOrders final : public Dataset {
 public:
  TwoOrders(std::unique_ptr<Dataset> trained, std::unique_ptr<Dataset> held_out)
      : trained_(std::move(trained)), held_out_(std::move(held_out)) {}
  Digest digest() const override { return trained_->digest(); }
  Status training_sequence(std::int64_t index, std::span<std::int64_t> out) const override {
    return trained_->training_sequence(index, out);
  }
  std::int64_t validation_sequences(std::int64_t wanted) const override {
    return held_out_->validation_sequences(wanted);
  }
  Status validation_sequence(std::int64_t index, std::int64_t count,
                             std::span<std::int64_t> out) const override {
    return held_out_->validation_sequence(index, count, out);
  }

 private:
  std::unique_ptr<Dataset> trained_, held_out_;
};

data::Manifest manifest_of(const std::string& text) {
  const std::string no_hash(64, '0');  // nobody fetches it
  const auto size = static_cast<std::int64_t>(text.size());
  data::Manifest manifest{Tokenizer::kBytes, data::chunk_bytes_for(size), {}};
  manifest.shards.push_back({"text", size, no_hash, no_hash, "", 255, 0});
  return manifest;
}

data::ReadStored reader_of(std::string text) {
  const data::Manifest manifest = manifest_of(text);
  return [=, text = std::move(text)](const std::string&, std::int64_t shard, std::int64_t chunk) {
    if (shard == data::kManifestText) return Result<std::string>(data::to_text(manifest));
    return Result<std::string>(text.substr(static_cast<std::size_t>(chunk * manifest.chunk_bytes),
                                           static_cast<std::size_t>(manifest.chunk_bytes)));
  };
}

}  // namespace

StoredOrder open_in_stored_order(const JobSpec& spec) {
  auto file = must(FileDataset::open(spec, data::DataRoots::whole_host()));
  std::string text = file_content(spec.data.train).value_or("");
  text.resize(static_cast<std::size_t>(file->training_tokens()));
  JobSpec stored = spec;
  stored.data.train.clear();
  stored.data.dataset = "text@" + std::string(64, '0');
  stored.data.val_fraction = 1e-9;  // one chunk
  const std::int64_t group = data::order_of(stored, manifest_of(text), 0).group_size();
  auto trained = must(Dataset::open(stored, {}, reader_of(std::move(text))));
  return {std::make_shared<TwoOrders>(std::move(trained), std::move(file)), group};
}

std::int64_t sequence_of(const StoredOrder& order, std::int64_t worker, std::int64_t workers,
                         std::int64_t n) {
  return (n / order.group * workers + worker) * order.group + n % order.group;
}

}  // namespace shoal::bench
