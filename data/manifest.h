// What a dataset is: a list of shards, files of tokens that read one after the other. Its text is a
// file itself, and the SHA-256 of that text stands for the dataset in a job.
//
// It may carry the tokenizer of its tokens, so that a job over it need not name one.
//
// A shard is cut into chunks of `chunk_bytes`, the last one shorter. A chunk is what is fetched,
// verified and kept in a cache, and what the order of a job shuffles first (job/chunk_order.h). The
// hashes of a shard's chunks are one more file: 32 bytes each, in order.
//
// Values; any thread may use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/job_spec_enums.h"

namespace shoal::data {

struct Shard {
  std::string name;        // of the file it was made of, for people; unique in the dataset
  std::int64_t bytes = 0;  // whole tokens
  std::string sha256;      // of its content
  std::string chunks;      // SHA-256 of the file with the hashes of its chunks
  std::string url;         // where the content is read; empty: the coordinator has it
  // The largest token, and the first place where it stands, by tokens of this shard.
  std::int64_t max_token = 0, max_at = 0;
  bool operator==(const Shard&) const = default;
};

struct Manifest {
  Tokenizer tokens = Tokenizer::kBytes;
  std::int64_t chunk_bytes = 0;
  std::vector<Shard> shards;
  // SHA-256 of the tokenizer.json that made the tokens, a file of its own; empty: none is known.
  std::string tokenizer = {};
  bool operator==(const Manifest&) const = default;
};

inline constexpr std::int64_t kChunkBytesMin = std::int64_t{4} << 10;
inline constexpr std::int64_t kChunkBytesMax = std::int64_t{1} << 20;
inline constexpr std::size_t kShardsMax = 100'000;
inline constexpr std::size_t kManifestBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kHashBytes = 32;  // of one chunk in the file of hashes

// A power of two between the bounds. A dataset has some 256 chunks at least, a small one 64:
// shorter chunks would hold too few windows.
std::int64_t chunk_bytes_for(std::int64_t dataset_bytes);

std::int64_t chunk_count(const Shard& shard, std::int64_t chunk_bytes);
// Bytes of one chunk; `chunk` < chunk_count().
std::int64_t bytes_of_chunk(const Shard& shard, std::int64_t chunk_bytes, std::int64_t chunk);
std::int64_t total_bytes(const Manifest& manifest);
std::int64_t total_tokens(const Manifest& manifest);

std::string to_text(const Manifest& manifest);
// kValidation: what is wrong with it, with the name of the shard.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace shoal::data
