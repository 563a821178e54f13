// Every field of every listed struct below these folders counts in the digest: what jobs are made
// of, messages, and the states of agents, participants and pipeline sessions.
#include "agent/core/agent_data.h"
#include "base/field_flips_test_util.h"
#include "job/block_shape.h"
#include "job/job_rules.h"
#include "job/program_rules.h"
#include "messages/refusals.h"
#include "messages/trainer_messages.h"
#include "outer_opt/core/participant/reducer.h"
#include "outer_opt/core/round/audit.h"
#include "outer_opt/core/round/topology.h"
#include "swarm/core/session/draws.h"
#include "swarm/core/session/gossip_schedule.h"
#include "swarm/core/session/peers.h"
#include "swarm/core/session/reach.h"
#include "swarm/core/session/tasks.h"
#include "tests/fields/listed_structs_test_util.h"

namespace shoal {
namespace {

const RoundKey kKey{JobId(1), 0, 4};

void flip_session(FieldFlips& flips) {
  const swarm::SessionOptions options{.self = ReplicaId(1)};
  swarm::StepBooks books;
  swarm::StepBarrier barrier(PipelineSchedule::kFlush, 3, 40);
  swarm::RoundProgress progress(ReplicaId(1));
  swarm::Peers peers(options);
  swarm::SessionStats stats;
  swarm::Tasks tasks(true, books, peers.wiring(), stats, {});
  swarm::Draws draws(options, books, barrier, progress);
  swarm::GossipSchedule gossip;
  swarm::Reach reach(seconds(1));
  const auto flip_each = [&](auto&... parts) { (flips.flip_all(parts), ...); };
  flip_each(books, barrier, progress, peers, stats, tasks, draws, gossip, reach);
}

TEST(StateFields, EveryFieldOfEveryListedStructCounts) {
  FieldFlips flips;
  flips.flip_all_of<JobSpec, BlockShape, AllowedPrograms, Hello, FromAgent, ToAgent, FromTrainer,
                    ToTrainer, RefusalCount, outer_opt::Accusation, outer_opt::TopologyChoice,
                    swarm::ProgressGossip>();
  outer_opt::Participant participant(ReplicaId(1), kKey, outer_opt::WhenLate::kStops);
  flips.flip_all(participant);
  outer_opt::Reducer reducer{ReplicaId(1)};
  flips.flip_all(reducer);
  flip_session(flips);
  agent::AgentData data{.options = {},
                        .prng = Prng(1),
                        .link_backoff = Backoff(seconds(1), seconds(2)),
                        .outbox = Outbox<FromAgent>(4)};
  flips.flip_all(data);
  std::set<std::string> missing =
      listed_structs({"agent", "job", "messages", "outer_opt", "swarm"});
  for (const std::string& name : flips.structs()) missing.erase(name);
  EXPECT_EQ(missing, std::set<std::string>{}) << "add them above";
}

template <typename T>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const FieldInfo& field : kFields<T>.info) names.push_back(field.name);
  return names;
}

// Stored, on the wire and in answers: they stay, however a list is written.
TEST(StateFields, HaveTheNamesThatReadersKnow) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of<RoundKey>(), (Names{"job", "epoch", "round"}));
  EXPECT_EQ(names_of<Device>(), (Names{"index", "kind", "name", "memory_bytes", "gflops", "bf16",
                                       "uuid", "total_bytes", "grouped"}));
  EXPECT_EQ(names_of<AllowedPrograms>(), (Names{"runs_programs", "code_from", "program_limits"}));
  EXPECT_EQ(names_of<DeviceUse>(),
            (Names{"busy", "stolen", "used_here_bytes", "used_elsewhere_bytes", "busy_elsewhere"}));
  EXPECT_EQ(names_of<FromReplica<Vote>>(), (Names{"replica", "body"}));
  EXPECT_EQ(names_of<RefusalCounts>(), (Names{"by_reason"}));
}

}  // namespace
}  // namespace shoal
