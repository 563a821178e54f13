// Read-only questions to the store, for REST and the CLI. A reader has its own read-only connection
// and is used by one thread. Lists are paged by key: pass the cursor of the last page to get the
// next one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/core/records/records.h"
#include "coordinator/store/device_history.h"
#include "coordinator/store/people_rows.h"

namespace shoal::coordinator {

struct PageRequest {
  int limit = 50;             // 1..500
  std::int64_t after = 0;     // key of the last item of the page before; 0: from the start
  bool newest_first = false;  // keys descending
};

template <typename T>
struct Page {
  std::vector<T> items;
  std::optional<std::int64_t> next;  // pass as `after`; none on the last page
};

struct JobFilter {
  std::vector<JobPhase> phases;  // none: any
  std::string search;            // in name or description, without regard to the case of ASCII
};

struct EventFilter {
  std::optional<JobId> job;
  std::optional<AgentId> agent;
  std::optional<Severity> severity_min;
};

struct SeriesQuery {
  JobId job;
  std::string name;
  std::string x = "step";          // step, round, tokens, time (Unix seconds)
  bool by_replica = false;         // one series per replica; else their mean per bucket
  std::optional<double> from, to;  // of x
  int max_points = 1000;           // buckets; each gives its mean (and min, max)
};

struct SeriesLine {
  ReplicaId replica;  // zero: the whole job
  std::vector<double> x, y, y_min, y_max;
  std::vector<double> time;  // Unix seconds of each point, whatever x is
};

// The newest point of a series, of whichever replica; none after a rollback that left no point.
struct SeriesNewest {
  std::string name;
  struct Point {
    std::int64_t step = 0;
    double value = 0;
    bool operator==(const Point&) const = default;
  };
  std::optional<Point> newest;
  bool operator==(const SeriesNewest&) const = default;
};

// Jobs that were removed (JobRecord::removed_at) are not there.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual Result<Page<JobRecord>> jobs(const PageRequest& page, const JobFilter& filter) = 0;
  virtual Result<std::optional<JobRecord>> job(JobId id) = 0;
  virtual Result<std::optional<JobRecord>> job_by_name(
      const std::string& name) = 0;  // newest of the name
  virtual Result<std::optional<SubmittedText>> submitted_text(JobId job) = 0;

  virtual Result<Page<AgentRecord>> agents(const PageRequest& page, bool with_gone) = 0;
  virtual Result<std::optional<AgentRecord>> agent(AgentId id) = 0;

  virtual Result<std::vector<LinkRecord>> links() = 0;  // of all agents, by from and to

  virtual Result<Page<ReplicaRecord>> replicas(JobId job, const PageRequest& page) = 0;
  // Keys are round numbers; after a rollback the newest epoch of each round that still counts.
  virtual Result<Page<RoundRecord>> rounds(JobId job, const PageRequest& page) = 0;
  virtual Result<std::vector<ContributionRecord>> contributions(const RoundKey& key) = 0;
  virtual Result<Page<CheckpointRecord>> checkpoints(JobId job, const PageRequest& page) = 0;
  // All jobs' together. No states: in any state.
  virtual Result<Page<CheckpointRecord>> all_checkpoints(
      const PageRequest& page, const std::vector<CheckpointState>& states) = 0;
  virtual Result<std::optional<CheckpointRecord>> checkpoint(CheckpointId id) = 0;
  virtual Result<Page<EventRecord>> events(const EventFilter& filter, const PageRequest& page) = 0;
  virtual Result<Page<AuditRecord>> audit(const PageRequest& page) = 0;

  virtual Result<std::vector<SeriesNewest>> series_of(JobId job) = 0;  // by name
  virtual Result<std::vector<SeriesLine>> series(const SeriesQuery& query) = 0;

  virtual Result<std::vector<DeviceState>> devices() = 0;  // of all agents, by agent and number
  virtual Result<std::vector<DeviceLine>> device_history(AgentId agent, Instant from) = 0;
};

}  // namespace shoal::coordinator
