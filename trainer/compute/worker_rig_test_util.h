// The real worker and learner with peers replaced by a node that averages what it is given; what
// its tests are written with.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "outer_opt/core/joining/joining_test_util.h"
#include "outer_opt/cuda/accelerator_test_util.h"
#include "outer_opt/transport/state_join.h"
#include "replica/core/join_target.h"
#include "replica/runtime/worker.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/compute/message_recorder_test_util.h"
#include "trainer/compute/torch_compute.h"

namespace shoal::trainer {

using replica::EventQueue;
using replica::MomentsWanted;
using replica::StateServer;
using replica::Worker;
using replica::WorkerEnd;

// A reduce with only this member: the average is its own pseudo-gradient times `scale`, or what
// others would give.
class LoneNode : public outer_opt::PeerNode {
 public:
  std::string address() const override { return "127.0.0.1:7"; }
  void set_identity(std::shared_ptr<const outer_opt::PeerIdentity>) override {}
  void set_accept(const std::string&, wire::stream::AcceptStream) override {}
  void dial_replica(const std::string&, const wire::stream::PeerReplica&,
                    wire::stream::Node::Dialed dialed) override {
    dialed(Error{Code::kUnavailable, "nobody is there", "", ""});
  }
  bool is_replica(const wire::stream::Pair&, const wire::stream::PeerReplica&) override {
    return false;
  }
  void set_relays(std::vector<std::string>) override {}
  std::size_t waits_at() const override { return 0; }
  RefusalCounts refusals() const override { return {}; }
  void revoke(const std::vector<AgentId>&) override {}
  outer_opt::ReduceResult reduce(const ReducePlan&, ReplicaId, const outer_opt::ReduceInput& own,
                                 outer_opt::AverageRoom room, std::stop_token) override {
    const std::span<float> average = room.values;
    std::fill(average.begin(), average.end(), others);
    own.pseudo_gradient.read(0, average.first(own.pseudo_gradient.size()));
    for (float& value : average.first(own.pseudo_gradient.size())) value *= scale;
    momentum_seen.assign(own.momentum.begin(), own.momentum.end());
    return {true, {digest_of(std::span<const float>(average)), {}}, {}};
  }
  outer_opt::ReduceResult reduce_with(std::unique_ptr<outer_opt::ReduceSession> session,
                                      std::stop_token) override {
    while (const auto work = session->local_work()) {
      session->finish(*work, session->run(*work, {}));
    }
    if (session->state() != outer_opt::SessionState::kDone) {
      return {false, {}, {ReduceFailure::kInternal, {}, session->failure().detail}};
    }
    ++on_device;
    return {true, {session->digest(), {}}, {}};
  }
  void set_state_handler(outer_opt::StateHandler) override {}
  void set_momentum_handler(outer_opt::MomentumHandler) override {}
  Status fetch_momentum(const MomentumHolder& holder, const RoundKey&, std::span<float> out,
                        std::stop_token) override {
    if (holder.address.empty()) return Error{Code::kUnavailable, "the holder is gone", "", ""};
    std::fill(out.begin(), out.end(), 0.25f);
    return {};
  }
  void measure(ReplicaId, std::vector<PeerAddress>) override {}
  std::vector<float> momentum_seen;  // of the newest reduce
  std::vector<LinkEstimate> take_links() override { return {}; }
  // Its only source answers at once, at first with the round that is asked for.
  Status join(outer_opt::JoinSession& session, outer_opt::JoinNews& news,
              const std::function<void(const outer_opt::JoinSession&)>& moved,
              std::stop_token) override {
    if (source == nullptr) return Error{Code::kUnavailable, "the source is gone", "", ""};
    news.tell(session, {});
    for (;;) {
      const auto next = session.next({});
      if (next.send.empty()) return {};
      for (const auto& ask : next.send) {
        if (!followed) publish(ask.ask.replica, ask.ask.key, *source);
        session.answered(ask.id, *source_.answer(ask.ask, {}), {});
        moved(session);
      }
    }
  }
  // The source takes the outer step of one more round.
  void averaged(RoundNumber round, const std::vector<float>& average) {
    replica::OuterState state = *followed;
    const outer_opt::StepTerms terms{.round = round, .outer_lr = 0.7};
    const outer_opt::ValueRange all{0, std::ssize(average)};
    replica::make_outer_algorithm(JobSpec{}, {})->step(terms, all, average, state);
    source_.averages().add(terms, {all}, CodecKind::kFp32, {}, outer_opt::read_from(average));
    publish(giver_, {held_.job, held_.epoch, round}, state);
  }
  const replica::OuterState* source = nullptr;
  outer_opt::MomentsCopy source_moments;
  std::shared_ptr<const replica::OuterState> followed;  // what the source holds, once it was asked
  std::atomic<int> on_device = 0;                       // reduces whose vectors are not the host's
  float others = 0;
  std::atomic<float> scale = 1;

 private:
  void publish(ReplicaId giver, const RoundKey& key, const replica::OuterState& state) {
    giver_ = giver, held_ = key;
    followed = std::make_shared<const replica::OuterState>(state);
    source_.publish(giver, replica::held_state(key, followed));
    auto moments = std::make_shared<outer_opt::MomentsCopy>(source_moments);
    moments->first.resize(state.anchor.size());
    if (moments->second.empty()) moments->second.resize(state.anchor.size());
    moments->step = 4;
    source_.provide_moments(std::move(moments), {});
  }

