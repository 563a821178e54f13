// What the coordinator remembers of an agent: who it is, its devices, and what its past says about
// it. One of the records of records.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"
#include "swarm/core/messages.h"

namespace shoal::coordinator {

enum class AgentState { kJoining, kIdle, kSyncing, kActive, kDraining, kGone };
enum class AgentGone { kNone, kLeft, kLost };

// Why a contribution has no weight. kOutlier: its norm is far above the median of the others.
enum class RejectReason {
  kNone,
  kNonFinite,
  kNoTokens,
  kNotReported,
  kJoiner,
  kOutlier,
  kLeftOut,  // lost in the reduce: the average was made without it, or without a part of it
};

// What is held against an agent; the rules are in state/standing.h.
struct Standing {
  std::int32_t strikes = 0;  // rejected contributions within the window
  Instant struck_at;         // the last one; zero: never
  RejectReason strike_reason = RejectReason::kNone;
  std::int32_t quarantines = 0;  // so far; each is longer than the one before
  Instant quarantined_until;     // zero: it is not
  bool operator==(const Standing&) const = default;
};

// A device ran out of memory with a replica that, together with those beside it, needs this much.
struct MemoryRefusal {
  std::int32_t device = 0;
  Bytes needed;  // the least that failed
  Instant at;
  bool operator==(const MemoryRefusal&) const = default;
};

// How long it was here, and how often it went.
struct Attendance {
  Instant since;               // of its present stay
  std::int64_t present_s = 0;  // sum of the stays that ended
  std::int32_t losses = 0;     // of those
  bool operator==(const Attendance&) const = default;
};

struct AgentRecord {
  AgentId id;
  std::string uid, name, version, host;
  Incarnation incarnation;
  AgentState state = AgentState::kJoining;
  AgentGone gone = AgentGone::kNone;
  bool cordoned = false;  // the operator's: no new replicas
  std::vector<Device> devices;
  std::vector<std::pair<std::string, std::string>> labels;
  Instant joined_at, updated_at;
  Standing standing;
  std::vector<MemoryRefusal> refusals;  // one per device at most
  Attendance attendance;
  bool operator==(const AgentRecord&) const = default;
};

const char* to_string(AgentState value);
const char* to_string(AgentGone value);
const char* to_string(RejectReason value);

}  // namespace shoal::coordinator
