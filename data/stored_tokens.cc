#include "data/stored_tokens.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "data/chunk_memory.h"
#include "job/data_rules.h"
#include "job/mixture_order.h"
#include "threads/mutex.h"

namespace shoal::data {
namespace {

constexpr std::int64_t kChunksMax = std::int64_t{1} << 24;  // of one dataset
// Sequences that are looked through for the next group: as many as one has of 32-bit tokens with a
// context of 64.
constexpr std::int64_t kLookMost = std::int64_t{1} << 16;

const char* field_of(const JobSpec& spec) {
  return spec.data.mixture.empty() ? "data.dataset" : "data.mixture";
}

Error invalid(const JobSpec& spec, const std::string& name, const std::string& what,
              const std::string& remedy) {
  return {Code::kValidation, "dataset " + name + ": " + what, field_of(spec), remedy};
}

Error named(const std::string& name, Error error) {
  error.message = "dataset " + name + ", " + error.message;
  return error;
}

std::int64_t chunks_in(const Manifest& manifest) {
  std::int64_t chunks = 0;
  for (const Shard& shard : manifest.shards) chunks += chunk_count(shard, manifest.chunk_bytes);
  return chunks;
}

}  // namespace

ChunkOrder order_of(const JobSpec& spec, const Manifest& manifest, std::int64_t part) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(static_cast<std::size_t>(chunks_in(manifest)));
  const std::int64_t width = bytes_per_token(manifest.tokens);
  for (const Shard& shard : manifest.shards) {
    const std::int64_t count = chunk_count(shard, manifest.chunk_bytes);
    for (std::int64_t chunk = 0; chunk < count; ++chunk) {
      tokens.push_back(bytes_of_chunk(shard, manifest.chunk_bytes, chunk) / width);
    }
  }
  const std::uint64_t seed =
      part == 0 ? spec.train.seed : mix_seed(spec.train.seed, static_cast<std::uint64_t>(part));
  return {std::move(tokens), spec.model.context, seed, spec.data.val_fraction, spec.train.batch};
}

Status check_dataset(const JobSpec& spec, const std::string& name, const Manifest& manifest) {
  if (manifest.tokens != spec.data.tokenizer) {
    const std::string kind = to_string(manifest.tokens);
    return invalid(
        spec, name,
        "its tokens are " + kind + ", data.tokenizer is '" + to_string(spec.data.tokenizer) + "'",
        "set data.tokenizer = '" + kind + "'");
  }
  for (const Shard& shard : manifest.shards) {
    if (shard.max_token < spec.model.vocab) continue;
    return invalid(spec, name,
                   "shard " + shard.name + ": the token at position " +
                       std::to_string(shard.max_at) + " is " + std::to_string(shard.max_token) +
                       ", not below model.vocab (" + std::to_string(spec.model.vocab) + ")",
                   "raise model.vocab or use the tokenizer that the dataset was made with");
  }
  if (chunks_in(manifest) > kChunksMax) {
    return invalid(spec, name, "has more than " + std::to_string(kChunksMax) + " chunks",
                   "make several datasets of it, and a mixture of those");
  }
  const std::int64_t of_chunk = manifest.chunk_bytes / bytes_per_token(manifest.tokens);
  if (of_chunk <= spec.model.context) {
    return invalid(
        spec, name,
        "its chunks of " + std::to_string(of_chunk) + " tokens hold no window of model.context + 1",
        "use a shorter model.context, or a larger dataset, whose chunks are larger");
  }
  if (order_of(spec, manifest, 0).is_enough()) return {};
  return invalid(spec, name, "is too short to train and to validate on",
                 "use a larger dataset, a shorter model.context or another data.val_fraction");
}

