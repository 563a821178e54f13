// A dataset that is invented while it is read, of any size: its tokens are a function of their
// place. As far as hashes are wanted they are computed before, so such a one is small.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/host/data_source.h"
#include "data/manifest.h"

namespace shoal::bench {

class StreamedDataset {
 public:
  static constexpr std::int64_t kVocab = 128'256;

  // Shards of 1 GiB, chunks of 1 MiB. `hashed`: as agents need it.
  StreamedDataset(std::int64_t gib, bool hashed);

  const std::string& manifest_hash() const { return manifest_hash_; }
  const std::string& manifest_text() const { return manifest_text_; }
  std::int64_t bytes() const { return data::total_bytes(manifest_); }
  std::string chunk(std::int64_t shard, std::int64_t chunk) const;
  // What an agent fetches: the manifest, a list of hashes, or bytes of a shard.
  std::string range(const agent::FileRange& range) const;

 private:
  void hash_shard(std::int64_t shard);

  data::Manifest manifest_;
  std::string manifest_text_, manifest_hash_;
  std::map<std::string, std::string> files_;           // lists of hashes, by their own
  std::map<std::string, std::int64_t> shard_of_hash_;  // of contents
};

}  // namespace shoal::bench
