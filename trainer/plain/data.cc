// See data.h. Files up to kScanTokens are checked as a whole when they are opened, so that a wrong
// vocabulary is refused at the door; longer ones are checked sequence by sequence as they are read.
#include "trainer/plain/data.h"

#include <algorithm>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/prng.h"
#include "job/data_rules.h"

namespace shoal::trainer {
namespace {

constexpr std::int64_t kScanTokens = std::int64_t{1} << 28;
constexpr std::uint64_t kPhaseSalt = 0x7068617365ULL;  // "phase": separates it from the permutation

Error missing(const std::string& path, const std::string& what, const std::string& remedy) {
  return {Code::kNotFound, path + " " + what, "data.train", remedy};
}

std::int64_t changed_ns(const struct stat& info) {
  return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

void FileDataset::unmap(const File& file) {
  ::munmap(const_cast<std::byte*>(file.bytes.data()), file.bytes.size());
  ::close(file.fd);
}

// The whole file, read-only.
Result<FileDataset::File> FileDataset::map_file(const std::string& path,
                                                const data::DataRoots& roots) {
  const auto opened = roots.open(path);
  if (!opened) return opened.error();
  const int fd = *opened;
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<std::size_t>(info.st_size) : 0;
  void* address = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (address != MAP_FAILED)
    return File{fd, std::span(static_cast<const std::byte*>(address), size)};
  ::close(fd);
  if (!regular) return missing(path, "is not a regular file", "name one file of text or tokens");
  if (size == 0) return missing(path, "is empty", "name a file with text or tokens");
  return missing(path, "cannot be mapped into memory", "");
}

Digest digest_of_content(std::span<const std::byte> bytes, std::size_t whole) {
  Digester digester;
  digester.add(bytes.size());
  const bool short_enough = bytes.size() <= std::max(whole, kSampleBytes);
  if (short_enough) return digester.add(bytes).finish();
  const std::size_t room = bytes.size() - kSampleBytes;  // where the last block begins
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t first =
        room / (kSamples - 1) * i + room % (kSamples - 1) * i / (kSamples - 1);
    digester.add(bytes.subspan(first, kSampleBytes));
  }
  return digester.finish();
}

SequenceOrder::SequenceOrder(std::int64_t tokens, std::int64_t context, std::uint64_t seed)
    : context_(context), windows_(tokens / context - 1), seed_(seed) {
  SHOAL_CHECK(windows_ > 0, "too few tokens");
}

std::int64_t SequenceOrder::start_of(std::int64_t index) const {
  SHOAL_CHECK(index >= 0);
  const auto epoch = static_cast<std::uint64_t>(index / windows_);
  const auto position = static_cast<std::uint64_t>(index % windows_);
  const std::uint64_t epoch_seed = mix_seed(seed_, epoch);
  const Permutation permutation(static_cast<std::uint64_t>(windows_), epoch_seed);
  Prng phase(mix_seed(epoch_seed, kPhaseSalt));
  return static_cast<std::int64_t>(phase.below(static_cast<std::uint64_t>(context_)) +
                                   permutation(position) * static_cast<std::uint64_t>(context_));
}

namespace {

class StoredDataset final : public Dataset {
 public:
  explicit StoredDataset(std::unique_ptr<data::StoredTokens> tokens) : tokens_(std::move(tokens)) {}
  Digest digest() const override { return tokens_->digest(); }
  void will_read(const std::vector<data::SequenceRun>& runs) const override {
    tokens_->will_read(runs);
  }
  Status training_sequence(std::int64_t index, std::span<std::int64_t> out) const override {
    return tokens_->training_sequence(index, out);
  }
  std::int64_t validation_sequences(std::int64_t wanted) const override {
    return tokens_->validation_sequences(wanted);
  }
  Status validation_sequence(std::int64_t index, std::int64_t count,
                             std::span<std::int64_t> out) const override {
    return tokens_->validation_sequence(index, count, out);
  }

