#include "data/manifest.h"

#include <algorithm>
#include <bit>
#include <set>

#include <nlohmann/json.hpp>

#include "job/data_rules.h"

namespace shoal::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::int64_t kChunksWanted = 256, kChunksOfSmall = 64;
constexpr std::int64_t kChunkBytesUsual = std::int64_t{64} << 10;  // the least of larger ones
constexpr std::int64_t kBytesMax = std::int64_t{1} << 50;          // of a dataset
constexpr std::size_t kNameMax = 255, kUrlMax = 4096;

Error bad(const std::string& what) {
  return {Code::kValidation, "the manifest " + what, "manifest", "`shoal dataset add` makes one"};
}

Error bad_shard(const Shard& shard, const std::string& what) {
  return {Code::kValidation, "shard " + shard.name + " " + what, "manifest",
          "`shoal dataset add` makes a manifest"};
}

bool is_plain(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

Shard read_shard(const Json& json) {
  return {text_at(json, "name"),    number_at(json, "bytes"), text_at(json, "sha256"),
          text_at(json, "chunks"),  text_at(json, "url"),     number_at(json, "max_token"),
          number_at(json, "max_at")};
}

Status check_shard(const Shard& shard, Tokenizer tokens) {
  if (shard.name.empty() || shard.name.size() > kNameMax || !is_plain(shard.name)) {
    return bad("has a shard without a valid name");
  }
  const std::int64_t width = bytes_per_token(tokens);
  if (shard.bytes < width) return bad_shard(shard, "is empty");
  if (shard.bytes % width != 0) {
    return bad_shard(shard, "ends within a token: " + std::to_string(shard.bytes) + " bytes of " +
                                std::to_string(width) + " each");
  }
  if (!is_sha256_hex(shard.sha256) || !is_sha256_hex(shard.chunks)) {
    return bad_shard(shard, "has no SHA-256 of its content or of its chunks");
  }
  if (shard.url.size() > kUrlMax || !is_plain(shard.url)) {
    return bad_shard(shard, "has a URL that is none");
  }
  if (shard.max_token < 0 || shard.max_at < 0 || shard.max_at >= shard.bytes / width) {
    return bad_shard(shard, "does not say its largest token and where it stands");
  }
  return {};
}

Status check(const Manifest& manifest) {
  const std::int64_t chunk = manifest.chunk_bytes;
  if (chunk < kChunkBytesMin || chunk > kChunkBytesMax ||
      !std::has_single_bit(static_cast<std::uint64_t>(chunk))) {
    return bad("must have chunk_bytes, a power of two from 4096 to 1048576");
  }
  if (manifest.shards.empty() || manifest.shards.size() > kShardsMax) {
    return bad("must list 1 to " + std::to_string(kShardsMax) + " shards, it has " +
               std::to_string(manifest.shards.size()));
  }
  if (!manifest.tokenizer.empty() && !is_sha256_hex(manifest.tokenizer)) {
    return bad("has a tokenizer that is not a SHA-256");
  }
  std::set<std::string_view> names;
  std::int64_t total = 0;
  for (const Shard& shard : manifest.shards) {
    if (Status s = check_shard(shard, manifest.tokens); !s) return s;
    if (!names.insert(shard.name).second) return bad_shard(shard, "is listed twice");
    if (shard.bytes > kBytesMax - total) return bad("lists more than 1 PiB");
    total += shard.bytes;
  }
  return {};
}

}  // namespace

std::int64_t chunk_bytes_for(std::int64_t dataset_bytes) {
  const auto part = [&](std::int64_t chunks) {
    const std::int64_t bytes = std::max<std::int64_t>(1, dataset_bytes / chunks);
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  };
  const std::int64_t least = std::clamp(part(kChunksOfSmall), kChunkBytesMin, kChunkBytesUsual);
  return std::clamp(part(kChunksWanted), least, kChunkBytesMax);
}

std::int64_t chunk_count(const Shard& shard, std::int64_t chunk_bytes) {
  return (shard.bytes + chunk_bytes - 1) / chunk_bytes;
}

std::int64_t bytes_of_chunk(const Shard& shard, std::int64_t chunk_bytes, std::int64_t chunk) {
  return std::min(chunk_bytes, shard.bytes - chunk * chunk_bytes);
}

std::int64_t total_bytes(const Manifest& manifest) {
  std::int64_t total = 0;
  for (const Shard& shard : manifest.shards) total += shard.bytes;
  return total;
}

std::int64_t total_tokens(const Manifest& manifest) {
  return total_bytes(manifest) / bytes_per_token(manifest.tokens);
}

std::string to_text(const Manifest& manifest) {
  Json shards = Json::array();
  for (const Shard& shard : manifest.shards) {
    Json one = {{"name", shard.name},     {"bytes", shard.bytes},         {"sha256", shard.sha256},
                {"chunks", shard.chunks}, {"max_token", shard.max_token}, {"max_at", shard.max_at}};
    if (!shard.url.empty()) one["url"] = shard.url;
    shards.push_back(std::move(one));
  }
  Json json = {{"format", kFormat},
               {"tokens", to_string(manifest.tokens)},
               {"chunk_bytes", manifest.chunk_bytes},
               {"shards", std::move(shards)}};
  if (!manifest.tokenizer.empty()) json["tokenizer"] = manifest.tokenizer;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kManifestBytesMax) return bad("is longer than 64 MiB");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("is not a JSON object");
  if (number_at(json, "format") != kFormat) {
    return Error{Code::kIncompatible, "the manifest is of another format than 1", "manifest",
                 "use a coordinator and agents of its version"};
  }
  const auto tokens = parse_enumerator<Tokenizer>(text_at(json, "tokens"));
  if (!tokens) return bad("must say its tokens: bytes, uint16 or uint32");
  Manifest manifest{*tokens, number_at(json, "chunk_bytes"), {}};
  const auto shards = json.find("shards");
  if (shards == json.end() || !shards->is_array()) return bad("lists no shards");
  for (const Json& shard : *shards) {
    if (!shard.is_object()) return bad("has a shard that is not an object");
    manifest.shards.push_back(read_shard(shard));
  }
  manifest.tokenizer = text_at(json, "tokenizer");
  if (Status s = check(manifest); !s) return s.error();
  return manifest;
}

}  // namespace shoal::data