  outer_opt::StateSource source_;
  ReplicaId giver_;
  RoundKey held_;
};

class WorkerTest : public testing::Test {
 protected:
  explicit WorkerTest(bool on_device = false)
      : queue_(64), state_server_([this] { queue_.push(MomentsWanted{}); }) {
    const auto folder = std::filesystem::path(testing::TempDir());
    // A file of its own: the trainer before may still read what it has mapped.
    static int files = 0;
    text_ = (folder / ("shoal_worker_test_" + std::to_string(files++) + ".txt")).string();
    std::ofstream out(text_);
    for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog. ";
    spec_.name = "test";
    spec_.model = {ModelFamily::kGpt2, 1, 16, 2, 0, 0, 8, 256};
    spec_.data.train = text_;
    spec_.train.batch = 2;
    spec_.train.steps = Steps(100);
    spec_.train.warmup = Steps(0);
    worker_ = std::thread([this, on_device] {
      TorchHost compute({}, data::DataRoots::whole_host(), on_device ? &accelerator_ : nullptr);
      Worker worker({compute, queue_, node_, state_server_, {}, [this](const FromTrainer& m) {
                       recorder_.add(m);
                     }});
      end_ = worker.run();
    });
  }
  ~WorkerTest() override {
    tell(StopTrainer{});
    worker_.join();
  }

  void tell(ToTrainer command) { queue_.push(std::move(command)); }
  // The next message, which must be a T.
  template <typename T>
  T hear() {
    return recorder_.next<T>();
  }
  LoadReplica load(std::uint64_t replica, SourceKind kind, RoundNumber round) {
    LoadReplica command;
    command.assign.replica = ReplicaId(replica);
    command.assign.job = JobId(1);
    command.assign.spec = spec_;
    command.assign.source.kind = kind;
    command.assign.source.key = key(round);
    if (kind == SourceKind::kPeer) command.assign.sources = {PeerAddress{}};
    return command;
  }
  static RoundKey key(RoundNumber round) { return {JobId(1), 0, round}; }
  OpenRound open(RoundNumber round, std::int64_t from, std::int64_t to) {
    return {key(round), Steps(from), Steps(to), {{from * 2, (to - from) * 2}}};
  }
  Loaded load_from_seed() {
    tell(load(1, SourceKind::kSeed, 0));
    return hear<Loaded>();
  }
  RoundReport train_four_steps() {  // of round 1
    tell_replica(open(1, 0, 4));
    return hear<FromReplica<RoundReport>>().body;
  }
  ReducePlan plan(RoundNumber round, std::int64_t values) {
    ReducePlan plan;
    plan.key = key(round);
    plan.attempt = 1;
    plan.codec = CodecKind::kFp32;  // as the lone node averages
    plan.value_count = values;
    plan.members = {{replica_, "", 32, 1, 0, values}};
    plan.time_limit = seconds(60);
    const bool sharded = spec_.sync.outer_state == shoal::OuterState::kSharded;
    if (sharded) plan.owner_step = OwnerStep{{0.7, 0.9}, holders_};
    return plan;
  }
  template <typename Body>
  void tell_replica(Body body) {
    tell(ToReplica<Body>{replica_, std::move(body)});
  }
  // The moments that this replica trained with.
  outer_opt::MomentsCopy moments_of(std::uint64_t replica, RoundNumber round) {
    outer_opt::StateAsk ask{ReplicaId(replica), key(round), outer_opt::AskKind::kMoments, {0, 1}};
    EXPECT_EQ(state_server_.answer(ask).refusal, outer_opt::StateRefusal::kNone);
    return *state_server_.moments();
  }
  // The step that a checkpoint of what it holds names.
  Steps step_in_checkpoint(RoundNumber round) {
    const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_step";
    tell(WriteCheckpointTo{replica_, {CheckpointId(5), key(round)}, folder.string()});
    hear<CheckpointReady>();
    const auto written = read_checkpoint(folder, 0);
    EXPECT_TRUE(written.ok());
    return written.ok() ? written->step : Steps(-1);
  }
  // A whole round; returns what was applied.
  Applied run_round(const Loaded& loaded, RoundNumber round, std::int64_t from, std::int64_t to,
                    EvalSlice evaluate, bool last) {
    tell_replica(open(round, from, to));
    report_ = hear<FromReplica<RoundReport>>().body;
    tell_replica(plan(round, loaded.value_count));
    const Vote vote = hear<FromReplica<Vote>>().body;
    CommitRound commit{key(round), 1, vote.average, evaluate, last, {}, 0.7};
    commit.record.step = Steps(to);
    tell_replica(commit);
    return hear<FromReplica<Applied>>().body;
  }

  outer_opt::HostAccelerator accelerator_;
  EventQueue queue_;
  LoneNode node_;
  StateServer state_server_;
  std::string text_;
  JobSpec spec_;
  MessageRecorder recorder_;
  RoundReport report_;
  ReplicaId replica_{1};                 // that is told
  std::vector<MomentumHolder> holders_;  // of sharded momentum, in plans
  std::optional<WorkerEnd> end_;
  std::thread worker_;
};

}  // namespace shoal::trainer
