// What the checker makes of measurements by their age.
#include <memory>

#include <gtest/gtest.h>

#include "coordinator/core/state/measured_lines.h"
#include "tests/sim/checkers/checker_test_util.h"
#include "tests/sim/trace.h"

namespace shoal::sim {
namespace {

using namespace coordinator;

constexpr ReplicaId kHere{1}, kThere{2};
constexpr Duration kOld = kLinkFresh + seconds(601);
constexpr double kRate = 1e6;

struct Lines : CheckerRig {
  Lines() : CheckerRig(make_line_ages) {
    now = kStart;
    for (const ReplicaId id : {kHere, kThere}) {
      ReplicaRecord replica;
      replica.id = id;
      replica.agent = agent_of(id);
      emit(Persist{replica});
    }
  }
  static AgentId agent_of(ReplicaId replica) { return AgentId(replica.n + 10); }

  void emit(const Effect& effect) {
    const Effects effects{effect};
    checker->emitted({1, effects});
  }
  void measure() {
    RoundReport report;
    report.links = {{.peer = kThere, .to_per_s = kRate}};
    checker->reported({kHere, report, {}, {}, {}});
  }
  void record(Instant measured_at) {
    LinkRecord link{.from = agent_of(kHere), .to = agent_of(kThere), .bytes_per_s = kRate};
    link.measured_at = measured_at;
    emit(Persist{link});
  }
  void view(Duration line_time) {
    PipelineView view;
    view.members = {{.replica = kThere, .line_time = line_time}};
    emit(Send{{}, ToReplica<PipelineView>{kHere, view}});
  }
  void move(double bytes_per_s) {
    PlacementReport report;
    report.move = MoveReport{.replica = kHere};
    report.move->worth.bytes_per_s = bytes_per_s;
    emit(ShowPlacement{std::make_shared<const PlacementReport>(report), true});
  }
};

TEST(LineAges, AViewGoesByAFreshMeasurementOnly) {
  Lines lines;
  lines.measure();
  lines.view(milliseconds(1));
  lines.now = lines.now + kOld;
  lines.view({});
  EXPECT_FALSE(lines.broken) << lines.broken->what;
  lines.view(milliseconds(1));
  EXPECT_TRUE(lines.broken);
}

TEST(LineAges, AViewMayGoByWhatTheCoordinatorMeasured) {
  Lines lines;
  AgentRecord agent;
  agent.id = Lines::agent_of(kThere);
  agent.line.up = agent.line.down = kRate;
  lines.emit(Persist{agent});
  lines.view(milliseconds(1));
  EXPECT_FALSE(lines.broken) << lines.broken->what;
}

TEST(LineAges, ARecordIsRenewedByAMeasurementOnly) {
  Lines lines;
  lines.measure();
  const Instant measured_at = lines.now;
  lines.record(measured_at);
  lines.now = lines.now + kOld;
  lines.record(measured_at);  // the peer was reached
  EXPECT_FALSE(lines.broken) << lines.broken->what;
  lines.record(lines.now);
  EXPECT_TRUE(lines.broken);
}

TEST(LineAges, AMoveIsPricedByAFreshMeasurementOrAnAssumption) {
  Lines lines;
  lines.measure();
  lines.move(kRate);
  lines.now = lines.now + kOld;
  lines.move(kAssumedLine);
  EXPECT_FALSE(lines.broken) << lines.broken->what;
  lines.move(kRate);
  EXPECT_TRUE(lines.broken);
}

}  // namespace
}  // namespace shoal::sim
