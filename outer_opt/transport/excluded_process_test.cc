// A round over the real transport whose slowest replica is killed while it sends: it owns no part,
// so the owners average without what had not come, and the coordinator's rules decide what counts.
// Three members: this process, one more owner, and a sender that kills itself with SIGKILL when its
// fourth frame is due. The coordinator is its core, which the test speaks to for all three.
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>

#include <gtest/gtest.h>

#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"
#include "outer_opt/core/reduce/butterfly_session.h"
#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/peer_process_test_util.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kValues = 1 << 20, kFrame = 1 << 14;  // 32 frames for each of two owners
constexpr std::size_t kMembers = 3;
constexpr auto kPatience = std::chrono::seconds(30);

using Address = std::array<char, 64>;

// A plan without its addresses, as it goes through a pipe.
struct PlanWords {
  RoundKey key;
  std::int32_t attempt = 0;
  std::size_t members = 0;
  std::array<ReplicaId, kMembers> replicas;
  std::array<Address, kMembers> addresses{};
  std::array<double, kMembers> weights{}, clips{};
  std::array<ValueRange, kMembers> parts{};
};

PlanWords enumerators_of(const ReducePlan& plan) {
  PlanWords words{.key = plan.key, .attempt = plan.attempt, .members = plan.members.size()};
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    const ReduceMember& member = plan.members[i];
    words.replicas[i] = member.replica;
    std::strncpy(words.addresses[i].data(), member.address.c_str(), sizeof(Address) - 1);
    words.weights[i] = member.weight;
    words.clips[i] = member.clip_factor;
    words.parts[i] = {member.part_first, member.part_count};
  }
  return words;
}

ReducePlan plan_of(const PlanWords& words) {
  ReducePlan plan;
  plan.key = words.key;
  plan.attempt = words.attempt;
  plan.codec = CodecKind::kFp32;
  plan.value_count = kValues;
  plan.frame_values = kFrame;
  plan.time_limit = seconds(60);
  for (std::size_t i = 0; i < words.members; ++i) {
    plan.members.push_back({words.replicas[i], words.addresses[i].data(), words.weights[i],
                            words.clips[i], words.parts[i].first, words.parts[i].count});
  }
  return plan;
}

struct Answer {
  bool ok = false;
  Digest average;
  bool third_excluded = false;
};

// Ends its process when it is asked for the fourth frame of a part.
class DyingSession final : public ButterflySession {
 public:
  using ButterflySession::ButterflySession;
  std::span<const std::byte> resident(const FrameRef& frame) const override {
    if (frame.chunk == 3) raise(SIGKILL);
    return ButterflySession::resident(frame);
  }
};

// Member `index` gives (index + 1) everywhere.
class Member {
 public:
  explicit Member(std::size_t index)
      : index_(index),
        node_(PeerNode::start({}).value()),
        input_(kValues, static_cast<float>(index + 1)),
        average_(kValues, NAN) {}

  Answer reduce(const ReducePlan& plan) {
    const ReplicaId self = plan.members[index_].replica;
    const ReduceResult result =
        index_ == 2 ? node_->reduce_with(std::make_unique<DyingSession>(
                                             plan, self, kFrame, ReduceInput{input_, {}}, average_),
                                         {})
                    : node_->reduce(plan, self, {input_, {}}, average_, {});
    EXPECT_TRUE(result.ok) << result.error.detail;
    const bool without = std::ranges::count(result.outcome.seen.excluded, third(plan)) > 0;
    return {result.ok, result.outcome.average, without};
  }
  std::string address() const { return node_->address(); }
  std::span<const float> average() const { return average_; }

 private:
  static ReplicaId third(const ReducePlan& plan) {
    return plan.members.size() < kMembers ? ReplicaId() : plan.members[2].replica;
  }
  std::size_t index_;
  std::unique_ptr<PeerNode> node_;
  std::vector<float> input_, average_;
};

// Tells its address, and of each plan that it hears how the reduce ended.
[[noreturn]] void live(std::size_t index, int in, int out) {
  Member member(index);
  Address own{};
  std::strncpy(own.data(), member.address().c_str(), own.size() - 1);
  if (!put(out, &own, 1)) _exit(1);
  for (PlanWords words; get(in, &words, 1);) {
    const Answer answer = member.reduce(plan_of(words));
    if (!put(out, &answer, 1)) _exit(1);
  }
  _exit(0);
}

struct Others {
  Others() {
    for (std::size_t i = 1; i < kMembers; ++i) {
      all.push_back(std::make_unique<Process>([i](int in, int out) { live(i, in, out); }));
    }
  }
  std::vector<std::unique_ptr<Process>> all;
};

// A coordinator with a job of three replicas, of whom the third has so slow a line that it owns no
// part of the first round.
struct Round : coordinator::Rig {
  explicit Round(const std::vector<std::string>& addresses) {
    JobSpec spec = coordinator::small_job();
    change_sync(spec, [](SyncSpec& sync) { sync.codec = CodecKind::kFp32; });
    spec.swarm.max_replicas = kMembers;
    for (std::size_t i = 0; i < kMembers; ++i) agents.push_back(join("a" + std::to_string(i)));
    key = {*submit(spec), 0, 1};
    for (std::size_t i = 0; i < kMembers; ++i) {
      const Assign assign = last<Assign>(agents[i]).value();
      replicas.push_back(assign.replica);
      say(agents[i],
          Loaded{assign.replica, assign.source.key, {7, 7}, {8, 8}, kValues, addresses[i], {}});
    }
    wait(seconds(3));
    tell_of_boundary(0, {line(1, 8e6), line(2, 1e6)});
    tell_of_boundary(1, {line(2, 1e6)});
    tell_of_boundary(2, {});
  }

