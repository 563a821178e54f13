// Conversion of the single bodies, used by convert.cc alone. put() writes a domain value into its
// wire message; get() reads it back and tells the Reader what is wrong. A Reader keeps the first
// problem and the path of fields that leads to it, so that reading can go on without a test after
// every field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "proto/agent.pb.h"
#include "proto/trainer.pb.h"
#include "swarm/core/trainer_messages.h"

namespace shoal::proto {

class Reader {
 public:
  bool ok() const { return status_.ok(); }
  const Error& error() const { return status_.error(); }

  void refuse(std::string_view field, std::string message);
  void require(bool good, std::string_view field, const char* message) {
    if (!good) refuse(field, message);
  }
  std::int64_t count(std::string_view field, std::int64_t value);  // not negative
  double amount(std::string_view field, double value);             // finite, not negative
  template <typename Tag>
  Id<Tag> id(std::string_view field, std::uint64_t value) {  // not 0
    require(value != 0, field, "must not be 0");
    return Id<Tag>(value);
  }

  // Names the enclosing field while it lives.
  class Inside {
   public:
    Inside(Reader& reader, std::string_view field) : reader_(reader), size_(reader.path_.size()) {
      reader.path_.append(field).append(".");
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

// Reads a sub-message that must be there.
template <typename Wire, typename Value>
void get_part(Reader& reader, std::string_view field, bool present, const Wire& wire,
              Value& value) {
  const Reader::Inside inside(reader, field);
  if (!present) return reader.refuse("", "is missing");
  get(reader, wire, value);
}

template <typename E>
void get_word(Reader& reader, std::string_view field, const std::string& text, E& to) {
  const auto value = parse_word<E>(text);
  if (!value) return reader.refuse(field, "unknown word '" + text.substr(0, 64) + "'");
  to = *value;
}

template <typename Wire>
void put_ids(const std::vector<ReplicaId>& from, Wire& to) {
  for (const ReplicaId id : from) to.Add(id.n);
}
template <typename Wire>
void get_ids(Reader& reader, std::string_view field, const Wire& from, std::vector<ReplicaId>& to) {
  for (const auto id : from) to.push_back(reader.id<ReplicaTag>(field, id));
}

#define SHOAL_WIRE_PAIR(Type)               \
  void put(const Type& from, v1::Type& to); \
  void get(Reader& reader, const v1::Type& from, Type& to)

SHOAL_WIRE_PAIR(RoundKey);
SHOAL_WIRE_PAIR(Digest);
SHOAL_WIRE_PAIR(Error);
SHOAL_WIRE_PAIR(Device);
SHOAL_WIRE_PAIR(Hello);
SHOAL_WIRE_PAIR(Heartbeat);
SHOAL_WIRE_PAIR(CommitRecord);
SHOAL_WIRE_PAIR(HeldReplica);
SHOAL_WIRE_PAIR(Loaded);
SHOAL_WIRE_PAIR(LoadProgress);
SHOAL_WIRE_PAIR(ReplicaFailed);
SHOAL_WIRE_PAIR(Progress);
SHOAL_WIRE_PAIR(PipelineStats);
SHOAL_WIRE_PAIR(PipelineView);
SHOAL_WIRE_PAIR(RoundReport);
SHOAL_WIRE_PAIR(Vote);
SHOAL_WIRE_PAIR(ReduceFailed);
SHOAL_WIRE_PAIR(Applied);
SHOAL_WIRE_PAIR(EvalSlice);
SHOAL_WIRE_PAIR(Evaluated);
SHOAL_WIRE_PAIR(FileEntry);
SHOAL_WIRE_PAIR(CheckpointWritten);
SHOAL_WIRE_PAIR(CheckpointFailed);
SHOAL_WIRE_PAIR(Goodbye);
SHOAL_WIRE_PAIR(Welcome);
SHOAL_WIRE_PAIR(StateSource);
SHOAL_WIRE_PAIR(Assign);
SHOAL_WIRE_PAIR(Release);
SHOAL_WIRE_PAIR(OpenRound);
SHOAL_WIRE_PAIR(CloseRound);
SHOAL_WIRE_PAIR(MomentumHolder);
SHOAL_WIRE_PAIR(OwnerStep);
SHOAL_WIRE_PAIR(ReducePlan);
SHOAL_WIRE_PAIR(CommitRound);
SHOAL_WIRE_PAIR(AbortRound);
SHOAL_WIRE_PAIR(ResumeAt);
SHOAL_WIRE_PAIR(Evaluate);
SHOAL_WIRE_PAIR(WriteCheckpoint);
SHOAL_WIRE_PAIR(ForgetCheckpoint);
SHOAL_WIRE_PAIR(TrainerReady);
SHOAL_WIRE_PAIR(CheckpointReady);
SHOAL_WIRE_PAIR(LoadReplica);
SHOAL_WIRE_PAIR(WriteCheckpointTo);

#undef SHOAL_WIRE_PAIR

void put(const std::vector<DataLease>& from, google::protobuf::RepeatedPtrField<v1::DataLease>& to);
void get_leases(Reader& reader, std::string_view field,
                const google::protobuf::RepeatedPtrField<v1::DataLease>& from,
                std::vector<DataLease>& to, std::size_t runs_max);

bool is_hex(std::string_view text, std::size_t length);  // lower case
void get_sample(Reader& reader, const std::string& from, std::string& to);

}  // namespace shoal::proto
