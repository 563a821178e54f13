// Every state against every command, as a table: what is done and where it leads. Below the table,
// the courses of rounds that the table cannot show.
#include "outer_opt/core/participant/participant.h"

#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "outer_opt/core/participant/participant_test_util.h"

namespace shoal::outer_opt {
namespace {

const std::map<std::string, Drive> kCommands = {
    {"open", [](auto& p, auto& out) { p.open(open_round(), out); }},
    {"open_fewer_steps", [](auto& p, auto& out) { p.open(open_round(5, 90), out); }},
    {"open_more_steps", [](auto& p, auto& out) { p.open(open_round(5, 110), out); }},
    {"open_old_round", [](auto& p, auto& out) { p.open(open_round(3), out); }},
    {"open_beyond", [](auto& p, auto& out) { p.open(open_round(7), out); }},
    {"open_old_epoch", [](auto& p, auto& out) { p.open(open_round(5, 100, 1), out); }},
    {"open_new_epoch", [](auto& p, auto& out) { p.open(open_round(5, 100, 3), out); }},
    {"open_other_job",
     [](auto& p, auto& out) {
       p.open({key(5, 2, 8), Steps(0), Steps(9), {}}, out);
     }},
    {"close", [](auto& p, auto& out) { p.close({kNext}, out); }},
    {"close_old", [](auto& p, auto& out) { p.close({key(3)}, out); }},
    {"reduce_lower", [](auto& p, auto& out) { p.reduce(plan(1), out); }},
    {"reduce", [](auto& p, auto& out) { p.reduce(plan(2), out); }},
    {"reduce_higher", [](auto& p, auto& out) { p.reduce(plan(3), out); }},
    {"reduce_beyond", [](auto& p, auto& out) { p.reduce(plan(1, 640, 7), out); }},
    {"commit", [](auto& p, auto& out) { p.commit(commit(), out); }},
    {"commit_other_average",
     [](auto& p, auto& out) {
       p.commit(commit(5, {9, 9}), out);
     }},
    {"commit_held", [](auto& p, auto& out) { p.commit(commit(4), out); }},
    {"commit_beyond", [](auto& p, auto& out) { p.commit(commit(7), out); }},
    {"abort", [](auto& p, auto& out) { p.abort(abort_round(), out); }},
    {"abort_fewer_steps", [](auto& p, auto& out) { p.abort(abort_round(90), out); }},
    {"abort_same_steps", [](auto& p, auto& out) { p.abort(abort_round(100), out); }},
    {"abort_beyond", [](auto& p, auto& out) { p.abort(abort_round(110, 7), out); }},
    {"boundary", [](auto& p, auto& out) { p.boundary(report(), out); }},
    {"reduced", [](auto& p, auto& out) { p.reduced(2, kAverage, {}, {}, out); }},
    {"reduced_other", [](auto& p, auto& out) { p.reduced(1, kAverage, {}, {}, out); }},
    {"reduce_failed", [](auto& p, auto& out) { p.reduce_failed(failed(), out); }},
    {"reduce_failed_other", [](auto& p, auto& out) { p.reduce_failed(failed(1), out); }},
    {"outer_step_taken",
     [](auto& p, auto& out) {
       p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
     }},
};

struct Row {
  std::string actions;
  ParticipantState state;
};

using Table = std::map<std::string, Row>;
constexpr auto I = ParticipantState::kIdle, T = ParticipantState::kTraining,
               R = ParticipantState::kReported, D = ParticipantState::kReducing,
               V = ParticipantState::kVoted, S = ParticipantState::kStale;

// Commands that are not in a state's table do nothing in it.
const std::map<std::string, Table> kTables = {
    {"idle",
     {{"open", {"train100", T}},
      {"open_fewer_steps", {"train90", T}},
      {"open_more_steps", {"train110", T}},
      {"open_beyond", {"stale", S}},
      {"open_new_epoch", {"stale", S}},
      {"reduce_lower", {"follow1", D}},
      {"reduce", {"follow2", D}},
      {"reduce_higher", {"follow3", D}},
      {"reduce_beyond", {"stale", S}},
      {"commit", {"stale", S}},
      {"commit_other_average", {"stale", S}},
      {"commit_held", {"train150", T}},
      {"commit_beyond", {"stale", S}},
      {"abort", {"train110", T}},
      {"abort_fewer_steps", {"train90", T}},
      {"abort_same_steps", {"train100", T}},
      {"abort_beyond", {"stale", S}}}},
    {"training",
     {{"open_more_steps", {"train110", T}},
      {"open_beyond", {"stop_training stale", S}},
      {"open_new_epoch", {"stop_training stale", S}},
      {"close", {"close_training", T}},
      {"reduce_lower", {"stop_training follow1", D}},
      {"reduce", {"stop_training follow2", D}},
      {"reduce_higher", {"stop_training follow3", D}},
      {"reduce_beyond", {"stop_training stale", S}},
      {"commit", {"stop_training stale", S}},
      {"commit_other_average", {"stop_training stale", S}},
      {"commit_beyond", {"stop_training stale", S}},
      {"abort", {"train110", T}},
      {"abort_beyond", {"stop_training stale", S}},
      {"boundary", {"say:report", R}}}},
    {"reported",
     {{"open", {"say:report", R}},
      {"open_fewer_steps", {"say:report", R}},
      {"open_more_steps", {"train110", T}},
      {"open_beyond", {"stale", S}},
      {"open_new_epoch", {"stale", S}},
      {"close", {"say:report", R}},
      {"reduce_lower", {"reduce1", D}},
      {"reduce", {"reduce2", D}},
      {"reduce_higher", {"reduce3", D}},
      {"reduce_beyond", {"stale", S}},
      {"commit", {"stale", S}},
      {"commit_other_average", {"stale", S}},
      {"commit_beyond", {"stale", S}},
      {"abort", {"train110", T}},
      {"abort_same_steps", {"say:report", R}},
      {"abort_beyond", {"stale", S}}}},
    {"reducing",
     {{"open", {"say:report", D}},
      {"open_fewer_steps", {"say:report", D}},
      {"open_more_steps", {"stop_reduce2 train110", T}},
      {"open_beyond", {"stop_reduce2 stale", S}},
      {"open_new_epoch", {"stop_reduce2 stale", S}},
      {"close", {"say:report", D}},
      {"reduce_higher", {"stop_reduce2 reduce3", D}},
      {"reduce_beyond", {"stop_reduce2 stale", S}},
      {"commit", {"stop_reduce2 stale", S}},
      {"commit_other_average", {"stop_reduce2 stale", S}},
      {"commit_beyond", {"stop_reduce2 stale", S}},
      {"abort", {"stop_reduce2 train110", T}},
      {"abort_same_steps", {"say:report", D}},
      {"abort_beyond", {"stop_reduce2 stale", S}},
      {"reduced", {"say:vote", V}},
      {"reduce_failed", {"say:failed", R}}}},
    {"joiner_reducing",
     {{"open", {"", D}},
      {"open_beyond", {"stop_reduce2 stale", S}},
      {"open_new_epoch", {"stop_reduce2 stale", S}},
      {"reduce_higher", {"stop_reduce2 follow3", D}},
      {"reduce_beyond", {"stop_reduce2 stale", S}},
      {"commit", {"stop_reduce2 stale", S}},
      {"commit_other_average", {"stop_reduce2 stale", S}},
      {"commit_beyond", {"stop_reduce2 stale", S}},
      {"abort", {"stop_reduce2 train110", T}},
      {"abort_fewer_steps", {"stop_reduce2 train90", T}},
      {"abort_same_steps", {"stop_reduce2 train100", T}},
      {"abort_beyond", {"stop_reduce2 stale", S}},
      {"reduced", {"say:vote", V}},
      {"reduce_failed", {"say:failed", R}}}},
    {"late_reducing",
     {{"open_more_steps", {"stop_reduce2 train110", T}},
      {"open_beyond", {"stop_reduce2 stale", S}},
      {"open_new_epoch", {"stop_reduce2 stale", S}},
      {"reduce_higher", {"stop_reduce2 follow3", D}},
      {"reduce_beyond", {"stop_reduce2 stale", S}},
      {"commit", {"stop_reduce2 stale", S}},
      {"commit_other_average", {"stop_reduce2 stale", S}},
      {"commit_beyond", {"stop_reduce2 stale", S}},
      {"abort", {"stop_reduce2 train110", T}},
      {"abort_beyond", {"stop_reduce2 stale", S}},
      {"boundary", {"say:report", D}},
      {"reduced", {"say:vote", V}},
      {"reduce_failed", {"say:failed", R}}}},
    {"failed",
     {{"open", {"say:report", R}},
      {"open_fewer_steps", {"say:report", R}},
      {"open_more_steps", {"train110", T}},
      {"open_beyond", {"stale", S}},
      {"open_new_epoch", {"stale", S}},
      {"close", {"say:report", R}},
      {"reduce", {"say:failed", R}},
      {"reduce_higher", {"reduce3", D}},
      {"reduce_beyond", {"stale", S}},
      {"commit", {"stale", S}},
      {"commit_other_average", {"stale", S}},
      {"commit_beyond", {"stale", S}},
      {"abort", {"train110", T}},
      {"abort_same_steps", {"say:report", R}},
      {"abort_beyond", {"stale", S}}}},
    {"voted",
     {{"open", {"say:report", V}},
      {"open_fewer_steps", {"say:report", V}},
      {"open_more_steps", {"train110", T}},
      {"open_beyond", {"stale", S}},
      {"open_new_epoch", {"stale", S}},
      {"close", {"say:report", V}},
      {"reduce", {"say:vote", V}},
      {"reduce_higher", {"reduce3", D}},
      {"reduce_beyond", {"stale", S}},
      {"commit", {"outer_step", I}},
      {"commit_other_average", {"stale", S}},
      {"commit_beyond", {"stale", S}},
      {"abort", {"train110", T}},
      {"abort_same_steps", {"say:report", V}},
      {"abort_beyond", {"stale", S}}}},
    {"taking",  // round 5 is being applied: 5 counts as held, 6 is next
     {{"open_new_epoch", {"stale", S}},
      {"open_beyond", {"stale", S}},
      {"reduce_beyond", {"stale", S}},
      {"commit_beyond", {"stale", S}},
      {"abort_beyond", {"stale", S}},
      {"outer_step_taken", {"say:applied train150", T}}}},
    {"applied",  // round 5 is held and was the last one
     {{"open_new_epoch", {"stale", S}},
      {"open_beyond", {"stale", S}},
      {"reduce_beyond", {"stale", S}},
      {"commit", {"say:applied train150", T}},
      {"commit_other_average", {"say:applied train150", T}},
      {"commit_beyond", {"stale", S}},
      {"abort_beyond", {"stale", S}}}},
    {"stale", {}},
};

TEST(Participant, EveryStateAgainstEveryCommand) {
  for (const auto& [state, table] : kTables) {
    for (const auto& [command, row] : table) ASSERT_TRUE(kCommands.contains(command)) << command;
    for (const auto& [command, drive] : kCommands) {
      Participant p = make(state);
      const ParticipantState before = p.state();
      const Digest digest = p.digest();
      Actions out;
      drive(p, out);
      const auto row = table.find(command);
      EXPECT_EQ(names(out), row == table.end() ? "" : row->second.actions)
          << state << " " << command;
      EXPECT_EQ(to_string(p.state()), to_string(row == table.end() ? before : row->second.state))
          << state << " " << command;
      if (before != p.state()) {
        EXPECT_NE(digest, p.digest()) << state << " " << command;
      }
    }
  }
}

// A second delivery of the same command never starts anything.
TEST(Participant, SecondDeliveryOnlyRepeatsAnswers) {
  for (const auto& [state, table] : kTables) {
    for (const auto& [command, drive] : kCommands) {
      Participant p = make(state);
      Actions first, second;
      drive(p, first);
      const ParticipantState after = p.state();
      drive(p, second);
      EXPECT_EQ(p.state(), after) << state << " " << command;
      const bool starts = names(second).find("train1") != std::string::npos ||
                          names(second).find("reduce") != std::string::npos ||
                          names(second).find("outer_step") != std::string::npos;
      EXPECT_FALSE(starts) << state << " " << command << ": " << names(second);
    }
  }
}

TEST(Participant, RoundAfterRound) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.boundary(report(), out);
  p.reduce(plan(), out);
  p.reduced(2, kAverage, {}, {}, out);
  p.commit(commit(), out);
  EXPECT_EQ(p.held(), kHeld);
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_EQ(names(out), "train100 say:report reduce2 say:vote outer_step say:applied train150");
  EXPECT_EQ(p.held(), kNext);
  EXPECT_EQ(p.state(), ParticipantState::kTraining);
}

TEST(Participant, TheVoteNamesWhomTheOwnPartIsWithout) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.boundary(report(), out);
  p.reduce(plan(), out);
  const Digest before = p.digest();
  Participant other = p;
  p.reduced(2, kAverage, {}, {{kOther}, {}, {}}, out);
  EXPECT_EQ(std::get<Vote>(std::get<Say>(out.back()).message).seen.excluded, std::vector{kOther});
  p.reduce(plan(), out);  // asked again
  EXPECT_EQ(std::get<Vote>(std::get<Say>(out.back()).message).seen.excluded, std::vector{kOther});
  other.reduced(2, kAverage, {}, {}, out);
  EXPECT_NE(p.digest(), before);
  EXPECT_NE(p.digest(), other.digest());
}

