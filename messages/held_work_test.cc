#include "messages/held_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ReplicaId kReplica{3};

RoundKey key(RoundNumber round, std::int64_t epoch = 0) { return {JobId(1), epoch, round}; }

CommitRecord record(RoundNumber round, std::int64_t epoch = 0) {
  CommitRecord made;
  made.key = key(round, epoch);
  made.next_sequence = round * 100;
  return made;
}

LoadReplica load(ReplicaId replica, RoundNumber round) {
  Assign assign{.replica = replica, .job = JobId(1)};
  assign.source.key = key(round);
  assign.record = record(round);
  return {assign, ""};
}

Loaded loaded(RoundNumber round, std::uint64_t digest, std::int64_t epoch = 0) {
  return {kReplica, key(round, epoch), {digest, 1}, {digest, 2}, 10, "10.0.0.4:7100", {}};
}

ToReplica<CommitRound> commit(RoundNumber round) {
  ToReplica<CommitRound> command{kReplica, {}};
  command.body.key = key(round);
  command.body.record = record(round);
  return command;
}

FromReplica<Applied> applied(RoundNumber round, std::uint64_t digest) {
  FromReplica<Applied> message{kReplica, {}};
  message.body.key = key(round);
  message.body.anchor = {digest, 1};
  message.body.momentum = {digest, 2};
  return message;
}

FromReplica<RoundReport> report(RoundNumber round) { return {kReplica, {.key = key(round)}}; }

class HeldWorkTest : public testing::Test {
 protected:
  void serve() {
    work_.heard(load(kReplica, 4));
    work_.said(loaded(4, 40));
  }
  HeldWork work_;
};

TEST_F(HeldWorkTest, WithoutWorkThereIsNothingToSay) {
  EXPECT_FALSE(work_.holds().has_value());
  EXPECT_THAT(work_.say_again(), IsEmpty());
  work_.said(report(1));
  EXPECT_THAT(work_.say_again(), IsEmpty()) << "of a replica that it was never given";
}

TEST_F(HeldWorkTest, WhileItLoadsItSaysSo) {
  work_.heard(load(kReplica, 4));
  EXPECT_EQ(work_.holds(), load(kReplica, 4).assign);
  EXPECT_THAT(work_.say_again(), IsEmpty());
}

TEST_F(HeldWorkTest, TheStateThatIsHeldIsThatOfTheNewestOuterStep) {
  serve();
  work_.heard(commit(5));
  EXPECT_EQ(work_.holds()->record, record(4)) << "told, not taken";
  EXPECT_THAT(work_.say_again(), ElementsAre(FromTrainer(loaded(4, 40))));
  work_.said(applied(5, 50));
  EXPECT_EQ(work_.holds()->record, record(5));
  EXPECT_THAT(work_.say_again(),
              ElementsAre(FromTrainer(loaded(5, 50)), FromTrainer(applied(5, 50))));
}

TEST_F(HeldWorkTest, ASlowReplicaMayBeToldOfTheNextCommitBeforeItHasObeyed) {
  serve();
  work_.heard(commit(5));
  work_.heard(commit(6));
  work_.said(applied(5, 50));
  EXPECT_EQ(work_.holds()->record, record(5));
  work_.heard(commit(7));
  work_.said(applied(6, 60));
  work_.said(applied(5, 50));
  EXPECT_EQ(work_.holds()->record, record(6)) << "not back";
}

TEST_F(HeldWorkTest, AStateInANewEpochIsLoadedAnew) {
  serve();
  ToReplica<ResumeAt> resume{kReplica, {}};
  resume.body.record = record(4, 1);
  work_.heard(resume);
  work_.said(loaded(4, 40, 1));
  EXPECT_EQ(work_.holds()->record, record(4, 1));
  EXPECT_THAT(work_.say_again(), ElementsAre(FromTrainer(loaded(4, 40, 1))));
}

TEST_F(HeldWorkTest, TheNewestOfEachKindIsSaidAgain) {
  serve();
  work_.said(report(5));
  work_.said(Progress{.replica = kReplica});
  work_.said(PipelineStats{.replica = kReplica});
  work_.said(LoadProgress{.replica = kReplica});
  work_.said(FromReplica<Vote>{kReplica, {.key = key(5)}});
  work_.said(report(6));
  const std::vector<FromTrainer> expected{loaded(4, 40),
                                          FromReplica<Vote>{kReplica, {.key = key(5)}}, report(6)};
  EXPECT_EQ(work_.say_again(), expected);
  EXPECT_EQ(work_.say_again(), expected) << "until there is something newer";
}

TEST_F(HeldWorkTest, AFailureIsTheLastWord) {
  serve();
  work_.said(report(5));
  const ReplicaFailed failed{kReplica, ReplicaFailure::kStale, "missed"};
  work_.said(failed);
  EXPECT_FALSE(work_.holds().has_value());
  EXPECT_THAT(work_.say_again(), ElementsAre(FromTrainer(failed)));
  work_.heard(load(ReplicaId(9), 5));
  EXPECT_THAT(work_.say_again(), ElementsAre(FromTrainer(failed))) << "nobody may have heard it";
  work_.heard(Release{kReplica, ReleaseReason::kReplaced});
  EXPECT_THAT(work_.say_again(), IsEmpty());
  EXPECT_EQ(work_.holds()->replica, ReplicaId(9));
}

TEST_F(HeldWorkTest, ARepeatedLoadChangesNothing) {
  serve();
  work_.heard(commit(5));
  work_.said(applied(5, 50));
  work_.heard(load(kReplica, 4));
  EXPECT_EQ(work_.holds()->record, record(5));
}

TEST_F(HeldWorkTest, AReleaseEndsIt) {
  serve();
  work_.said(report(5));
  work_.heard(Release{kReplica, ReleaseReason::kCompleted});
  EXPECT_FALSE(work_.holds().has_value());
  EXPECT_THAT(work_.say_again(), IsEmpty());
}

TEST_F(HeldWorkTest, AnotherReplicaTakesItsPlace) {
  serve();
  work_.said(report(5));
  work_.heard(load(ReplicaId(9), 5));
  EXPECT_EQ(work_.holds()->replica, ReplicaId(9));
  EXPECT_THAT(work_.say_again(), IsEmpty());
  work_.said(applied(6, 60));
  EXPECT_EQ(work_.holds()->record, record(5)) << "news of the one before";
}

}  // namespace
}  // namespace shoal
