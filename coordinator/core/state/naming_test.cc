#include "coordinator/core/state/naming.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

State with_replicas(std::uint64_t count) {
  State state;
  AgentRecord agent;
  agent.id = AgentId(2);
  agent.name = "attic";
  state.agents.put(agent.id, agent);
  for (std::uint64_t i = 1; i <= count; ++i) {
    ReplicaRecord replica;
    replica.id = ReplicaId(i);
    replica.agent = agent.id;
    state.replicas.put(replica.id, replica);
  }
  return state;
}

TEST(Naming, AReplicaIsCalledWithItsAgent) {
  EXPECT_EQ(display_name(with_replicas(1), ReplicaId(1)), "rep_1 of attic");
  EXPECT_EQ(display_name(with_replicas(1), ReplicaId(9)), "rep_9");
  EXPECT_EQ(display_name(with_replicas(2), {ReplicaId(2), ReplicaId(1)}),
            "rep_2 of attic, rep_1 of attic");
}

TEST(Naming, NamesTheFirstOfMany) {
  std::vector<ReplicaId> all;
  for (std::uint64_t i = 1; i <= 10; ++i) all.push_back(ReplicaId(i));
  const std::string names = display_name(with_replicas(10), all);
  EXPECT_NE(names.find("rep_8 of attic and 2 more"), std::string::npos) << names;
  EXPECT_EQ(names.find("rep_9"), std::string::npos) << names;
}

}  // namespace
}  // namespace shoal::coordinator