ReducePlan audit(std::int32_t attempt) {
  ReducePlan p = plan(attempt);
  p.audited = {{kOther, kSelf, 5, 5}, {kSelf, kOther, 0, 5}};
  return p;
}

const Vote& said_last(const Actions& actions) {
  return std::get<Vote>(std::get<Say>(actions.back()).message);
}

TEST(Participant, AnAuditEndsWithAVoteForTheSameAverageAndTheCommitIsObeyed) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.boundary(report(), out);
  p.reduce(plan(), out);
  p.reduced(2, kAverage, {}, {}, out);
  for (const std::int32_t attempt : {3, 4}) {  // the second is that of a third owner
    p.reduce(audit(attempt), out);
    EXPECT_EQ(p.state(), ParticipantState::kReducing);
    p.reduced(attempt, {}, {}, {{}, {}, {kOther}}, out);
    EXPECT_EQ(said_last(out).average, kAverage);
    EXPECT_EQ(said_last(out).attempt, attempt);
    EXPECT_EQ(said_last(out).seen.disputed, std::vector{kOther});
  }
  p.reduce(audit(4), out);
  EXPECT_EQ(said_last(out).average, kAverage) << "asked again";
  out.clear();
  p.commit(commit(), out);
  EXPECT_EQ(names(out), "outer_step");
}

