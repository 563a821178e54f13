// The whole outer step in numbers: three members with weights 1, 1 and 2 reduce small integers
// through the real sessions and codecs and take Nesterov steps with lr 0.7 and momentum 0.9. The
// history is compared with outer_step.txt to the last digit. Value 0 is 1 at every member in every
// round, so its anchor falls by 1.33, 1.897, 2.4073, 2.86657: the numbers that the definition gives
// by hand.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec.h"
#include "outer_opt/core/make_session.h"
#include "outer_opt/core/nesterov.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kFrameValues = 2;
constexpr std::size_t kValues = 6;
constexpr int kMembers = 3;

struct Frame {
  int from = 0;
  FrameHeader header;
  std::vector<std::byte> payload;
};

ReducePlan plan_of(CodecKind codec, RoundNumber round) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, round};
  plan.attempt = 1;
  plan.codec = codec;
  plan.value_count = static_cast<std::int64_t>(kValues);
  for (int i = 0; i < kMembers; ++i) {
    plan.members.push_back(
        {ReplicaId(static_cast<std::uint64_t>(i) + 1), "m", i == 2 ? 2.0 : 1.0, 1.0, 0, 0});
  }
  assign_parts(plan, {1, 1, 1});
  return plan;
}

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

std::string line(const char* name, const std::vector<float>& values) {
  std::string text = name;
  for (const float value : values) {
    char number[32];
    std::snprintf(number, sizeof number, " %.9g", static_cast<double>(value));
    text += number;
  }
  return text + "\n";
}

std::string history(CodecKind codec) {
  std::string text = std::string(to_string(codec)) + "\n";
  std::vector<float> anchor(kValues, 0.0f), momentum(kValues, 0.0f);
  for (RoundNumber round = 1; round <= 4; ++round) {
    std::vector<std::vector<float>> inputs(kMembers, std::vector<float>(kValues));
    for (std::size_t m = 0; m < kMembers; ++m) {
      for (std::size_t i = 0; i < kValues; ++i) {
        inputs[m][i] = i == 0 ? 1.0f : static_cast<float>(static_cast<int>(m * 3 + i * 2) - round);
      }
    }
    const std::vector<float> average = reduce(plan_of(codec, round), inputs);
    nesterov_step({0.7, 0.9}, average, momentum, anchor);
    text += "round " + std::to_string(round) + "\n" + line("  average ", average) +
            line("  momentum", momentum) + line("  anchor  ", anchor);
  }
  return text;
}

TEST(OuterStepGolden, HistoryIsTheOneWrittenDown) {
  const std::string path = std::string(SHOAL_GOLDEN_DIR) + "/outer_step.txt";
  std::string now;
  for (const CodecKind codec : kDenseCodecs) now += history(codec);
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(path) << now;
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(now, written.str());
}

TEST(OuterStepGolden, AConstantPseudoGradientGivesTheStepsOfTheDefinition) {
  std::vector<float> anchor{0}, momentum{0};
  const std::vector<float> one{1};
  double before = 0;
  for (const double step : {1.33, 1.897, 2.4073, 2.86657}) {
    nesterov_step({0.7, 0.9}, one, momentum, anchor);
    EXPECT_NEAR(before - static_cast<double>(anchor[0]), step, 2e-6);
    before = static_cast<double>(anchor[0]);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
