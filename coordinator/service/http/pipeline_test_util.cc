// Adds a job of two stages, a relay and a GPU to a cluster in memory: what pipelines and devices
// show.
#include "coordinator/service/http/cluster_test_util.h"

namespace shoal::coordinator::testing {

void fill_pipeline(MemoryCluster& cluster) {
  const MutexLock lock(cluster.tables.mutex);
  LiveView live = *cluster.live();
  JobRecord job;
  job.id = JobId(9);
  job.spec = small_spec("piped");
  job.spec.swarm.stages = 2;
  job.stages = {{.units = {0, 3}, .value_count = 0, .anchor = {}, .momentum = {}},
                {.units = {3, 6}, .value_count = 0, .anchor = {}, .momentum = {}}};
  job.phase = JobPhase::kTraining;
  cluster.tables.jobs[9] = job;
  for (std::uint64_t n = 1; n <= 3; ++n) {  // the third one has ended
    ReplicaRecord replica;
    replica.id = ReplicaId(10 + n);
    replica.job = job.id;
    replica.agent = AgentId(n);
    replica.stage = n == 1 ? 0 : 1;
    replica.state = n == 3 ? ReplicaState::kFailed : ReplicaState::kServing;
    cluster.tables.replicas[replica.id.n] = replica;
  }
  PipelineStats stats{.replica = ReplicaId(11), .queued = 2, .in_flight = 3};
  stats.service = milliseconds(40);
  stats.microbatches = 7;
  stats.dropped = 4;
  stats.added_again = 3;
  stats.busy = 0.5;
  stats.links = {{ReplicaId(12), milliseconds(10), 5, Bytes(100), Bytes(50)},
                 {ReplicaId(13), milliseconds(10), 5, Bytes(100), Bytes(50)}};
  PipelineLive said{stats, live.now - seconds(1), 4, {}};
  said.links.put(ReplicaId(12), {1000, 500});
  live.pipeline.put(ReplicaId(11), said);
  live.agents[AgentId(1)].relay = RelayFigures{.waiting = 2, .joined = 1};
  live.agents[AgentId(1)].samples = {
      {.uuid = "GPU-1",
       .answer = DeviceAnswer::kWhole,
       .use = DeviceUse{.busy = 0.75, .used_here = Bytes(1000), .used_elsewhere = Bytes(2000)},
       .climate = DeviceClimate{.celsius = 71, .watts = 350, .mhz = 1200},
       .errors = DeviceErrors{.xids = {{79, 1, seconds(4)}}}}};
  cluster.set_live(std::move(live));
}

}  // namespace shoal::coordinator::testing