TEST(Participant, AfterAnAuditTheNextAttemptHasAnAverageOfItsOwn) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.boundary(report(), out);
  p.reduce(plan(), out);
  p.reduced(2, kAverage, {}, {}, out);
  p.reduce(audit(3), out);
  p.reduced(3, {}, {}, {}, out);
  p.reduce(plan(4), out);
  p.reduced(4, {8, 8}, {}, {}, out);
  EXPECT_EQ(said_last(out).average, (Digest{8, 8}));
}

TEST(Participant, AnAuditOfWhatItHasNotVotedForFails) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.boundary(report(), out);
  p.reduce(audit(3), out);
  const auto& failure = std::get<ReduceFailed>(std::get<Say>(out.back()).message);
  EXPECT_EQ(failure.failure, ReduceFailure::kPlanMismatch);
  EXPECT_EQ(failure.attempt, 3);
  EXPECT_EQ(p.state(), ParticipantState::kReported);
}

std::int32_t aborts_said(const Actions& actions) {
  return std::get<RoundReport>(std::get<Say>(actions.back()).message).aborts;
}
AbortRound nth_abort(std::int32_t aborts, std::int64_t to_step) {
  AbortRound command = abort_round(to_step);
  command.next.aborts = aborts;
  return command;
}

TEST(Participant, AReportSaysAfterHowManyAbortsItWasOrdered) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.boundary(report(), out);
  EXPECT_EQ(aborts_said(out), 0);
  p.abort(nth_abort(1, 100), out);  // no steps to add
  EXPECT_EQ(aborts_said(out), 1);
  p.abort(nth_abort(2, 90), out);  // a round by time: this replica has more than was asked for
  EXPECT_EQ(aborts_said(out), 2);
  out.clear();
  p.abort(nth_abort(1, 90), out);
  EXPECT_EQ(names(out), "") << "it is past that one";
  p.abort(nth_abort(3, 110), out);
  p.boundary(report(), out);
  EXPECT_EQ(names(out), "train110 say:report");
  EXPECT_EQ(aborts_said(out), 3);
  OpenRound again = open_round();
  again.aborts = 4;
  p.open(again, out);
  EXPECT_EQ(aborts_said(out), 4);
}

