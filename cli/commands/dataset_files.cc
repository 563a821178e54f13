#include "cli/commands/dataset_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "cli/terminal.h"
#include "job/data_rules.h"
#include "transfer/sha256.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

Error bad_file(const std::string& path, const std::string& what, const std::string& remedy) {
  return {Code::kValidation, path + " " + what, "", remedy};
}

Result<std::int64_t> size_of(const std::string& path, Tokenizer kind) {
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    return Error{Code::kNotFound, "no such file: " + path, "", "name the shards of the dataset"};
  }
  if (!fs::is_regular_file(path, failure)) {
    return bad_file(path, "is no file", "name the files in it: " + path + "/*");
  }
  const auto size = static_cast<std::int64_t>(fs::file_size(path, failure));
  const std::int64_t width = bytes_per_token(kind);
  if (size == 0) return bad_file(path, "is empty", "leave it out");
  if (size % width == 0) return size;
  return bad_file(path,
                  "ends within a token: " + std::to_string(size) + " bytes of " +
                      std::to_string(width) + " each",
                  "was it cut, or is it of another --tokens?");
}

// Their last parts, or the whole paths where those are equal.
std::vector<std::string> names_of(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const std::string& file : files) names.push_back(fs::path(file).filename().string());
  const bool differ =
      std::ranges::all_of(names, [&](const std::string& name) { return seen.insert(name).second; });
  return differ ? names : files;
}

std::string raw_of(const std::string& hex) {
  std::string raw;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return raw;
}

void note_largest(std::span<const std::byte> chunk, Tokenizer kind, std::int64_t first,
                  data::Shard& shard) {
  const std::size_t count = chunk.size() / static_cast<std::size_t>(bytes_per_token(kind));
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t token = token_at(chunk, kind, i);
    if (token <= shard.max_token) continue;
    shard.max_token = token;
    shard.max_at = first + static_cast<std::int64_t>(i);
  }
}

Result<LocalShard> read_shard(const std::string& path, const std::string& name, Tokenizer kind,
                              std::int64_t chunk_bytes, std::int64_t size,
                              const Progress& progress) {
  LocalShard local{path, {.name = name, .bytes = size}, {}};
  std::ifstream file(path, std::ios::binary);
  Sha256 whole;
  std::string chunk(static_cast<std::size_t>(chunk_bytes), '\0');
  for (std::int64_t at = 0; at < size;) {
    if (interrupted()) return Error{Code::kCancelled, "interrupted", "", ""};
    const std::int64_t wanted = std::min(chunk_bytes, size - at);
    file.read(chunk.data(), wanted);
    if (file.gcount() != wanted) {
      return bad_file(path, "cannot be read at byte " + std::to_string(at),
                      "did it change meanwhile? add it when it is complete");
    }
    const auto bytes = std::as_bytes(std::span(chunk.data(), static_cast<std::size_t>(wanted)));
    whole.add(bytes);
    Sha256 one;
    one.add(bytes);
    local.hashes += raw_of(one.finish());
    note_largest(bytes, kind, at / bytes_per_token(kind), local.shard);
    at += wanted;
    progress(name, at, size);
  }
  if (file.peek() != std::ifstream::traits_type::eof()) {
    return bad_file(path, "has grown while it was read", "add it when it is complete");
  }
  local.shard.sha256 = whole.finish();
  local.shard.chunks = sha256_of(local.hashes);
  return local;
}

}  // namespace

Result<Tokenizer> kind_of(const std::string& word, const std::vector<std::string>& files) {
  if (const auto kind = parse_enumerator<Tokenizer>(word)) return *kind;
  const auto ends = [](const std::string& file, std::initializer_list<const char*> endings) {
    return std::ranges::any_of(endings, [&](const char* end) { return file.ends_with(end); });
  };
  for (const std::string& file : files) {
    if (ends(file, {".jsonl", ".json", ".parquet"})) {
      return bad_file(file, "holds texts in records, not tokens",
                      "make tokens of it with `shoal dataset prepare`");
    }
    if (!ends(file, {".txt", ".text", ".md"})) {
      return bad_file(file, "does not say by its name how its tokens lie in it",
                      "give --tokens: bytes (text), uint16 or uint32");
    }
  }
  return Tokenizer::kBytes;
}

Result<std::vector<LocalShard>> read_shards(const std::vector<std::string>& files, Tokenizer kind,
                                            const Progress& progress) {
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (const std::string& file : files) {
    const auto size = size_of(file, kind);
    if (!size) return size.error();
    sizes.push_back(*size);
    total += *size;
  }
  const std::vector<std::string> names = names_of(files);
  std::vector<LocalShard> shards;
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto shard =
        read_shard(files[i], names[i], kind, data::chunk_bytes_for(total), sizes[i], progress);
    if (!shard) return shard.error();
    shards.push_back(std::move(shard).value());
  }
  return shards;
}

Result<std::string> read_piece(const std::string& path, std::int64_t from, std::int64_t count) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(static_cast<std::size_t>(count), '\0');
  file.seekg(from);
  file.read(piece.data(), count);
  piece.resize(static_cast<std::size_t>(file.gcount()));
  if (!piece.empty()) return piece;
  return bad_file(path, "cannot be read at byte " + std::to_string(from),
                  "did it change meanwhile? add it when it is complete");
}

}  // namespace shoal::cli