 private:
  std::unique_ptr<data::StoredTokens> tokens_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> Dataset::open(const JobSpec& spec, const data::DataRoots& roots,
                                               const data::ReadStored& read) {
  if (datasets_of(spec.data).empty()) {
    auto file = FileDataset::open(spec, roots);
    if (!file) return file.error();
    return std::unique_ptr<Dataset>(std::move(file).value());
  }
  if (!read) {
    return Error{Code::kNotFound, "no agent gives this program datasets", "data.dataset",
                 "give this program a file with data.train"};
  }
  auto tokens = data::StoredTokens::open(spec, read);
  if (!tokens) return tokens.error();
  return std::unique_ptr<Dataset>(std::make_unique<StoredDataset>(std::move(tokens).value()));
}

Result<std::unique_ptr<FileDataset>> FileDataset::open(const JobSpec& spec,
                                                       const data::DataRoots& roots) {
  const std::string& path = spec.data.train;
  auto file = map_file(path, roots);
  if (!file) return file.error();
  const auto file_bytes = static_cast<std::int64_t>(file->bytes.size());
  const DataNeeds needs = data_needs(spec);
  if (Status s = check_data_size(needs, file_bytes, path); !s) {
    unmap(*file);
    return s.error();
  }
  const auto [tokens, held_out] = split_of(needs, file_bytes);
  auto dataset =
      std::unique_ptr<FileDataset>(new FileDataset(spec, *file, tokens, tokens - held_out));
  if (Status s = dataset->check_tokens(0, std::min(tokens, kScanTokens)); !s) return s.error();
  return dataset;
}

FileDataset::FileDataset(const JobSpec& spec, const File& file, std::int64_t tokens,
                         std::int64_t training_tokens)
    : path_(spec.data.train),
      tokenizer_(spec.data.tokenizer),
      context_(spec.model.context),
      vocab_(spec.model.vocab),
      file_(file),
      tokens_(tokens),
      training_tokens_(training_tokens),
      order_(training_tokens, spec.model.context, spec.train.seed),
      digest_(digest_of_content(file.bytes)) {
  struct stat info {};
  changed_ns_ = ::fstat(file_.fd, &info) == 0 ? changed_ns(info) : 0;
}

FileDataset::~FileDataset() { unmap(file_); }

// Reading a page beyond the end of a truncated file would end the process, and changed pages would
// be trained on unnoticed. A file may still be truncated between this check and the read; then the
// process ends.
Status FileDataset::check_unchanged() const {
  struct stat info {};
  if (::fstat(file_.fd, &info) != 0) return missing(path_, "is not accessible any more", "");
  const auto size = static_cast<std::int64_t>(file_.bytes.size());
  if (info.st_size < size) {
    return missing(path_,
                   "was cut to " + std::to_string(info.st_size) + " of " + std::to_string(size) +
                       " bytes while it was trained on",
                   "put the whole file back");
  }
  if (changed_ns(info) == changed_ns_.load()) return {};
  if (digest_of_content(file_.bytes) != digest_) {
    return Error{Code::kValidation, path_ + " was changed while it was trained on", "data.train",
                 "put the file back as it was"};
  }
  changed_ns_ = changed_ns(info);
  return {};
}

Status FileDataset::training_sequence(std::int64_t index, std::span<std::int64_t> out) const {
  SHOAL_CHECK(static_cast<std::int64_t>(out.size()) == context_ + 1);
  return copy_tokens(order_.start_of(index), out);
}

std::int64_t FileDataset::validation_sequences(std::int64_t wanted) const {
  return std::min(wanted, (validation_tokens() - 1) / context_);
}

Status FileDataset::validation_sequence(std::int64_t index, std::int64_t count,
                                        std::span<std::int64_t> out) const {
  SHOAL_CHECK(index >= 0 && index < count && count <= validation_sequences(count));
  SHOAL_CHECK(static_cast<std::int64_t>(out.size()) == context_ + 1);
  const std::int64_t windows = validation_sequences(tokens_);
  return copy_tokens(training_tokens_ + index * windows / count * context_, out);
}

Status FileDataset::copy_tokens(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  SHOAL_CHECK(first >= 0 && first + count <= tokens_);
  if (Status s = check_unchanged(); !s) return s;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file_.bytes.data());
  if (tokenizer_ == Tokenizer::kBytes) {
    std::copy(bytes + first, bytes + first + count, out.begin());
  } else {
    const auto from = static_cast<std::size_t>(first);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = token_at(file_.bytes, tokenizer_, from + i);
    }
  }
  if (*std::max_element(out.begin(), out.end()) >= vocab_) return check_tokens(first, count);
  return {};
}

Status FileDataset::check_tokens(std::int64_t first, std::int64_t count) const {
  const std::int64_t width = bytes_per_token(tokenizer_);
  const auto bytes = file_.bytes.subspan(static_cast<std::size_t>(first * width),
                                         static_cast<std::size_t>(count * width));
  return check_data_tokens({.tokenizer = tokenizer_, .vocab = vocab_}, bytes, first, path_);
}

}  // namespace shoal::trainer
