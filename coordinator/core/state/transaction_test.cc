// What one step of the core writes and sends, and in which order.
#include "coordinator/core/state/transaction.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kNow{1'000};
constexpr JobId kJob{3};
constexpr AgentId kAgent{1};
constexpr ReplicaId kReplica{5};
const RoundKey kRound{kJob, 0, 1};

// A job on one agent that is connected, with a replica in its first round.
State example() {
  State state;
  state.jobs.put(kJob, {.id = kJob});
  state.agents.put(kAgent, {.id = kAgent, .name = "a"});
  state.presence.put(kAgent, {.connection = {7}, .connected = true});
  state.replicas.put(kReplica, {.id = kReplica, .job = kJob, .agent = kAgent});
  state.rounds.put(kRound, {.key = kRound});
  state.contributions.put({kRound, kReplica}, {.key = kRound, .replica = kReplica});
  return state;
}

// "counters", "job", …: the kinds of records that are persisted, "send" and so on behind them.
std::vector<std::string> kinds_of(Transaction& tx) {
  std::vector<std::string> kinds;
  for (const Effect& effect : effects_of(tx)) {
    if (const auto* persist = std::get_if<Persist>(&effect)) {
      const char* const names[] = {"counters",     "job",        "agent", "replica", "round",
                                   "contribution", "checkpoint", "event", "text",    "link"};
      kinds.emplace_back(names[persist->record.index()]);
    } else {
      kinds.emplace_back(std::holds_alternative<Send>(effect)         ? "send"
                         : std::holds_alternative<Disconnect>(effect) ? "disconnect"
                         : std::holds_alternative<Reply>(effect)      ? "reply"
                                                                      : "delete");
    }
  }
  return kinds;
}

TEST(Transaction, WithoutAChangeNothingComesOut) {
  State state = example();
  Transaction tx(state, kNow);
  EXPECT_THAT(kinds_of(tx), IsEmpty());
  EXPECT_EQ(tx.activity(), 0u);
}

TEST(Transaction, RecordsComeBeforeMessagesInOneOrder) {
  State state = example();
  Transaction tx(state, kNow);
  tx.tell(kReplica, CloseRound{kRound});
  tx.reply({9}, kJob);
  tx.event(Severity::kInfo, "job_phase", {.job = kJob}, "it trains");
  tx.round(kRound);
  tx.contribution(kRound, kReplica);
  tx.replica(kReplica);
  tx.job(kJob);
  tx.agent(kAgent);
  EXPECT_THAT(kinds_of(tx), ElementsAre("counters", "agent", "job", "replica", "round",
                                        "contribution", "event", "send", "reply"));
}

TEST(Transaction, ARecordIsWrittenOnceWithItsLastValueAndItsTime) {
  State state = example();
  Transaction tx(state, kNow);
  tx.job(kJob).committed_round = 1;
  tx.job(kJob).committed_round = 2;
  const Effects effects = effects_of(tx);
  ASSERT_EQ(effects.size(), 1u);
  const auto& written = std::get<JobRecord>(std::get<Persist>(effects[0]).record);
  EXPECT_EQ(written.committed_round, 2);
  EXPECT_EQ(written.updated_at, kNow);
  EXPECT_EQ(tx.activity(), 2u);
}

TEST(Transaction, WhatIsDroppedIsWrittenALastTimeWhereItWasTouched) {
  State state = example();
  {
    Transaction tx(state, kNow);
    tx.contribution(kRound, kReplica).weight = 1;
    tx.drop_round(kRound);
    EXPECT_TRUE(state.rounds.empty() && state.contributions.empty());
    EXPECT_THAT(kinds_of(tx), ElementsAre("contribution")) << "the round was not touched";
  }
  Transaction tx(state, kNow);
  tx.drop_replica(kReplica);
  EXPECT_THAT(kinds_of(tx), IsEmpty());
  EXPECT_FALSE(state.replicas.contains(kReplica));
}

// A dropped record goes first: its key may be given again in the same step.
TEST(Transaction, ADroppedRecordIsWrittenBeforeItsSuccessor) {
  State state = example();
  Transaction tx(state, kNow);
  tx.replica(kReplica).held_round = 4;
  tx.drop_replica(kReplica);
  tx.add(ReplicaRecord{.id = kReplica, .job = kJob, .agent = kAgent});
  const Effects effects = effects_of(tx);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(std::get<ReplicaRecord>(std::get<Persist>(effects[0]).record).held_round, 4);
  EXPECT_EQ(std::get<ReplicaRecord>(std::get<Persist>(effects[1]).record).held_round, -1);
}

TEST(Transaction, EventsAreNumberedAndDated) {
  State state = example();
  state.counters.next_event = 40;
  Transaction tx(state, kNow);
  tx.event(Severity::kWarning, "replica_failed", {.job = kJob, .replica = kReplica}, "it hangs");
  tx.event(Severity::kInfo, "job_phase", {}, "");
  const Effects effects = effects_of(tx);
  ASSERT_EQ(effects.size(), 3u);
  const auto& event = std::get<EventRecord>(std::get<Persist>(effects[1]).record);
  EXPECT_EQ(event.seq, 40);
  EXPECT_EQ(event.at, kNow);
  EXPECT_EQ(event.replica, kReplica);
  EXPECT_EQ(state.counters.next_event, 42);
}

TEST(Transaction, NobodyHearsAnythingWhoIsNotConnected) {
  State state = example();
  state.presence.at(kAgent).connected = false;
  Transaction tx(state, kNow);
  tx.tell(kReplica, CloseRound{kRound});
  tx.send(AgentId(99), Release{});
  EXPECT_THAT(kinds_of(tx), IsEmpty());
  tx.send_to({7}, Release{});
  EXPECT_THAT(kinds_of(tx), ElementsAre("send")) << "the stream may be open yet";
}

TEST(Transaction, TheEarliestLookCounts) {
  State state = example();
  Transaction tx(state, kNow);
  tx.schedule_wakeup(kJob, kNow + seconds(5));
  tx.schedule_wakeup(kJob, kNow + seconds(2));
  tx.schedule_wakeup(kJob, kNow + seconds(9));
  EXPECT_EQ(state.timers.at(kJob).wakeup_at, kNow + seconds(2));
}

TEST(TransactionDeathTest, ARecordThatIsNotThereCannotBeWritten) {
  State state = example();
  Transaction tx(state, kNow);
  EXPECT_DEATH(tx.job(JobId(99)), "no such key");
}

}  // namespace
}  // namespace shoal::coordinator