namespace {

struct NamedManifest {
  DatasetRef dataset;
  Manifest manifest;
};

Result<NamedManifest> read_manifest(const JobSpec& spec, const std::string& dataset_text,
                                    const ReadStored& read) {
  auto dataset = parse_dataset(dataset_text);
  if (!dataset || dataset->manifest.empty()) {
    return Error{Code::kValidation, "dataset " + dataset_text + " has no hash", field_of(spec),
                 "submit the job to a coordinator that knows the dataset"};
  }
  const auto text = read(dataset->manifest, kManifestText, 0);
  if (!text) return named(dataset->name, text.error());
  auto manifest = parse_manifest(*text);
  if (!manifest) return named(dataset->name, manifest.error());
  return NamedManifest{std::move(*dataset), std::move(*manifest)};
}

}  // namespace

Result<std::string> read_tokenizer(const JobSpec& spec, const ReadStored& read) {
  for (const MixturePart& part : datasets_of(spec.data)) {
    const auto found = read_manifest(spec, part.dataset, read);
    if (!found) return found.error();
    if (found->manifest.tokenizer.empty()) continue;
    auto content = read(found->dataset.manifest, kTokenizerText, 0);
    if (!content) return named(found->dataset.name, content.error());
    return content;
  }
  return std::string();
}

struct StoredTokens::Parts {
  struct Dataset {
    std::string name, manifest_hash;
    Manifest manifest;
    std::vector<std::int64_t> first_chunk;  // of each shard, by numbers of the dataset
    std::int64_t first_number = 0;          // of its chunks in `memory`
  };
  struct Place {
    const Shard& shard;
    std::int64_t shard_number = 0, chunk = 0;
  };

  Parts(const JobSpec& spec, ReadStored read_stored, MixtureOrder order)
      : vocab(spec.model.vocab), mixture(std::move(order)), read(std::move(read_stored)) {}

  static Place place_of(const Dataset& dataset, std::int64_t chunk) {
    const auto after = std::ranges::upper_bound(dataset.first_chunk, chunk);
    const auto shard = static_cast<std::size_t>(after - dataset.first_chunk.begin()) - 1;
    return {dataset.manifest.shards[shard], static_cast<std::int64_t>(shard),
            chunk - dataset.first_chunk[shard]};
  }

  Result<std::string> load(std::int64_t number) const {
    const auto after = std::ranges::upper_bound(datasets, number, {}, &Dataset::first_number);
    const Dataset& dataset = *(after - 1);
    const Place place = place_of(dataset, number - dataset.first_number);
    auto content = read(dataset.manifest_hash, place.shard_number, place.chunk);
    if (!content) return named(dataset.name, content.error());
    const std::int64_t wanted =
        bytes_of_chunk(place.shard, dataset.manifest.chunk_bytes, place.chunk);
    if (static_cast<std::int64_t>(content->size()) == wanted) return content;
    return Error{Code::kDataLoss,
                 "dataset " + dataset.name + ", shard " + place.shard.name + ": chunk " +
                     std::to_string(place.chunk) + " has " + std::to_string(content->size()) +
                     " bytes, not " + std::to_string(wanted),
                 "", "run the same version on all hosts"};
  }

