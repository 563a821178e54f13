// What takes the space: checkpoints by their records, tables by their pages. The databases are read
// whole, so it is done where slow work is, by a reader of its own.
#include "coordinator/service/http/routes/space.h"

#include <algorithm>
#include <functional>
#include <map>

#include "coordinator/service/http/answers/answer_json.h"
#include "coordinator/service/http/answers/space_answers.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/views.h"
#include "coordinator/store/space.h"

namespace shoal::coordinator::rest::api {
namespace {

// The files of those that were set aside are kept: all parts had been stored.
bool has_files(const CheckpointRecord& checkpoint) {
  return checkpoint.state == CheckpointState::kStored ||
         std::ranges::all_of(checkpoint.parts, [](const CheckpointPart& part) {
           return part.state == CheckpointState::kStored;
         });
}

Result<std::map<JobId, Bytes>> checkpoints_by_job(Reader& reader) {
  std::map<JobId, Bytes> sums;
  PageRequest page{.limit = 500};
  for (;;) {
    const auto read =
        reader.all_checkpoints(page, {CheckpointState::kStored, CheckpointState::kFailed});
    if (!read.ok()) return read.error();
    for (const CheckpointRecord& checkpoint : read->items) {
      if (has_files(checkpoint)) sums[checkpoint.key.job] += total_size(checkpoint);
    }
    if (!read->next) return sums;
    page.after = *read->next;
  }
}

Status name_job(Reader& reader, SpaceJobAnswer& answer) {
  const auto job = reader.job(answer.job);
  if (!job.ok()) return job.error();
  if (!job.value()) return {};  // removed: the name says so
  answer.name = (*job)->spec.name;
  answer.owner = (*job)->owner;
  answer.phase = (*job)->phase;
  return {};
}

std::int64_t total(const SpaceJobAnswer& job) {
  return (job.checkpoints + job.history + job.series).count();
}

// The largest first.
Result<std::vector<SpaceJobAnswer>> jobs_of(Reader& reader,
                                            const std::map<JobId, Bytes>& checkpoints,
                                            const DatabaseSpace& databases) {
  std::map<JobId, SpaceJobAnswer> jobs;
  for (const auto& [job, bytes] : checkpoints) jobs[job].checkpoints = bytes;
  for (const auto& [job, bytes] : databases.history) jobs[job].history = bytes;
  for (const auto& [job, bytes] : databases.series) jobs[job].series = bytes;
  std::vector<SpaceJobAnswer> list;
  for (auto& [id, job] : jobs) {
    job.job = id;
    if (Status s = name_job(reader, job); !s.ok()) return s.error();
    list.push_back(std::move(job));
  }
  std::ranges::stable_sort(list, std::greater<>(), total);
  return list;
}

std::vector<SpacePartAnswer> parts_of(const CheckpointSpace& space, Bytes stored,
                                      const StoreStats& files) {
  return {{"checkpoints", stored},
          {"checkpoints_pending", space.pending},
          {"tables", files.state_file},
          {"write_ahead_log", files.wal_file},
          {"series", files.telemetry_file}};
}

// The caller is allowed to ask: what is refused is refused to the coordinator.
Error not_readable(Error error) {
  if (error.code == Code::kPermissionDenied) error.code = Code::kInternal;
  return error;
}

Result<SpaceAnswer> answer_of(Cluster& cluster, Bytes budget) {
  const std::unique_ptr<Reader> reader = cluster.store().reader();
  const auto databases = read_space(cluster.store().folder());
  if (!databases.ok()) return not_readable(databases.error());
  const auto checkpoints = checkpoints_by_job(*reader);
  if (!checkpoints.ok()) return checkpoints.error();
  auto jobs = jobs_of(*reader, *checkpoints, *databases);
  if (!jobs.ok()) return jobs.error();
  Bytes stored;
  for (const auto& [job, bytes] : *checkpoints) stored += bytes;
  SpaceAnswer answer;
  answer.parts = parts_of(cluster.checkpoint_space(), stored, cluster.store().stats());
  answer.checkpoint_budget = budget;
  for (const TableSpace& table : databases->tables) {
    answer.tables.push_back({table.name, table.rows, table.bytes});
  }
  answer.jobs = std::move(jobs).value();
  return answer;
}

}  // namespace

void get_space(Context& context, const Request& request, Replier reply) {
  const bool accepted =
      context.on_slow_worker([&cluster = context.cluster, budget = context.options.checkpoints_max,
                              request, reply](const std::atomic<bool>&) {
        const auto answer = answer_of(cluster, budget);
        reply(answer.ok() ? json_response(answer_json(*answer))
                          : problem_response(answer.error(), request));
      });
  if (!accepted) {
    reply(problem_response(Problem::kOverloaded, request, "too much slow work waits", {},
                           "try again later"));
  }
}

}  // namespace shoal::coordinator::rest::api
