// What a job trains on: a file of each host, or datasets of the coordinator. Sequence i of a job's
// order is a function of the seed, i and the data's shape, so leases of index ranges mean the same
// on every host. Datasets: data/stored_tokens.h.
//
// A file is one memory-mapped file of tokens (bytes, or little-endian uint16 or uint32), its last
// val_fraction held out, and a seeded order in which training reads the rest.
//
// Order: epoch e = i / windows. The training part is cut into windows of `context` tokens that
// start at a phase drawn per epoch; a permutation drawn per epoch says which one is read when. Each
// window is read exactly once per epoch. A sequence has context + 1 tokens: inputs and, shifted by
// one, targets.
//
// digest() says whether two hosts read the same file. It is of the size and of the whole content up
// to kWholeBytes; of a longer file it is of kSamples blocks of kSampleBytes, evenly spaced, the
// first and the last bytes among them: opening must not read a terabyte. So another file, another
// tokenizer's, a longer or a cut one is always noticed, a changed byte in a long file only by
// chance.
//
// The file must stay as it is while it is read: one that becomes shorter, or whose content is
// another, is an error of the next sequence. Any thread may read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "data/data_roots.h"
#include "data/stored_tokens.h"
#include "job/job_spec.h"

namespace shoal::trainer {

// The order of the training windows, without the data.
class SequenceOrder {
 public:
  // tokens >= 2 * context: one window fits at every phase.
  SequenceOrder(std::int64_t tokens, std::int64_t context, std::uint64_t seed);
  std::int64_t windows() const { return windows_; }  // per epoch
  std::int64_t start_of(std::int64_t index) const;   // first token of sequence `index` >= 0

 private:
  std::int64_t context_, windows_;
  std::uint64_t seed_;
};

inline constexpr std::size_t kWholeBytes = std::size_t{1} << 30;
inline constexpr std::size_t kSamples = 4096, kSampleBytes = std::size_t{1} << 16;

// The digest of the content of a file; of all of it up to `whole` bytes, see above.
Digest digest_of_content(std::span<const std::byte> bytes, std::size_t whole = kWholeBytes);

class Dataset {
 public:
  // The file of data.train, beneath `roots`: kNotFound when it lies beneath no root, is missing or
  // too short for one window of training and one of validation, kValidation (position and value in
  // the message) at a token >= vocab. Or the datasets of data.dataset and data.mixture, out of what
  // `read` gives (data/stored_tokens.h).
  static Result<std::unique_ptr<Dataset>> open(const JobSpec& spec, const data::DataRoots& roots,
                                               const data::ReadStored& read = {});
  virtual ~Dataset() = default;

  virtual Digest digest() const = 0;

  // The sequences that are read next: what comes over a line is fetched before it is asked for.
  virtual void will_read(const std::vector<data::SequenceRun>& runs) const { (void)runs; }

  // Writes context + 1 tokens of sequence `index` of the order. kValidation at a token >= vocab; of
  // a file kNotFound where it was cut short, kValidation where it was changed since open().
  virtual Status training_sequence(std::int64_t index, std::span<std::int64_t> out) const = 0;

  // The held-out sequences: evenly spaced, the same ones every time, at most `wanted`, fewer when
  // there are no more. `index` < `count` = validation_sequences(wanted).
  virtual std::int64_t validation_sequences(std::int64_t wanted) const = 0;
  virtual Status validation_sequence(std::int64_t index, std::int64_t count,
                                     std::span<std::int64_t> out) const = 0;
};

// The one of data.train.
class FileDataset final : public Dataset {
 public:
  static Result<std::unique_ptr<FileDataset>> open(const JobSpec& spec,
                                                   const data::DataRoots& roots);
  ~FileDataset() override;
  FileDataset(const FileDataset&) = delete;
  FileDataset& operator=(const FileDataset&) = delete;

  std::int64_t training_tokens() const { return training_tokens_; }
  std::int64_t validation_tokens() const { return tokens_ - training_tokens_; }

  Digest digest() const override { return digest_; }
  Status training_sequence(std::int64_t index, std::span<std::int64_t> out) const override;
  std::int64_t validation_sequences(std::int64_t wanted) const override;
  Status validation_sequence(std::int64_t index, std::int64_t count,
                             std::span<std::int64_t> out) const override;

 private:
  struct File {
    int fd = -1;
    std::span<const std::byte> bytes;  // the mapping of all of it
  };
  static Result<File> map_file(const std::string& path, const data::DataRoots& roots);
  static void unmap(const File& file);
  FileDataset(const JobSpec& spec, const File& file, std::int64_t tokens,
              std::int64_t training_tokens);
  Status check_unchanged() const;
  Status copy_tokens(std::int64_t first, std::span<std::int64_t> out) const;
  Status check_tokens(std::int64_t first, std::int64_t count) const;

  std::string path_;
  Tokenizer tokenizer_;
  std::int64_t context_, vocab_;
  File file_;
  std::int64_t tokens_, training_tokens_;
  SequenceOrder order_;
  Digest digest_;
  mutable std::atomic<std::int64_t> changed_ns_;  // when the content was last as digest_ says
};

}  // namespace shoal::trainer
