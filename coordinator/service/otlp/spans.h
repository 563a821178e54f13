// Traces of rounds and checkpoints, as OpenTelemetry has them: one trace per round, whose span has
// "train", "reduce" (one per stage or group) and "vote" below it, and "checkpoint" where one was
// taken of that round. What is known of times is what the records say; only when voting began is
// the time at which that was seen.
//
// Ids follow from the job and the round, so a coordinator that starts again continues a trace.
//
// Used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/flat_map.h"
#include "coordinator/core/records/records.h"

namespace shoal::coordinator::otlp {

using Value = std::variant<std::string, std::int64_t, double, bool>;
using Attributes = std::vector<std::pair<std::string, Value>>;

struct Span {
  Digest trace;
  std::uint64_t id = 0, parent = 0;  // parent 0: the root of its trace
  std::string name;
  Instant begin, end;
  Attributes attributes;
  std::optional<std::string> error = {};  // what failed, and why
};

class SpanMaker {
 public:
  // `cluster` tells rounds of one cluster from those of another.
  explicit SpanMaker(std::string cluster) : cluster_(std::move(cluster)) {}

  // What has ended with this record, which is durable; nothing for most.
  std::vector<Span> from(Instant now, const Record& record);

 private:
  struct Seen {  // of a round that has not ended
    Instant voting_at;
  };
  std::vector<Span> from_round(Instant now, const RoundRecord& round);
  std::vector<Span> from_checkpoint(const CheckpointRecord& checkpoint);
  Digest trace_of(const RoundKey& key) const;
  std::uint64_t id_of(const RoundKey& key, std::string_view name, std::int64_t number) const;

  const std::string cluster_;
  FlatMap<RoundKey, Seen> rounds_;
  FlatMap<CheckpointId, bool> checkpoints_;  // that have not ended
};

}  // namespace shoal::coordinator::otlp