TEST(Participant, WhoStillTrainsReportsForTheNewestOrder) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.open(open_round(), out);
  p.abort(nth_abort(1, 100), out);
  p.boundary(report(), out);
  EXPECT_EQ(names(out), "train100 say:report");
  EXPECT_EQ(aborts_said(out), 1);
}

TEST(Participant, JoinerFollowsTheAverageAndLeavesWithTheCommit) {
  Participant p(kSelf, kHeld, WhenLate::kStops);
  Actions out;
  p.reduce(plan(1, 0), out);
  p.reduce_failed({kNext, 1, kOther, ReduceFailure::kPeerLost, ""}, out);
  p.reduce(plan(2, 0), out);
  p.reduced(2, kAverage, {}, {}, out);
  p.commit(commit(), out);
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_EQ(names(out), "follow1 say:failed follow2 say:vote outer_step say:applied train150");
}

TEST(Participant, UnusableOrUnweightedPseudoGradientDoesNotContribute) {
  for (const std::int64_t nonfinite : {0, 3}) {
    Participant p(kSelf, kHeld, WhenLate::kStops);
    Actions out;
    p.open(open_round(), out);
    p.boundary(report(nonfinite), out);
    out.clear();
    p.reduce(plan(1, nonfinite == 0 ? 0 : 640), out);
    EXPECT_EQ(names(out), "follow1");
  }
}

