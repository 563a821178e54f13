// The sequences of a job that trains on datasets of the coordinator: which chunk each is in
// (job/chunk_order.h, job/mixture_order.h), and its tokens out of it. Chunks come from the agent,
// verified; those around what is read now are fetched ahead, and then those around what the caller
// has said that it will read after them. They are kept in memory, at most kMemoryMax.
//
// Errors begin with the dataset and name shard and place. Any thread may read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "base/units.h"
#include "data/manifest.h"
#include "job/chunk_order.h"
#include "job/job_spec.h"

namespace shoal::data {

// The text of a manifest (`shard` is kManifestText) or its tokenizer.json (kTokenizerText), or a
// chunk of a shard of it. Blocks; any thread.
inline constexpr std::int64_t kManifestText = -1, kTokenizerText = -2;
using ReadStored = std::function<Result<std::string>(const std::string& manifest,
                                                     std::int64_t shard, std::int64_t chunk)>;

// Whether a job can train on a dataset: its tokens are as data.tokenizer says and below
// model.vocab, its chunks hold windows of model.context, and there are some to train and some to
// validate on. kValidation, with the field.
Status check_dataset(const JobSpec& spec, const std::string& name, const Manifest& manifest);

// The order of one dataset of a job; `part`: its index in the mixture.
ChunkOrder order_of(const JobSpec& spec, const Manifest& manifest, std::int64_t part);

// The tokenizer.json that the job's datasets carry; empty: none does. Errors as of open().
Result<std::string> read_tokenizer(const JobSpec& spec, const ReadStored& read);

struct SequenceRun {
  std::int64_t first = 0, count = 0;  // of the job's order
};

class StoredTokens {
 public:
  static constexpr Bytes kMemoryMax = mebibytes(256);

  // For a job with data.dataset or data.mixture, whose datasets have the hashes of their manifests.
  static Result<std::unique_ptr<StoredTokens>> open(const JobSpec& spec, ReadStored read);
  ~StoredTokens();
  StoredTokens(const StoredTokens&) = delete;
  StoredTokens& operator=(const StoredTokens&) = delete;

  std::int64_t sequences() const;  // of one epoch of each dataset

  // The sequences that this process reads next, in place of what was said before. While it is in a
  // group of open chunks (job/chunk_order.h), the next group that these touch is fetched, too, so
  // that the line does not stand while the last windows of a group are trained on. Where the memory
  // does not hold two groups of each dataset, it is not.
  void will_read(std::vector<SequenceRun> runs) const;

  // Writes context + 1 tokens of sequence `index` >= 0 of the job's order.
  Status training_sequence(std::int64_t index, std::span<std::int64_t> out) const;

  // Sequences that are held out, the same ones every time, at most `wanted`; of a mixture each
  // dataset gives its share. `index` < `count` = validation_sequences(wanted).
  std::int64_t validation_sequences(std::int64_t wanted) const;
  Status validation_sequence(std::int64_t index, std::int64_t count,
                             std::span<std::int64_t> out) const;
  static constexpr std::int64_t kAllHeldOut = std::int64_t{1} << 40;  // as `wanted`

  Digest digest() const;  // of the manifests and the weights

 private:
  struct Parts;
  explicit StoredTokens(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace shoal::data
