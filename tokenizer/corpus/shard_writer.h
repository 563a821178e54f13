// Shards of tokens: files shard_00000.bin, shard_00001.bin, … of little-endian numbers without a
// header, each with its length and SHA-256, and dataset.json, which describes them and is written
// last: a folder without it is not finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"

namespace shoal::corpus {

inline constexpr const char* kDatasetFile = "dataset.json";

struct Shard {
  std::string file;
  std::int64_t tokens = 0;
  std::string sha256;
};

class ShardWriter {
 public:
  // Creates the folder. kConflict: it is there and not empty. Unless finish() succeeded, the
  // destructor deletes what was written.
  static Result<ShardWriter> create(const std::filesystem::path& folder, std::size_t token_bytes,
                                    std::int64_t shard_bytes);
  ~ShardWriter();
  ShardWriter(ShardWriter&& other) noexcept;
  ShardWriter& operator=(ShardWriter&&) = delete;

  // Whole tokens. kResourceExhausted: the disk is full.
  Status write(std::span<const std::byte> tokens);
  Status write_file(const std::string& name, std::string_view content);
  Result<std::vector<Shard>> finish_shards();
  // Writes dataset.json; everything is on the disk then.
  Status finish(std::string_view description);

 private:
  ShardWriter(std::filesystem::path folder, std::size_t token_bytes, std::int64_t shard_bytes)
      : folder_(std::move(folder)), token_bytes_(token_bytes), shard_bytes_(shard_bytes) {}
  Status open_shard();
  Status close_shard();
  Status failed(const std::string& name) const;

  std::filesystem::path folder_;
  std::size_t token_bytes_;
  std::int64_t shard_bytes_;
  int fd_ = -1;
  std::int64_t written_ = 0;  // bytes of the open shard
  Sha256 hash_;
  std::vector<Shard> shards_;
  std::vector<std::string> files_;  // all that were begun
  bool finished_ = false;
};

}  // namespace shoal::corpus
