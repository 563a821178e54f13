// An agent that joins a running job takes part in it, for each kind of round of docs/joining.md
// that several replicas can have: it contributes to a committed round, and all have the same
// digests. So do many agents that join at once.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::text_at;

struct Kind {
  std::string name;
  std::vector<std::string> settings;  // beside those of TinyJob
};

// A job that continues until it is cancelled.
Finished submit(const Cluster& cluster, const Kind& kind) {
  TinyJob job;
  job.name = kind.name;
  job.steps = 1'000'000;
  std::vector<std::string> command = {"job", "submit", cluster.write_job(job)};
  for (const std::string& setting : kind.settings) {
    command.insert(command.end(), {"--set", setting});
  }
  return cluster.shoal(command);
}

std::vector<Json> newest_rounds(const Cluster& cluster, const std::string& job) {
  auto page = cluster.api().get("/jobs/" + job + "/rounds?order=desc&limit=20");
  return page.ok() ? page->at("items").get<std::vector<Json>>() : std::vector<Json>();
}

// So many replicas trained for this round, it is committed, and each group has one digest.
bool has_all(const Json& round, std::size_t replicas) {
  std::set<std::string> who, digests, groups;
  for (const Json& one : round.at("contributions")) {
    const std::string digest = text_at(one, "digest"), group = one.at("group").dump();
    groups.insert(group);
    if (digest.empty() || digest == "null") continue;
    who.insert(text_at(one, "replica"));
    digests.insert(group + digest);
  }
  return text_at(round, "state") == "committed" && who.size() == replicas &&
         digests.size() == groups.size();
}

bool all_take_part(const Cluster& cluster, const std::string& job, std::size_t replicas,
                   double limit_s) {
  return eventually(limit_s, [&] {
    const auto rounds = newest_rounds(cluster, job);
    return std::ranges::any_of(rounds, [&](const Json& r) { return has_all(r, replicas); });
  });
}

std::vector<std::string> failures(const Cluster& cluster, const std::string& job) {
  std::vector<std::string> found;
  for (const Json& replica : cluster.items("/jobs/" + job + "/replicas")) {
    if (text_at(replica, "state") != "failed") continue;
    found.push_back(text_at(replica, "id") + " " + text_at(replica, "failure") + ": " +
                    text_at(replica, "detail"));
  }
  return found;
}

class Joiners : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  }
};

TEST_F(Joiners, EnterEachKindOfRoundWithTheDigestsOfTheOthers) {
  Cluster cluster(3);
  ASSERT_EQ(cluster.problem(), "");
  const std::vector<Kind> kinds = {
      {"diloco", {}},
      {"fragments", {"sync.fragments=2", "sync.overlap_steps=2"}},
      {"local", {"sync.algorithm=\"local_sgd\""}},
      {"moments", {"train.join=\"moments\""}},
      {"sparse",
       {"sync.codec=\"sparse2\"", "sync.topology=\"allgather\"", "sync.outer.lr=1",
        "sync.outer.momentum=0"}},
      {"sharded", {"sync.outer_state=\"sharded\""}},
      {"async", {"sync.algorithm=\"async\""}},
      {"ddp", {"sync.algorithm=\"ddp\"", "sync.every=1"}},
      {"gossip", {"sync.topology=\"gossip\"", "sync.codec=\"fp32\"", "sync.outer.momentum=0.5"}}};
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    ASSERT_TRUE(cluster.end_agent(2, SIGTERM));
    const Finished submitted = submit(cluster, kind);
    ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
    ASSERT_TRUE(eventually(60, [&] { return cluster.rounds_committed(kind.name) >= 3; }));
    ASSERT_TRUE(cluster.start_agent(2));
    EXPECT_TRUE(all_take_part(cluster, kind.name, 3, 60));
    EXPECT_EQ(failures(cluster, kind.name), std::vector<std::string>());
    ASSERT_EQ(cluster.shoal({"job", "cancel", kind.name}).exit_code, 0);
    ASSERT_TRUE(eventually(30, [&] { return cluster.phase_of(kind.name) == "cancelled"; }));
  }
}

TEST_F(Joiners, EightThatComeWithinASecondAllTakePart) {
  constexpr std::size_t kAgents = 10;
  Cluster cluster(kAgents);
  ASSERT_EQ(cluster.problem(), "");
  for (std::size_t agent = 2; agent < kAgents; ++agent) {
    ASSERT_TRUE(cluster.end_agent(agent, SIGTERM));
  }
  // Rounds that ten trainers on a few cores can follow.
  ASSERT_EQ(submit(cluster, {"crowd", {"sync.every=20"}}).exit_code, 0);
  ASSERT_TRUE(eventually(60, [&] { return cluster.rounds_committed("crowd") >= 2; }));
  for (std::size_t agent = 2; agent < kAgents; ++agent) ASSERT_TRUE(cluster.start_agent(agent));
  EXPECT_TRUE(all_take_part(cluster, "crowd", kAgents, 150));
  EXPECT_EQ(failures(cluster, "crowd"), std::vector<std::string>());
}

}  // namespace
}  // namespace shoal::integration
