// Counters and histograms of the coordinator's process: native metrics of prometheus-cpp in one
// prometheus::Registry, incremented where their event happens. Gauges of current state, such as
// jobs by phase, are not here: service/http/metrics.cc reads them at scrape time. docs/metrics.md
// lists all metrics.
//
// A series whose labels come from a closed list exists from the start, at zero, so that its first
// event shows as an increase. Thread-safe; no method waits for a disk.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>

#include "base/enumerators.h"
#include "base/refusals.h"
#include "base/time.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/records/event_record.h"
#include "coordinator/meters/families.h"
#include "coordinator/meters/job_meters.h"
#include "outer_opt/core/round/reduce_plan.h"
#include "swarm/core/plan/rebalance.h"

namespace shoal::coordinator {

enum class Port {
  kHttp,    // REST and the dashboard
  kJoin,    // on the same port: hosts that join, or renew their certificate
  kAgents,  // gRPC
  kPeers,   // of all trainers and reducers, as their agents tell
};
constexpr auto enumerators_of(Of<Port>) {
  using enum Port;
  return enumerators<Port>(
      {{kHttp, "http"}, {kJoin, "join"}, {kAgents, "agents"}, {kPeers, "peers"}});
}

// Events that an operator may want an alert for.
inline constexpr std::array kIncidents = {event_kind::kAgentDisconnected,
                                          event_kind::kAgentGone,
                                          event_kind::kAgentRefused,
                                          event_kind::kAgentQuarantined,
                                          event_kind::kJobRolledBack,
                                          event_kind::kReplicaFailed,
                                          event_kind::kRoundAttempt,
                                          event_kind::kRoundAborted,
                                          event_kind::kRoundStragglers,
                                          event_kind::kMomentumLost,
                                          event_kind::kCheckpointFailed,
                                          event_kind::kReplicaAbsent,
                                          event_kind::kJobRestored,
                                          event_kind::kMemberDistrusted,
                                          event_kind::kAgentRevoked,
                                          event_kind::kStageRestoredFromCopy,
                                          event_kind::kCheckpointsOverBudget,
                                          event_kind::kClaimRefused,
                                          event_kind::kRecordCorrupt,
                                          event_kind::kDeviceFailing,
                                          event_kind::kDeviceUnhealthy,
                                          event_kind::kDevicesLost,
                                          event_kind::kReplicaSlow};

// One counter per enumerator, with its text as the value of a label.
template <typename E>
class CountersOf {
 public:
  CountersOf(prometheus::Family<prometheus::Counter>& family, const char* label,
             prometheus::Labels labels = {}) {
    for (const auto& [value, text] : kEnumerators<E>) {
      labels[label] = text;
      counters_[static_cast<std::size_t>(value)] = &family.Add(labels);
    }
  }
  prometheus::Counter& operator[](E value) const {
    return *counters_[static_cast<std::size_t>(value)];
  }

 private:
  std::array<prometheus::Counter*, enumerator_count<E>()> counters_{};
};

struct StoreMeters {
  explicit StoreMeters(prometheus::Registry& registry);
  prometheus::Counter &commits, &records, &errors, &commit_seconds_total;
  prometheus::Histogram& commit_seconds;
  prometheus::Gauge& commit_max_seconds;

  // One transaction. The writer thread of the store alone calls it.
  void wrote(std::size_t rows, Duration took, bool failed);
};

struct RuntimeMeters {
  explicit RuntimeMeters(prometheus::Registry& registry);
  prometheus::Counter &inputs, &sends, &sessions, &heartbeats, &refused_messages,
      &step_seconds_total;
  prometheus::Histogram& step_seconds;
  prometheus::Gauge& step_max_seconds;
  CountersOf<ReduceFailure> reduce_failures;
  CountersOf<swarm::BalanceVerdict> moves_considered;

  // The core has handled one input. Its thread alone calls it.
  void stepped(Duration took);
};

struct EventMeters {
  explicit EventMeters(prometheus::Registry& registry);
  CountersOf<Severity> by_severity;
  std::map<std::string, prometheus::Counter*, std::less<>> incidents;  // by kind

  void happened(const EventRecord& event);
};

struct RefusalMeters {
  explicit RefusalMeters(prometheus::Registry& registry);

  prometheus::Counter& at(Port port, RefusalReason reason) const {
    return by_port[static_cast<std::size_t>(port)][reason];
  }
  RefusalCounts counts(Port port) const;

  std::array<CountersOf<RefusalReason>, enumerator_count<Port>()> by_port;
};

// Receivers outside of the cluster. All counters exist where none is set.
struct OutsideMeters {
  explicit OutsideMeters(prometheus::Registry& registry);
  prometheus::Counter &webhook_taken, &webhook_dropped, &webhook_failures;
  prometheus::Counter &object_store_retries, &object_store_carried;
  prometheus::Counter &spans_sent, &spans_dropped, &metrics_sent, &metrics_dropped;
};

struct Meters {
  prometheus::Registry registry;  // first: the others hold references into it
  StoreMeters store{registry};
  RuntimeMeters runtime{registry};
  EventMeters events{registry};
  RefusalMeters refusals{registry};
  OutsideMeters outside{registry};
  JobMeters jobs{registry};
};

}  // namespace shoal::coordinator