  Status copy(const Dataset& dataset, const WindowPlace& window,
              std::span<std::int64_t> out) const {
    const auto chunk = memory->get(dataset.first_number + window.chunk);
    if (!chunk) return chunk.error();
    const Tokenizer kind = dataset.manifest.tokens;
    const auto bytes = std::as_bytes(std::span(**chunk));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = token_at(bytes, kind, static_cast<std::size_t>(window.token) + i);
    }
    const auto largest = std::ranges::max_element(out);
    if (*largest < vocab) return {};
    const Place place = place_of(dataset, window.chunk);
    const std::int64_t first =
        place.chunk * (dataset.manifest.chunk_bytes / bytes_per_token(kind)) + window.token;
    return Error{Code::kValidation,
                 "dataset " + dataset.name + ", shard " + place.shard.name +
                     ": the token at position " + std::to_string(first + (largest - out.begin())) +
                     " is " + std::to_string(*largest) + ", not below model.vocab (" +
                     std::to_string(vocab) + ")",
                 "model.vocab", "raise it, or use the tokenizer that the dataset was made with"};
  }

  // Where a sequence is; what is around it is read ahead when its chunk is not there yet, and the
  // group after that when one begins, or more was leased.
  std::pair<const Dataset*, WindowPlace> find(std::int64_t index) {
    const MutexLock guard(mutex);
    const MixturePlace of = mixture.place_of(index);
    const auto number = static_cast<std::size_t>(of.dataset);
    const Dataset& dataset = datasets[number];
    const ChunkOrder& order = orders[number];
    const WindowPlace window = order.place_of(of.sequence);
    const Group group = group_of(order, of.sequence);
    const bool begins = group != entered[number];
    if (begins || !memory->has(dataset.first_number + window.chunk)) read_ahead(of);
    entered[number] = group;
    if (looks_ahead && (begins || !looked[number])) {
      looked[number] = true;
      if (const auto next = next_group(index, of, group)) read_ahead(*next);
    }
    return {&dataset, window};
  }

  // An epoch's chunks are shuffled anew, so its first group is another one than the last of before.
  using Group = std::pair<std::int64_t, std::int64_t>;
  static Group group_of(const ChunkOrder& order, std::int64_t sequence) {
    return {sequence / order.windows(), sequence / order.group_size()};
  }

  void read_ahead(const MixturePlace& of) SHOAL_REQUIRES(mutex) {
    const auto number = static_cast<std::size_t>(of.dataset);
    std::vector<std::int64_t> around = orders[number].chunks_around(of.sequence);
    for (std::int64_t& chunk : around) chunk += datasets[number].first_number;
    memory->read_ahead(around);
  }

  // The first sequence that will be read after this one, of the same dataset and another group.
  std::optional<MixturePlace> next_group(std::int64_t index, const MixturePlace& now,
                                         const Group& group) const SHOAL_REQUIRES(mutex) {
    const auto here = std::ranges::find_if(to_read, [&](const SequenceRun& run) {
      return run.first <= index && index < run.first + run.count;
    });
    std::int64_t looked = 0;
    for (auto run = here; run != to_read.end(); ++run) {
      const std::int64_t end = run->first + run->count;
      for (std::int64_t i = run == here ? index + 1 : run->first; i < end; ++i) {
        if (++looked > kLookMost) return std::nullopt;
        const MixturePlace of = mixture.place_of(i);
        if (of.dataset != now.dataset) continue;
        if (group_of(orders[static_cast<std::size_t>(of.dataset)], of.sequence) != group) return of;
      }
    }
    return std::nullopt;
  }

  // How many of `count` held-out sequences are of each dataset: its share, and what others lack.
  std::vector<std::int64_t> validation_of(std::int64_t count) const SHOAL_REQUIRES(mutex) {
    std::vector<std::int64_t> counts;
    std::int64_t missing = count;
    for (std::size_t i = 0; i < orders.size(); ++i) {
      const double share = mixture.share(static_cast<std::int64_t>(i)) * static_cast<double>(count);
      counts.push_back(orders[i].held_out(static_cast<std::int64_t>(share)));
      missing -= counts.back();
    }
    for (std::size_t i = 0; i < orders.size(); ++i) {
      const std::int64_t more = orders[i].held_out(counts[i] + missing) - counts[i];
      counts[i] += more;
      missing -= more;
    }
    return counts;
  }

  const std::int64_t vocab;
  mutable Mutex mutex;
  const MixtureOrder mixture SHOAL_GUARDED_BY(mutex);
  std::vector<ChunkOrder> orders SHOAL_GUARDED_BY(mutex);  // of the datasets
  std::vector<Group> entered SHOAL_GUARDED_BY(mutex);      // of each dataset, where it is read
  std::vector<SequenceRun> to_read SHOAL_GUARDED_BY(mutex);
  std::vector<bool> looked SHOAL_GUARDED_BY(mutex);  // of each dataset, for what follows in to_read
  const ReadStored read;
  std::vector<Dataset> datasets;  // by first_number
  bool looks_ahead = true;        // two groups of each fit in `memory`
  Digest digest;
  std::unique_ptr<ChunkMemory> memory;  // last: its threads use the others
};

