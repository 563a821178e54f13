// What people and programs read of uploaded files and of datasets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "base/units.h"
#include "job/job_spec_enums.h"

namespace shoal::coordinator::rest {

struct StoredFileAnswer {
  std::string sha256;
  Bytes size;
  Bytes received;  // an upload continues there
  bool complete = false;
  std::string owner;
  Instant created_at;
  std::string used_by;  // "dataset books", "job mine"; empty: nothing
};
constexpr auto fields_of(Of<StoredFileAnswer>) {
  using T = StoredFileAnswer;
  return fields(field<&T::sha256>(), field<&T::size>(), field<&T::received>(),
                field<&T::complete>(), field<&T::owner>(), field<&T::created_at>(),
                field<&T::used_by>(added_later()));
}
constexpr const char* schema_name(Of<StoredFileAnswer>) { return "StoredFile"; }

struct DatasetAnswer {
  std::string name;
  std::string manifest;  // SHA-256
  std::string owner;
  Instant created_at;
  Tokenizer kind = Tokenizer::kBytes;
  std::int64_t tokens = 0;
  Bytes size;
  std::int64_t shards = 0;
  Bytes chunk_bytes;
  std::int64_t max_token = 0;
  std::string tokenizer;          // SHA-256 of its tokenizer.json
  std::vector<std::string> jobs;  // that have not ended
};
constexpr auto fields_of(Of<DatasetAnswer>) {
  using T = DatasetAnswer;
  return fields(field<&T::name>(), field<&T::manifest>(), field<&T::owner>(),
                field<&T::created_at>(), field<&T::kind>(), field<&T::tokens>(), field<&T::size>(),
                field<&T::shards>(), field<&T::chunk_bytes>(), field<&T::max_token>(),
                field<&T::tokenizer>(or_none()), field<&T::jobs>());
}
constexpr const char* schema_name(Of<DatasetAnswer>) { return "Dataset"; }

struct ShardAnswer {
  std::string name;
  Bytes size;
  std::string sha256;
  std::string chunks;  // SHA-256 of the file with the hashes of its chunks
  std::string url;     // empty: the coordinator has it
  std::int64_t max_token = 0;
};
constexpr auto fields_of(Of<ShardAnswer>) {
  using T = ShardAnswer;
  return fields<&T::name, &T::size, &T::sha256, &T::chunks, &T::url, &T::max_token>();
}
constexpr const char* schema_name(Of<ShardAnswer>) { return "Shard"; }

}  // namespace shoal::coordinator::rest
