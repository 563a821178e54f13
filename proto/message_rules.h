// What a message must keep beyond the rules of its single fields (base/fields.h), and the Reader,
// which keeps the first problem and the path of fields that leads to it, so that reading can
// continue without a test after every field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log_lines.h"
#include "base/result.h"
#include "messages/trainer_messages.h"

namespace shoal::proto {

// Ids and counters up to here fit an INTEGER of SQLite.
inline constexpr std::uint64_t kStoredNumberMax = (std::uint64_t{1} << 63) - 1;

// Counters of a job. No job reaches it, and sums of two of them fit.
inline constexpr std::int64_t kCountMax = std::int64_t{1} << 62;

class Reader {
 public:
  bool ok() const { return status_.ok(); }
  const Error& error() const { return status_.error(); }

  void refuse(std::string_view field, std::string message);
  void require(bool good, std::string_view field, const char* message) {
    if (!good) refuse(field, message);
  }

  // Names the enclosing field while it lives.
  class Inside {
   public:
    Inside(Reader& reader, std::string_view field) : reader_(reader), size_(reader.path_.size()) {
      if (!field.empty()) reader.path_.append(field).append(".");
    }
    ~Inside() { reader_.path_.resize(size_); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Reader& reader_;
    std::size_t size_;
  };

 private:
  std::string path_;
  Status status_;
};

// Called with each value whose fields have been read.
void check(Reader& reader, const Hello& hello);
void check(Reader& reader, const Relays& relays);
void check(Reader& reader, const Welcome& welcome);
void check(Reader& reader, const Device& device);
void check(Reader& reader, const DeviceSample& sample);
void check(Reader& reader, const TrainerReady& ready);
void check(Reader& reader, const RoundKey& key);
void check(Reader& reader, const DataLease& lease);
void check(Reader& reader, const CommitProof& proof);
void check(Reader& reader, const CommitRecord& record);
void check(Reader& reader, HeldReplica& held);  // tells one that loads by its key, too
void check(Reader& reader, const Loaded& loaded);
void check(Reader& reader, const LoggedValue& logged);
void check(Reader& reader, const TensorShape& tensor);
void check(Reader& reader, const Welcome& welcome);
void check(Reader& reader, const StateSource& source);
void check(Reader& reader, const Assign& assign);
void check(Reader& reader, const FileEntry& file);
void check(Reader& reader, const WriteCheckpointTo& command);
void check(Reader& reader, const OpenRound& order);
void check(Reader& reader, const EvalSlice& slice);
void check(Reader& reader, const OwnerStep& step);
void check(Reader& reader, const ReduceMember& member);
void check(Reader& reader, const ReducePlan& plan);
void check(Reader& reader, const CommitRound& commit);
void check(Reader& reader, const StageCopy& copy);
void check(Reader& reader, const MeasureLine& asked);
void check(Reader& reader, const LogLine& line);
void check(Reader& reader, const LogQuery& query);

template <typename T>
concept HasRule = requires(Reader& reader, T& value) {
  check(reader, value);
};

// Whether a part that may be left out (or_none) is: then it is not written.
template <typename T>
bool is_none(const T& part) {
  return part == T{};
}
inline bool is_none(const RoundKey& key) { return key.round < 0; }  // a replica that loads

}  // namespace shoal::proto