StoredTokens::StoredTokens(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StoredTokens::~StoredTokens() = default;

Result<std::unique_ptr<StoredTokens>> StoredTokens::open(const JobSpec& spec, ReadStored read) {
  const std::vector<MixturePart> mixture = datasets_of(spec.data);
  SHOAL_CHECK(!mixture.empty(), "a job without datasets");
  std::vector<double> weights;
  for (const MixturePart& part : mixture) weights.push_back(part.weight);
  auto parts =
      std::make_unique<Parts>(spec, std::move(read), MixtureOrder(weights, spec.train.seed));
  Digester digester;
  Bytes open_chunks;  // a group of each dataset
  std::int64_t number = 0;
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    auto found = read_manifest(spec, mixture[i].dataset, parts->read);
    if (!found) return found.error();
    const DatasetRef& dataset = found->dataset;
    Manifest& manifest = found->manifest;
    if (Status s = check_dataset(spec, dataset.name, manifest); !s.ok()) return s.error();
    open_chunks += Bytes(ChunkOrder::kOpenChunks * manifest.chunk_bytes);
    std::vector<std::int64_t> first_chunk;
    std::int64_t chunks = 0;
    for (const Shard& shard : manifest.shards) {
      first_chunk.push_back(chunks);
      chunks += chunk_count(shard, manifest.chunk_bytes);
    }
    {
      const MutexLock guard(parts->mutex);
      parts->orders.push_back(order_of(spec, manifest, static_cast<std::int64_t>(i)));
      parts->entered.emplace_back(-1, -1);
      parts->looked.push_back(false);
    }
    parts->datasets.push_back(
        {dataset.name, dataset.manifest, std::move(manifest), std::move(first_chunk), number});
    number += chunks;
    digester.add(dataset.manifest).add(mixture[i].weight);
  }
  parts->digest = digester.finish();
  parts->looks_ahead = open_chunks + open_chunks <= kMemoryMax;
  Parts* owner = parts.get();
  parts->memory = std::make_unique<ChunkMemory>(
      [owner](std::int64_t chunk) { return owner->load(chunk); }, kMemoryMax);
  return std::unique_ptr<StoredTokens>(new StoredTokens(std::move(parts)));
}

namespace {

std::int64_t end_of(const std::vector<SequenceRun>& runs) {
  return runs.empty() ? 0 : runs.back().first + runs.back().count;
}

}  // namespace

void StoredTokens::will_read(std::vector<SequenceRun> runs) const {
  const MutexLock guard(parts_->mutex);
  const bool goes_further = end_of(runs) != end_of(parts_->to_read);
  if (goes_further) std::fill(parts_->looked.begin(), parts_->looked.end(), false);
  parts_->to_read = std::move(runs);
}

Status StoredTokens::training_sequence(std::int64_t index, std::span<std::int64_t> out) const {
  const auto [dataset, window] = parts_->find(index);
  return parts_->copy(*dataset, window, out);
}

std::int64_t StoredTokens::sequences() const {
  const MutexLock guard(parts_->mutex);
  std::int64_t windows = 0;
  for (const ChunkOrder& order : parts_->orders) windows += order.windows();
  return windows;
}

std::int64_t StoredTokens::validation_sequences(std::int64_t wanted) const {
  const MutexLock guard(parts_->mutex);
  const std::vector<std::int64_t> counts = parts_->validation_of(wanted);
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Status StoredTokens::validation_sequence(std::int64_t index, std::int64_t count,
                                         std::span<std::int64_t> out) const {
  SHOAL_CHECK(index >= 0 && index < count);
  std::size_t i = 0;
  WindowPlace window;
  {
    const MutexLock guard(parts_->mutex);
    const std::vector<std::int64_t> counts = parts_->validation_of(count);
    for (; index >= counts.at(i); ++i) index -= counts[i];
    window = parts_->orders[i].held_out_place(index, counts[i]);
  }
  return parts_->copy(parts_->datasets[i], window, out);
}

Digest StoredTokens::digest() const { return parts_->digest; }

}  // namespace shoal::data