TEST(Participant, CommandsDuringTheOuterStepAreObeyedAfterIt) {
  Participant p = make("taking");
  Actions out;
  p.open(open_round(6, 150), out);
  p.close({key(6)}, out);
  EXPECT_EQ(names(out), "");
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_EQ(names(out), "say:applied train150 close_training");

  Participant q = make("taking");
  out.clear();
  q.reduce(plan(1, 0, 6), out);
  q.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_EQ(names(out), "say:applied train150 stop_training follow1");
}

TEST(Participant, AbortWithoutMoreStepsKeepsTheReportForTheNextAttempt) {
  Participant p = make("voted");
  Actions out;
  p.abort(abort_round(100), out);
  ReducePlan again = plan(3);
  again.members[1].weight = 0;
  p.reduce(again, out);
  EXPECT_EQ(names(out), "say:report reduce3");
  EXPECT_EQ(p.state(), ParticipantState::kReducing);
}

TEST(Participant, PlanWithoutThisReplicaIsNotForIt) {
  Participant p = make("reported");
  ReducePlan others = plan();
  others.members.erase(others.members.begin());
  Actions out;
  p.reduce(others, out);
  EXPECT_EQ(names(out), "");
}

// A group that gave up: whatever its members were at, they move on to the next round.
TEST(Participant, ACommitWithoutAnAverageIsObeyedInEveryState) {
  const std::map<std::string, std::string> wanted = {{"idle", "outer_step"},
                                                     {"training", "stop_training outer_step"},
                                                     {"reported", "outer_step"},
                                                     {"reducing", "stop_reduce2 outer_step"},
                                                     {"joiner_reducing", "stop_reduce2 outer_step"},
                                                     {"late_reducing", "stop_reduce2 outer_step"},
                                                     {"failed", "outer_step"},
                                                     {"voted", "outer_step"},
                                                     {"stale", ""}};
  for (const RoundOutcome outcome : {RoundOutcome::kKept, RoundOutcome::kDropped}) {
    for (const auto& [state, actions] : wanted) {
      Participant p = make(state);
      Actions out;
      p.commit(commit_without_average(outcome), out);
      EXPECT_EQ(names(out), actions) << state;
      if (state == "stale") continue;
      out.clear();
      p.boundary(report(), out);  // of the training that it stopped
      EXPECT_EQ(names(out), "") << state;
      p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
      EXPECT_EQ(names(out), "say:applied train150") << state;
      EXPECT_EQ(p.held(), kNext);
    }
  }
}

