// Records as the JSON that people and programs see: snake_case, RFC 3339 UTC times, bytes and
// tokens as integers, seconds as numbers, ids as text. What is not known yet is null, never 0 or
// NaN.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/service/cluster.h"
#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

std::string rfc3339(Instant at);  // "2026-11-21T08:06:06.123Z"

// What the trainers of one job say at this moment; empty when none spoke within the last 15 s, or
// the job holds none any more.
struct JobLive {
  Steps step;                          // of the one that is furthest
  Tokens tokens;                       // trained in the open round, not committed yet
  std::optional<double> tokens_per_s;  // over wall time (token_meter.h)
  int replicas = 0;
};
JobLive job_live(const JobRecord& job, const LiveView& live);

// Bytes that synchronous data parallel would have sent for the committed inner steps: a ring
// all-reduce of fp32 gradients moves 2 (n-1)/n * 4 * parameters per step and replica (Patarasuk and
// Yuan 2009), summed over n replicas 8 (n-1) * parameters. The sum of n over all steps follows from
// the committed tokens.
std::optional<std::int64_t> bytes_of_data_parallel(const JobRecord& job);

Json job_json(const JobRecord& job, const LiveView& live);
Json rounds_or_null(const JobSpec& spec);  // of the whole job; null when they go by time
Json round_json(const RoundRecord& round, const std::vector<ContributionRecord>& contributions);
Json replica_json(const ReplicaRecord& replica, const LiveView& live);
// `job`: null when it was removed.
Json checkpoint_json(const CheckpointRecord& checkpoint, const JobRecord* job);
// kListed: without what the drivers of its devices say, which would be most of a list.
enum class AgentDetail { kWhole, kListed };
Json agent_json(const AgentRecord& agent, const LiveView& live,
                AgentDetail detail = AgentDetail::kWhole);
Json device_history_json(const DeviceLine& line);
Json event_json(const EventRecord& event);
Json series_json(const SeriesQuery& query, const std::vector<SeriesLine>& lines);

}  // namespace shoal::coordinator::rest
