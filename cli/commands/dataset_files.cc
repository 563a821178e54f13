#include "cli/commands/dataset_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "base/sha256.h"
#include "cli/terminal.h"
#include "job/data_rules.h"
#include "objects/reach.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kReadBytes = std::int64_t{1} << 20;

Error bad_file(const std::string& path, const std::string& what, const std::string& remedy) {
  return {Code::kValidation, path + " " + what, "", remedy};
}

Status check_size(const std::string& path, std::int64_t size, Tokenizer kind) {
  const std::int64_t width = bytes_per_token(kind);
  if (size == 0) return bad_file(path, "is empty", "leave it out");
  if (size % width == 0) return {};
  return bad_file(path,
                  "ends within a token: " + std::to_string(size) + " bytes of " +
                      std::to_string(width) + " each",
                  "was it cut, or is it of another --tokens?");
}

Result<std::int64_t> size_of_remote(const RemoteFiles& remote, const std::string& url,
                                    Tokenizer kind) {
  const auto size = remote.size(url);
  if (!size) return size.error();
  if (Status s = check_size(objects::shown_url(url), *size, kind); !s.ok()) return s.error();
  return *size;
}

Result<std::int64_t> size_of(const RemoteFiles& remote, const std::string& path, Tokenizer kind) {
  if (is_remote(path)) return size_of_remote(remote, path, kind);
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    return Error{Code::kNotFound, "no such file: " + path, "", "name the shards of the dataset"};
  }
  if (!fs::is_regular_file(path, failure)) {
    return bad_file(path, "is no file", "name the files in it: " + path + "/*");
  }
  const auto size = static_cast<std::int64_t>(fs::file_size(path, failure));
  if (Status s = check_size(path, size, kind); !s.ok()) return s.error();
  return size;
}

// Their last parts, or the whole paths where those are equal.
std::vector<std::string> names_of(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const std::string& file : files) names.push_back(last_part(file));
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

// Hashes what it is given, in pieces of any size, whole and by chunks.
class ShardHasher {
 public:
  ShardHasher(Tokenizer kind, std::int64_t chunk_bytes)
      : kind_(kind), chunk_bytes_(static_cast<std::size_t>(chunk_bytes)) {}

  void take(std::span<const std::byte> bytes) {
    whole_.add(bytes);
    while (!bytes.empty()) {
      const auto some = bytes.first(std::min(bytes.size(), chunk_bytes_ - chunk_.size()));
      chunk_.insert(chunk_.end(), some.begin(), some.end());
      bytes = bytes.subspan(some.size());
      if (chunk_.size() == chunk_bytes_) end_chunk();
    }
  }
  void finish(LocalShard& local) {
    if (!chunk_.empty()) end_chunk();
    local.shard.max_token = shard_.max_token;
    local.shard.max_at = shard_.max_at;
    local.hashes = std::move(hashes_);
    local.shard.sha256 = whole_.finish();
    local.shard.chunks = sha256_of(local.hashes);
  }
  std::int64_t taken() const { return done_ + static_cast<std::int64_t>(chunk_.size()); }

 private:
  void end_chunk() {
    Sha256 one;
    one.add(chunk_);
    hashes_ += raw_of(one.finish());
    note_largest(chunk_, kind_, done_ / bytes_per_token(kind_), shard_);
    done_ += static_cast<std::int64_t>(chunk_.size());
    chunk_.clear();
  }

  const Tokenizer kind_;
  const std::size_t chunk_bytes_;
  Sha256 whole_;
  std::vector<std::byte> chunk_;
  std::string hashes_;
  data::Shard shard_;  // its largest token
  std::int64_t done_ = 0;
};

Error interrupted_error() { return {Code::kCancelled, "interrupted", "", ""}; }

Status hash_file(const std::string& path, std::int64_t size, const std::string& name,
                 const Progress& progress, ShardHasher& hasher) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(kReadBytes, '\0');
  while (hasher.taken() < size) {
    if (interrupted()) return interrupted_error();
    const auto wanted = std::min<std::int64_t>(kReadBytes, size - hasher.taken());
    file.read(piece.data(), wanted);
    if (file.gcount() != wanted) {
      return bad_file(path, "cannot be read at byte " + std::to_string(hasher.taken()),
                      "did it change meanwhile? add it when it is complete");
    }
    hasher.take(std::as_bytes(std::span(piece.data(), static_cast<std::size_t>(wanted))));
    progress(name, hasher.taken(), size);
  }
  if (file.peek() == std::ifstream::traits_type::eof()) return {};
  return bad_file(path, "has grown while it was read", "add it when it is complete");
}

Status hash_remote(const RemoteFiles& remote, const std::string& url, std::int64_t size,
                   const std::string& name, const Progress& progress, ShardHasher& hasher) {
  const Status got = remote.read(url, size, [&](std::span<const std::byte> bytes) {
    hasher.take(bytes);
    progress(name, hasher.taken(), size);
    return !interrupted();
  });
  return interrupted() ? Status(interrupted_error()) : got;
}

Result<LocalShard> read_shard(const RemoteFiles& remote, const std::string& path,
                              const std::string& name, Tokenizer kind, std::int64_t chunk_bytes,
                              std::int64_t size, const Progress& progress) {
  LocalShard local{path, {.name = name, .bytes = size}, {}};
  if (is_remote(path)) local.shard.url = path;
  ShardHasher hasher(kind, chunk_bytes);
  const Status hashed = is_remote(path) ? hash_remote(remote, path, size, name, progress, hasher)
                                        : hash_file(path, size, name, progress, hasher);
  if (!hashed.ok()) return hashed.error();
  hasher.finish(local);
  return local;
}

}  // namespace

Result<Tokenizer> kind_of(const std::string& word, const std::vector<std::string>& files) {
  if (const auto kind = parse_enumerator<Tokenizer>(word)) return *kind;
  const auto ends = [](const std::string& file, std::initializer_list<const char*> endings) {
    const std::string name = last_part(file);
    return std::ranges::any_of(endings, [&](const char* end) { return name.ends_with(end); });
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

Result<std::vector<LocalShard>> read_shards(const RemoteFiles& remote,
                                            const std::vector<std::string>& files, Tokenizer kind,
                                            const Progress& progress) {
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (const std::string& file : files) {
    const auto size = size_of(remote, file, kind);
    if (!size) return size.error();
    sizes.push_back(*size);
    total += *size;
  }
  const std::vector<std::string> names = names_of(files);
  std::vector<LocalShard> shards;
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto shard = read_shard(remote, files[i], names[i], kind, data::chunk_bytes_for(total),
                            sizes[i], progress);
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
