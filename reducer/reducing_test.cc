// A reducer among real peers on loopback: it averages for them, says what it moved, and names who
// did not come.
#include "reducer/reducing.h"

#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "threads/mutex.h"

namespace shoal::reducer {
namespace {

constexpr ReplicaId kReducer{9};
constexpr auto kPatience = std::chrono::seconds(30);

std::unique_ptr<outer_opt::PeerNode> start_node() {
  auto node = outer_opt::PeerNode::start({});
  EXPECT_TRUE(node.ok());
  return std::move(node).value();
}

// A Reducing in a thread, and what it says.
class Host {
 public:
  Host() : node_(start_node()), reducing_(*node_, queue_, [this](const auto& m) { hear(m); }) {
    thread_ = std::thread([this] { reducing_.run(); });
    Assign assign;
    assign.replica = kReducer;
    queue_.push_command(LoadReplica{assign, ""});
  }
  ~Host() {
    queue_.push_command(StopTrainer{});
    thread_.join();
  }

  void command(const ReducePlan& plan) {
    queue_.push_command(ToReplica<ReducePlan>{kReducer, plan});
  }
  // The next thing it says; kReplicaFailed as a stand-in when nothing came.
  FromTrainer next() {
    const MutexLock lock(mutex_);
    if (!changed_.wait_for(mutex_, kPatience,
                           [this]() SHOAL_REQUIRES(mutex_) { return !said_.empty(); })) {
      return ReplicaFailed{};
    }
    FromTrainer message = std::move(said_.front());
    said_.pop_front();
    return message;
  }
  std::string address() const { return node_->address(); }

 private:
  void hear(const FromTrainer& message) {
    const MutexLock lock(mutex_);
    said_.push_back(message);
    changed_.notify_all();
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<FromTrainer> said_ SHOAL_GUARDED_BY(mutex_);
  EventQueue queue_{16};
  std::unique_ptr<outer_opt::PeerNode> node_;
  Reducing reducing_;
  std::thread thread_;
};

ReducePlan plan_for(const std::vector<std::string>& trainers, const std::string& reducer) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.topology = Topology::kParamServer;
  plan.codec = CodecKind::kInt8;
  plan.value_count = 100'000;
  plan.time_limit = seconds(30);
  for (std::size_t i = 0; i < trainers.size(); ++i) {
    plan.members.push_back({ReplicaId(i + 1), trainers[i], 1.0 + static_cast<double>(i)});
  }
  plan.members.push_back({kReducer, reducer, 0, 1, 0, 0, true});
  assign_parts(plan, {1, 1, 2});
  return plan;
}

TEST(Reducing, AveragesForThoseThatTrain) {
  Host host;
  ASSERT_TRUE(std::holds_alternative<Loaded>(host.next()));
  std::vector<std::unique_ptr<outer_opt::PeerNode>> nodes;
  nodes.push_back(start_node());
  nodes.push_back(start_node());
  const ReducePlan plan = plan_for({nodes[0]->address(), nodes[1]->address()}, host.address());
  std::vector<std::vector<float>> inputs, averages(2, std::vector<float>(100'000));
  std::vector<std::future<outer_opt::ReduceResult>> results;
  for (std::size_t i = 0; i < 2; ++i) inputs.emplace_back(100'000, 1.0f + static_cast<float>(i));
  for (std::size_t i = 0; i < 2; ++i) {
    results.push_back(std::async(std::launch::async, [&, i] {
      return nodes[i]->reduce(plan, ReplicaId(i + 1), {inputs[i], {}}, averages[i], {});
    }));
  }
  host.command(plan);
  const auto first = results[0].get(), second = results[1].get();
  ASSERT_TRUE(first.ok) << first.error.detail;
  ASSERT_TRUE(second.ok) << second.error.detail;
  EXPECT_EQ(first.outcome.average, second.outcome.average);
  EXPECT_EQ(averages[0], averages[1]);
  EXPECT_NEAR(averages[0][99'999], (1.0 * 1 + 2.0 * 2) / 3, 0.02);
  const FromTrainer said = host.next();
  const auto* vote = std::get_if<FromReplica<Vote>>(&said);
  ASSERT_NE(vote, nullptr);
  EXPECT_EQ(vote->replica, kReducer);
  EXPECT_EQ(vote->body.average, Digest());
  EXPECT_GT(vote->body.stats.sent.count(), 100'000) << "its half, to both";
  EXPECT_GT(vote->body.stats.received.count(), 100'000);
}

TEST(Reducing, NamesTheMemberThatDoesNotCome) {
  Host host;
  ASSERT_TRUE(std::holds_alternative<Loaded>(host.next()));
  ReducePlan plan = plan_for({"127.0.0.1:1", "127.0.0.1:1"}, host.address());
  plan.time_limit = seconds(1);
  host.command(plan);
  const FromTrainer said = host.next();
  const auto* failed = std::get_if<FromReplica<ReduceFailed>>(&said);
  ASSERT_NE(failed, nullptr);
  EXPECT_TRUE(failed->body.lost == ReplicaId(1) || failed->body.lost == ReplicaId(2));
}

}  // namespace
}  // namespace shoal::reducer
