// The files of a dataset on this host: what a manifest says of them, and their bytes for an upload.
// Every file is read once to be hashed and once to be sent; one that changes between is noticed by
// its hash.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands/remote_files.h"
#include "data/manifest.h"

namespace shoal::cli {

// A shard with the file or URL that it was made of, and what is uploaded beside it. What lies
// behind a URL is read to be hashed, and stays there.
struct LocalShard {
  std::string path;
  data::Shard shard;
  std::string hashes;  // of its chunks, kHashBytes each
};

using Progress = std::function<void(const std::string& name, std::int64_t done, std::int64_t size)>;

// "bytes", "uint16" or "uint32"; empty: by the names of the files. kValidation: they do not say it,
// or are text that a tokenizer must read first.
Result<Tokenizer> kind_of(const std::string& word, const std::vector<std::string>& files);

// Checks and hashes them all. kNotFound, kValidation: a file cannot be read, is empty, ends within
// a token, or has changed meanwhile. kCancelled: interrupted.
Result<std::vector<LocalShard>> read_shards(const RemoteFiles& remote,
                                            const std::vector<std::string>& files, Tokenizer kind,
                                            const Progress& progress);

// Bytes [from, from + count) of a file, fewer at its end.
Result<std::string> read_piece(const std::string& path, std::int64_t from, std::int64_t count);

}  // namespace shoal::cli
