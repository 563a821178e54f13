// The whole outer step in numbers (outer_step_history.h), through the real sessions and codecs:
// compared with outer_step.txt to the last digit.
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/core/step/nesterov.h"
#include "tests/golden/outer_step_history.h"

namespace shoal::outer_opt {
namespace {

using namespace golden;

struct Frame {
  int from = 0;
  FrameHeader header;
  std::vector<std::byte> payload;
};

void work_locally(ReduceSession& session) {
  while (const auto work = session.local_work()) session.finish(*work, session.run(*work, {}));
}

void send_all(ReduceSession& session, std::vector<std::deque<Frame>>& inboxes) {
  for (int peer = 0; peer < kMembers; ++peer) {
    for (const FrameKind kind : {FrameKind::kContribution, FrameKind::kAverage}) {
      while (const auto ref = session.next_frame(peer, kind)) {
        Frame frame{session.self(), {}, {}};
        const auto resident = session.resident(*ref);
        frame.payload.assign(resident.begin(), resident.end());
        if (resident.empty()) {
          frame.payload.resize(session.payload_size(*ref));
          session.encode(*ref, frame.payload);
        }
        frame.header = session.header(*ref, frame.payload);
        inboxes[static_cast<std::size_t>(peer)].push_back(std::move(frame));
      }
    }
  }
}

// Offers the oldest frame; one that has to wait goes to the back.
void take_one(ReduceSession& session, std::deque<Frame>& inbox) {
  if (inbox.empty()) return;
  Frame frame = std::move(inbox.front());
  inbox.pop_front();
  const auto work = session.admit(frame.from, frame.header);
  if (!work) return inbox.push_back(std::move(frame));
  const std::span<const std::byte> pieces[] = {frame.payload};
  session.finish(*work, session.run(*work, pieces));
}

std::vector<float> reduce(const ReducePlan& plan, const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<float>> averages(kMembers, std::vector<float>(kValues));
  std::vector<std::unique_ptr<ReduceSession>> sessions;
  std::vector<std::deque<Frame>> inboxes(kMembers);
  for (std::size_t i = 0; i < kMembers; ++i) {
    auto session =
        make_session(plan, plan.members[i].replica, kFrameValues, {inputs[i], {}}, averages[i]);
    sessions.push_back(std::move(session).value());
  }
  for (int turn = 0; turn < 1000; ++turn) {
    const std::size_t i = static_cast<std::size_t>(turn) % kMembers;
    work_locally(*sessions[i]);
    take_one(*sessions[i], inboxes[i]);
    work_locally(*sessions[i]);
    send_all(*sessions[i], inboxes);
  }
  for (std::size_t i = 0; i < kMembers; ++i) {
    EXPECT_EQ(sessions[i]->state(), SessionState::kDone);
    EXPECT_EQ(sessions[i]->digest(), sessions[0]->digest());
    EXPECT_EQ(averages[i], averages[0]);
  }
  return averages[0];
}

void take_round(const ReducePlan& plan, const std::vector<std::vector<float>>& inputs,
                Vectors& vectors) {
  vectors.average = reduce(plan, inputs);
  nesterov_step(kOuter, vectors.average, vectors.momentum, vectors.anchor);
}

TEST(OuterStepGolden, HistoryIsTheOneWrittenDown) {
  const std::string path = std::string(SHOAL_GOLDEN_DIR) + "/outer_step.txt";
  std::string now;
  for (const CodecKind codec : kDenseCodecs) now += history(codec, take_round);
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(path) << now;
  EXPECT_EQ(now, written(path));
}

TEST(OuterStepGolden, AConstantPseudoGradientGivesTheStepsOfTheDefinition) {
  std::vector<float> anchor{0}, momentum{0};
  const std::vector<float> one{1};
  double before = 0;
  for (const double step : {1.33, 1.897, 2.4073, 2.86657}) {
    nesterov_step(kOuter, one, momentum, anchor);
    EXPECT_NEAR(before - static_cast<double>(anchor[0]), step, 2e-6);
    before = static_cast<double>(anchor[0]);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