  LinkEstimate line(std::size_t to, double bytes_per_s) const {
    return {replicas[to], milliseconds(20), bytes_per_s, bytes_per_s, true};
  }
  void tell_of_boundary(std::size_t i, std::vector<LinkEstimate> links) {
    report(agents[i], replicas[i], key, 1, std::move(links));
  }
  ReducePlan plan() {
    return plan_of(enumerators_of(last<ToReplica<ReducePlan>>(agents[0])->body));
  }
  void vote_of(std::size_t i, std::int32_t attempt, const Answer& answer) {
    std::vector<ReplicaId> without;
    if (answer.third_excluded) without.push_back(replicas[2]);
    vote(agents[i], replicas[i], key, attempt, answer.average, without);
  }
  void hear_of_the_death() {
    say(agents[2], ReplicaFailed{replicas[2], ReplicaFailure::kTrainerExited, "SIGKILL"});
  }
  const coordinator::ContributionRecord& third() const {
    return state().contributions.at({key, replicas[2]});
  }
  bool committed() const { return job(key.job).committed_round == 1; }

  std::vector<coordinator::ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  RoundKey key;
};

class ExcludedProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (auto& others : others_) others = std::make_unique<Others>();
  }
  static void TearDownTestSuite() {
    for (auto& others : others_) others.reset();
  }

  void begin(std::size_t which) {
    others = others_[which].get();
    first = std::make_unique<Member>(0);
    std::vector<std::string> addresses = {first->address()};
    for (const auto& process : others->all) {
      Address address{};
      ASSERT_TRUE(get(process->from, &address, 1));
      addresses.emplace_back(address.data());
    }
    round = std::make_unique<Round>(addresses);
  }

  // Both owners end well; the votes are not told yet.
  void reduce(const ReducePlan& plan) {
    const PlanWords words = enumerators_of(plan);
    for (std::size_t i = 1; i < plan.members.size(); ++i) {
      ASSERT_TRUE(put(others->all[i - 1]->to, &words, 1));
    }
    auto running = std::async(std::launch::async, [&] { return first->reduce(plan); });
    ASSERT_TRUE(get(others->all[0]->from, &answers[1], 1));
    ASSERT_EQ(running.wait_for(kPatience), std::future_status::ready);
    answers[0] = running.get();
    for (const Answer& answer : answers) ASSERT_TRUE(answer.ok);
    EXPECT_EQ(answers[0].average, answers[1].average);
  }

  void expect_killed() const {
    Answer answer;
    ASSERT_FALSE(get(others->all[1]->from, &answer, 1)) << "it ended well";
    siginfo_t end{};
    const auto pid = static_cast<id_t>(others->all[1]->pid);
    ASSERT_EQ(waitid(P_PID, pid, &end, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(end.si_code, CLD_KILLED);
    EXPECT_EQ(end.si_status, SIGKILL);
  }

  static inline std::array<std::unique_ptr<Others>, 2> others_;
  Others* others = nullptr;
  std::unique_ptr<Member> first;
  std::unique_ptr<Round> round;
  std::array<Answer, 2> answers;
};

TEST_F(ExcludedProcess, TheRoundCommitsAndNamesTheKilledOne) {
  begin(0);
  const ReducePlan plan = round->plan();
  ASSERT_EQ(plan.members.at(2).part_count, 0);
  reduce(plan);
  expect_killed();
  EXPECT_TRUE(answers[0].third_excluded || answers[1].third_excluded);
  for (const std::size_t i : {0u, 1u}) round->vote_of(i, plan.attempt, answers[i]);
  EXPECT_FALSE(round->committed()) << "its end is not heard yet";
  round->hear_of_the_death();
  ASSERT_TRUE(round->committed());
  EXPECT_EQ(round->third().state, coordinator::ContributionState::kRejected);
  EXPECT_EQ(round->third().reject_reason, coordinator::RejectReason::kExcluded);
  EXPECT_EQ(round->job(round->key.job).committed_tokens, Tokens(2 * 1280));
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(round->last<ToReplica<CommitRound>>(round->agents[i])->body.average,
              answers[0].average);
  }
  // Each chunk is the mean of two or of three; the last of each part never left the sender.
  for (const float value : first->average()) ASSERT_TRUE(value == 1.5f || value == 2.0f) << value;
  EXPECT_EQ(first->average().back(), 1.5f);
}

TEST_F(ExcludedProcess, HeardBeforeTheVotesItTakesAnotherAttempt) {
  begin(1);
  reduce(round->plan());
  expect_killed();
  round->hear_of_the_death();
  const ReducePlan next = round->plan();
  EXPECT_EQ(next.attempt, 2);
  ASSERT_EQ(next.members.size(), 2u);
  for (const std::size_t i : {0u, 1u}) round->vote_of(i, 1, answers[i]);
  EXPECT_FALSE(round->committed()) << "those are votes of the first attempt";
  reduce(next);
  for (const std::size_t i : {0u, 1u}) round->vote_of(i, 2, answers[i]);
  ASSERT_TRUE(round->committed());
  EXPECT_EQ(round->third().state, coordinator::ContributionState::kLost);
  for (const float value : first->average()) ASSERT_EQ(value, 1.5f);
}

}  // namespace
}  // namespace shoal::outer_opt
