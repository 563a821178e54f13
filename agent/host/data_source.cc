#include "agent/host/data_source.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"
#include "objects/reach.h"

namespace shoal::agent {
namespace {

constexpr std::size_t kManifestsKept = 16;
// A fetch ends by its own deadline; this is only beyond all of them.
constexpr auto kWaitMost = std::chrono::minutes(10);

Error located(const std::string& where, Error error) {
  error.message = where + ": " + error.message;
  return error;
}

Error wrong_content(const FileRange& range, const std::string& where) {
  if (range.url.empty()) {
    return {Code::kDataLoss,
            where + ": the bytes received have another SHA-256 than the dataset records", "",
            "`shoal dataset verify` tells whether the stored file is damaged"};
  }
  return {Code::kDataLoss,
          where + ": the content at " + objects::shown_url(range.url) +
              " has changed since the dataset was added",
          "", "restore the former content, or add the new content as another dataset"};
}

}  // namespace

void DataSource::begin(const std::string& sha256) {
  const MutexLock guard(mutex_);
  ended_.wait_for(mutex_, kWaitMost,
                  [&]() SHOAL_REQUIRES(mutex_) { return !under_way_.contains(sha256); });
  under_way_.insert(sha256);
}

void DataSource::end(const std::string& sha256, Bytes fetched) {
  {
    const MutexLock guard(mutex_);
    under_way_.erase(sha256);
    fetched_ += fetched;
  }
  ended_.notify_all();
}

Result<std::string> DataSource::content(const std::string& sha256, const FileRange& range,
                                        const std::string& where) {
  begin(sha256);
  Bytes fetched;
  Result<std::string> result = [&]() -> Result<std::string> {
    if (auto kept = cache_.get(sha256)) return std::move(*kept);
    auto got = fetch_(range);
    if (!got) return located(where, got.error());
    fetched = Bytes(static_cast<std::int64_t>(got->size()));
    if (sha256_of(*got) != sha256) return wrong_content(range, where);
    cache_.put(sha256, *got);
    return got;
  }();
  end(sha256, fetched);
  return result;
}

Result<DataSource::Manifest> DataSource::manifest_of(ReplicaId replica, const std::string& sha256) {
  {
    const MutexLock guard(mutex_);
    const auto known =
        std::ranges::find(manifests_, sha256, &std::pair<std::string, Manifest>::first);
    if (known != manifests_.end()) return known->second;
  }
  const auto text = content(sha256, {replica, sha256}, "the manifest");
  if (!text) return text.error();
  auto read = data::parse_manifest(*text);
  if (!read) return read.error();
  auto manifest = std::make_shared<const data::Manifest>(std::move(read).value());
  const MutexLock guard(mutex_);
  manifests_.emplace_front(sha256, manifest);
  if (manifests_.size() > kManifestsKept) manifests_.pop_back();
  return manifest;
}

Result<std::string> DataSource::read(ReplicaId replica, const std::string& manifest_sha256,
                                     std::int64_t shard_number, std::int64_t chunk) {
  if (shard_number == kManifest) {
    return content(manifest_sha256, {replica, manifest_sha256}, "the manifest");
  }
  const auto manifest = manifest_of(replica, manifest_sha256);
  if (!manifest) return manifest.error();
  if (shard_number == kTokenizer) {
    const std::string& tokenizer = (*manifest)->tokenizer;
    if (!tokenizer.empty()) return content(tokenizer, {replica, tokenizer}, "the tokenizer");
    return Error{Code::kNotFound, "the dataset has no tokenizer", "", ""};
  }
  const auto shards = static_cast<std::int64_t>((*manifest)->shards.size());
  const std::int64_t chunk_bytes = (*manifest)->chunk_bytes;
  if (shard_number < 0 || shard_number >= shards || chunk < 0 ||
      chunk >= data::chunk_count((*manifest)->shards[static_cast<std::size_t>(shard_number)],
                                 chunk_bytes)) {
    return Error{Code::kNotFound,
                 "the dataset has no chunk " + std::to_string(chunk) + " of a shard " +
                     std::to_string(shard_number),
                 "", ""};
  }
  const data::Shard& shard = (*manifest)->shards[static_cast<std::size_t>(shard_number)];
  const auto hashes = content(shard.chunks, {replica, shard.chunks},
                              "shard " + shard.name + ", the hashes of its chunks");
  if (!hashes) return hashes.error();
  const auto at = static_cast<std::size_t>(chunk) * data::kHashBytes;
  if (hashes->size() < at + data::kHashBytes) {
    return Error{Code::kDataLoss, "shard " + shard.name + " has fewer hashes than chunks", "",
                 "add the dataset again"};
  }
  const std::int64_t from = chunk * chunk_bytes;
  return content(hex_of(std::string_view(*hashes).substr(at, data::kHashBytes)),
                 {replica, shard.sha256, from, data::bytes_of_chunk(shard, chunk_bytes, chunk),
                  shard.url, shard.bytes},
                 "shard " + shard.name + ", byte " + std::to_string(from));
}

std::int64_t DataSource::fetched_bytes() const {
  const MutexLock guard(mutex_);
  return fetched_.n;
}

}  // namespace shoal::agent