// sync.algorithm = async: a round without this replica does not stop it.
TEST(Participant, AnAsynchronousOneTrainsOnWhileItFollows) {
  Participant p(kSelf, kHeld, WhenLate::kTrainsOn);
  Actions out;
  p.open(open_round(), out);
  p.reduce(plan(2, 0), out);
  p.reduced(2, kAverage, {}, {}, out);
  p.commit(commit(), out);
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_EQ(names(out), "train100 follow2 say:vote outer_step say:applied train150");
}

// A boundary that is reached meanwhile is said, and said again for the round that counts it.
TEST(Participant, AnAsynchronousOneReportsAgainInTheNextRound) {
  Participant p(kSelf, kHeld, WhenLate::kTrainsOn);
  Actions out;
  p.open(open_round(), out);
  p.reduce(plan(2, 0), out);
  p.boundary(report(), out);
  ReducePlan again = plan(3, 0);
  p.reduce(again, out);  // it has reported now, but not for this plan
  p.reduced(3, kAverage, {}, {}, out);
  p.commit(commit(), out);
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  RoundReport next = report();
  next.key = key(6);
  p.boundary(next, out);
  EXPECT_EQ(names(out),
            "train100 follow2 say:report stop_reduce2 follow3 say:vote outer_step say:applied "
            "train150 say:report");
}

TEST(Participant, AnAsynchronousOneThatFollowedGoesOnAfterAnAbort) {
  Participant p(kSelf, kHeld, WhenLate::kTrainsOn);
  Actions out;
  p.open(open_round(), out);
  p.reduce(plan(2, 0), out);
  p.abort(abort_round(), out);
  EXPECT_EQ(names(out), "train100 follow2 stop_reduce2 train110");
  EXPECT_EQ(p.state(), ParticipantState::kTraining);
}

TEST(Participant, OuterStepOfAStaleReplicaIsNotReported) {
  Participant p = make("taking");
  Actions out;
  p.open(open_round(9), out);
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_EQ(names(out), "stale");
}

}  // namespace
}  // namespace shoal::outer_opt
