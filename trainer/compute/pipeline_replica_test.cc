// Trainers of a pipeline over loopback, each with its own worker, peer service and device thread;
// the test plays the coordinator: load, train, average each stage, commit, evaluate, write the
// shards of a checkpoint, resume and join from them, close, stop and abort rounds.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include <gmock/gmock.h>

#include "replica/runtime/worker.h"
#include "trainer/compute/checkpoint.h"
#include "trainer/compute/message_recorder_test_util.h"
#include "trainer/compute/torch_compute.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

using replica::EventQueue;
using replica::MakeRuntime;
using replica::StateServer;
using replica::Woken;

// What `shoal-trainer` is, in a thread.
class Trainer {
 public:
  Trainer() : queue_(64), state_server_([this] { queue_.push(replica::MomentsWanted{}); }) {
    node_ = std::move(*outer_opt::PeerNode::start({}));
    service_ = swarm::PipelineService::create(*node_);
    node_->set_state_handler(
        [this](const outer_opt::StateAsk& ask) { return state_server_.answer(ask); });
    node_->set_momentum_handler([this](ReplicaId replica, const RoundKey& key,
                                       const outer_opt::ValueRange& range, const auto& send) {
      return state_server_.serve_momentum(replica, key, range, send);
    });
    thread_ = std::thread([this] {
      const auto wake = [this] { queue_.push(Woken{}); };
      const MakeRuntime make = [&](const swarm::StageRuntimeOptions& o, swarm::StageCompute& c,
                                   swarm::StageListener& l, RoundNumber held, std::int64_t step) {
        return swarm::StageRuntime::create(o, *service_, c, l, wake, held, step);
      };
      TorchHost compute({}, data::DataRoots::whole_host());
      replica::Worker worker({compute, queue_, *node_, state_server_, make,
                              [this](const auto& m) { recorder_.add(m); }});
      worker.run();
    });
  }
  ~Trainer() {
    queue_.push(ToTrainer(StopTrainer{}));
    thread_.join();
    node_->set_state_handler({});
    node_->set_momentum_handler({});
  }

  std::string address() const { return node_->address(); }
  void tell(ToTrainer command) { queue_.push(std::move(command)); }

  // What people are told about once a second.
  std::pair<Progress, PipelineStats> hear_for_people() { return recorder_.figures(); }

  // The next message but those for people; it must be a T.
  template <typename T>
  T hear() {
    return recorder_.next<T>();
  }

 private:
  EventQueue queue_;
  StateServer state_server_;
  std::unique_ptr<outer_opt::PeerNode> node_;
  std::unique_ptr<swarm::PipelineService> service_;
  MessageRecorder recorder_;
  std::thread thread_;
};

class PipelineReplicaTest : public testing::Test {
 protected:
  PipelineReplicaTest() {
    const auto folder = std::filesystem::path(testing::TempDir());
    const auto text = folder / "shoal_pipeline_replica_test.txt";
    std::ofstream out(text);
    for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog. ";
    spec_.name = "test";
    spec_.model = {ModelFamily::kLlama, 2, 16, 2, 0, 0, 8, 256};
    spec_.data.train = text.string();
    spec_.train.batch = 4;
    spec_.train.microbatch = 2;
    spec_.train.steps = Steps(100);
    spec_.train.warmup = Steps(0);
    spec_.swarm.activations = ActivationCodec::kFp32;
    spec_.eval.batches = 3;
    checkpoint_ = (folder / "shoal_pipeline_replica_test").string();
    std::filesystem::remove_all(checkpoint_);
  }

  RoundKey key(RoundNumber round) const { return {JobId(1), epoch_, round}; }
  static ReplicaId id_of(StageIndex stage, std::uint64_t n) {
    return ReplicaId(10 * (static_cast<std::uint64_t>(stage) + 1) + n);
  }
  LoadReplica load_of(ReplicaId replica, StageIndex stage, SourceKind kind, RoundNumber round) {
    LoadReplica command;
    command.assign.replica = replica;
    command.assign.job = JobId(1);
    command.assign.stage = stage;
    command.assign.cut = cut_;
    command.assign.spec = spec_;
    command.assign.source.kind = kind;
    command.assign.source.key = key(round);
    return command;
  }
  void add(const LoadReplica& command) {
    const ReplicaId id = command.assign.replica;
    auto& trainer = trainers_[id] = std::make_unique<Trainer>();
    trainer->tell(command);
    loaded_[id] = trainer->hear<Loaded>();
  }
  void tell_view() {
    PipelineView view{JobId(1), epoch_, ++view_number_, {}};
    for (const auto& [id, trainer] : trainers_) {
      view.members.push_back({id, is_router(id) ? 0 : 1, trainer->address(), 1e9});
    }
    for (const auto& [id, trainer] : trainers_) tell(id, view);
  }
  // `replicas` of each stage, loaded from the seed, in one view.
  void start(std::uint64_t replicas) {
    for (StageIndex stage = 0; stage < 2; ++stage) {
      for (std::uint64_t n = 0; n < replicas; ++n) {
        add(load_of(id_of(stage, n), stage, SourceKind::kSeed, 0));
        EXPECT_EQ(loaded_[id_of(stage, n)].anchor, loaded_[id_of(stage, 0)].anchor);
      }
    }
    tell_view();
  }
  template <typename Body>
  void tell(ReplicaId id, Body body) {
    trainers_.at(id)->tell(ToReplica<Body>{id, std::move(body)});
  }
  template <typename Body>
  Body hear(ReplicaId id) {
    return trainers_.at(id)->hear<FromReplica<Body>>().body;
  }
  static bool is_router(ReplicaId id) { return id.n < 20; }
  // Each router gets train.batch sequences per step.
  OpenRound opened(ReplicaId id, RoundNumber round, std::int64_t from, std::int64_t to) {
    const std::int64_t count = is_router(id) ? (to - from) * spec_.train.batch : 0;
    return {key(round),
            Steps(from),
            Steps(to),
            {{from * 100 + static_cast<std::int64_t>(id.n), count}}};
  }
  void open(RoundNumber round, std::int64_t from, std::int64_t to) {
    opened_to_ = to;
    for (const auto& [id, trainer] : trainers_) tell(id, opened(id, round, from, to));
  }
  std::map<ReplicaId, RoundReport> reports() {
    std::map<ReplicaId, RoundReport> all;
    for (const auto& [id, trainer] : trainers_) all[id] = hear<RoundReport>(id);
    return all;
  }
  // Averages and commits each stage on its own; the routers evaluate. `next`: the steps of the
  // round that follows at once.
  std::map<ReplicaId, Applied> commit(
      RoundNumber round, const std::map<ReplicaId, RoundReport>& reports,
      std::optional<std::pair<std::int64_t, std::int64_t>> next = std::nullopt) {
    std::map<ReplicaId, Vote> votes;
    for (StageIndex stage = 0; stage < 2; ++stage) {
      const ReducePlan plan = plan_of(round, stage, reports);
      for (const ReduceMember& member : plan.members) tell(member.replica, plan);
      for (const ReduceMember& member : plan.members) {
        votes[member.replica] = hear<Vote>(member.replica);
        EXPECT_EQ(votes[member.replica].average, votes[plan.members[0].replica].average);
      }
    }
    std::int64_t slice = 0;
    const auto routers = std::count_if(votes.begin(), votes.end(),
                                       [](const auto& vote) { return is_router(vote.first); });
    std::map<ReplicaId, Applied> applied;
    for (const auto& [id, vote] : votes) {
      const EvalSlice evaluate =
          is_router(id) ? EvalSlice{slice++, routers, 3} : EvalSlice{0, 0, 0};
      CommitRound command{key(round), 1, vote.average, evaluate, !next, {}, 0.7};
      if (next) command.next = opened(id, round + 1, next->first, next->second);
      command.record.step = Steps(opened_to_);
      tell(id, command);
      applied[id] = hear<Applied>(id);
    }
    if (next) opened_to_ = next->second;
    return applied;
  }
  ReducePlan plan_of(RoundNumber round, StageIndex stage,
                     const std::map<ReplicaId, RoundReport>& reports) {
    ReducePlan plan;
    plan.key = key(round);
    plan.attempt = 1;
    plan.codec = CodecKind::kFp32;
    plan.time_limit = seconds(60);
    for (const auto& [id, trainer] : trainers_) {
      if (is_router(id) != (stage == 0)) continue;
      plan.value_count = loaded_.at(id).value_count;
      const auto report = reports.find(id);
      const double weight =
          report == reports.end() ? 0 : static_cast<double>(report->second.tokens.count());
      plan.members.push_back({id, trainer->address(), weight, 1, 0, 0});
    }
    assign_parts(plan, std::vector<double>(plan.members.size(), 1));
    return plan;
  }
  double evaluate_whole(std::span<const float> anchor) {
    JobSpec spec = with_derived_fields(spec_);
    std::unique_ptr<StageModel> model;
    EXPECT_FALSE(StageModel::create(spec, whole_model(spec.model), {}, model));
    model->write_parameters(anchor);
    Learner learner(*model, std::move(*Dataset::open(spec, data::DataRoots::whole_host())));
    EvalSum sum;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(learner.evaluate_batch(i, 3, sum));
    EXPECT_EQ(sum.tokens, Tokens(3 * 4 * 8));
    return sum.loss_sum;
  }

  JobSpec spec_;
  std::vector<UnitRange> cut_ = {{0, 2}, {2, 4}};  // the assignment's cut counts, not swarm.stages
  std::string checkpoint_;
  std::int64_t epoch_ = 0, view_number_ = 0;
  std::int64_t opened_to_ = 0;  // where the newest round ends
  std::map<ReplicaId, Loaded> loaded_;
  std::map<ReplicaId, std::unique_ptr<Trainer>> trainers_;
};

TEST_F(PipelineReplicaTest, ARoundOfTwoStagesFromSeedToCheckpointAndBack) {
  start(2);
  open(1, 0, 5);
  const auto reported = reports();
  Tokens added[2], drawn;
  for (const auto& [id, report] : reported) {
    EXPECT_EQ(report.steps, Steps(5)) << id.n;
    EXPECT_GT(report.norm, 0);
    EXPECT_EQ(report.nonfinite, 0);
    added[is_router(id) ? 0 : 1] += report.tokens;
    drawn += report.drawn;
    EXPECT_EQ(report.drawn, Tokens(is_router(id) ? 5 * 4 * 8 : 0));
    EXPECT_EQ(report.train_loss > 0, is_router(id));
  }
  EXPECT_EQ(added[0], drawn);
  EXPECT_EQ(added[1], drawn);

  const auto applied = commit(1, reported);
  EXPECT_EQ(applied.at(id_of(0, 0)).anchor, applied.at(id_of(0, 1)).anchor);
  EXPECT_EQ(applied.at(id_of(1, 0)).anchor, applied.at(id_of(1, 1)).anchor);
  EXPECT_NE(applied.at(id_of(0, 0)).anchor, loaded_.at(id_of(0, 0)).anchor);
  const auto even = hear<Evaluated>(id_of(0, 0)), odd = hear<Evaluated>(id_of(0, 1));
  EXPECT_EQ(even.tokens + odd.tokens, Tokens(3 * 4 * 8));

  for (StageIndex stage = 0; stage < 2; ++stage) {
    const ReplicaId writer = id_of(stage, 1);
    trainers_.at(writer)->tell(WriteCheckpointTo{writer, {CheckpointId(5), key(1)}, checkpoint_});
    EXPECT_EQ(trainers_.at(writer)->hear<CheckpointReady>().sample, "")
        << "the first router has it";
  }
  const auto whole = StoredModel::open(checkpoint_);
  ASSERT_TRUE(whole.ok()) << to_string(whole.error());
  const double expected = evaluate_whole(whole->values());
  EXPECT_NEAR(even.loss_sum + odd.loss_sum, expected, 1e-5 * expected);

  Trainer other;
  auto resume = load_of(ReplicaId(31), 1, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = checkpoint_;
  resume.assign.source.anchor = applied.at(id_of(1, 0)).anchor;
  resume.assign.source.momentum = applied.at(id_of(1, 0)).momentum;
  other.tell(resume);
  EXPECT_EQ(other.hear<Loaded>().anchor, applied.at(id_of(1, 0)).anchor);
  auto join = load_of(ReplicaId(32), 1, SourceKind::kPeer, 1);
  join.assign.source = resume.assign.source;
  join.assign.source.kind = SourceKind::kPeer;
  join.assign.source.replica = id_of(1, 0);
  join.assign.sources = {{id_of(1, 0), trainers_.at(id_of(1, 0))->address()}};
  other.tell(join);
  EXPECT_EQ(other.hear<Loaded>().momentum, applied.at(id_of(1, 0)).momentum);
}

TEST_F(PipelineReplicaTest, StagesOfAnotherCutLoadTheSameParameters) {
  start(2);
  open(1, 0, 5);
  commit(1, reports());
  for (std::uint64_t n : {0, 1}) hear<Evaluated>(id_of(0, n));
  for (StageIndex stage = 0; stage < 2; ++stage) {
    const ReplicaId writer = id_of(stage, 1);
    trainers_.at(writer)->tell(WriteCheckpointTo{writer, {CheckpointId(5), key(1)}, checkpoint_});
    trainers_.at(writer)->hear<CheckpointReady>();
  }
  const auto stored = read_checkpoint(checkpoint_, std::nullopt);
  ASSERT_TRUE(stored.ok()) << to_string(stored.error());
  const ModelSpec model = with_derived_fields(spec_).model;
  cut_ = {{0, 1}, {1, 3}, {3, 4}};
  Trainer other;
  std::size_t first = 0;
  for (StageIndex stage = 0; stage < 3; ++stage) {
    auto resume = load_of(ReplicaId(40 + static_cast<std::uint64_t>(stage)), stage,
                          SourceKind::kCheckpoint, 1);
    resume.checkpoint_folder = checkpoint_;
    resume.assign.checkpoint_parts = 2;
    other.tell(resume);
    const auto loaded = other.hear<Loaded>();
    const auto units = cut_[static_cast<std::size_t>(stage)];
    const auto count = static_cast<std::size_t>(value_count(parameter_layout(model, units)));
    const auto part = [&](const std::vector<float>& all) {
      return digest_of(std::span<const float>(all).subspan(first, count));
    };
    EXPECT_EQ(loaded.value_count, static_cast<std::int64_t>(count));
    EXPECT_EQ(loaded.anchor, part(stored->anchor));
    EXPECT_EQ(loaded.momentum, part(vector_of(stored->outer, "momentum")));
    first += count;
  }
  EXPECT_EQ(first, stored->anchor.size());
}

// The evaluation of a round is part of the first step of the next one; a replica that joins between
// them takes part in that one from its first step on, although it did not know its number.
TEST_F(PipelineReplicaTest, RoundsFollowEachOtherAndAJoinerEnters) {
  start(1);
  open(1, 0, 5);
  const auto first = commit(1, reports(), std::pair(5, 8));
  const auto evaluated = hear<Evaluated>(id_of(0, 0));
  const auto second = reports();
  EXPECT_EQ(second.at(id_of(0, 0)).steps, Steps(3));
  EXPECT_EQ(evaluated.key, key(1));
  EXPECT_EQ(evaluated.tokens, Tokens(3 * 4 * 8));
  const auto applied = commit(2, second);
  EXPECT_EQ(hear<Evaluated>(id_of(0, 0)).key, key(2));

  auto join = load_of(id_of(1, 1), 1, SourceKind::kPeer, 2);
  join.assign.source.replica = id_of(1, 0);
  join.assign.sources = {{id_of(1, 0), trainers_.at(id_of(1, 0))->address()}};
  join.assign.source.anchor = applied.at(id_of(1, 0)).anchor;
  add(join);
  tell_view();
  open(3, 8, 12);
  const auto third = reports();
  EXPECT_EQ(third.at(id_of(0, 0)).drawn, Tokens(4 * 4 * 8));
  EXPECT_EQ(third.at(id_of(1, 0)).tokens + third.at(id_of(1, 1)).tokens, Tokens(4 * 4 * 8));
  const auto last = commit(3, third);
  EXPECT_EQ(last.at(id_of(1, 0)).anchor, last.at(id_of(1, 1)).anchor);
  const auto closing = hear<Evaluated>(id_of(0, 0));
  EXPECT_LT(closing.loss_sum, evaluated.loss_sum);  // it learns
  EXPECT_NE(first.at(id_of(1, 0)).anchor, last.at(id_of(1, 0)).anchor);
}

// Its coordinator was restored from a backup, and adopts what they hold.
TEST_F(PipelineReplicaTest, ANewEpochBeginsWithWhatTheyHold) {
  start(2);
  open(1, 0, 5);
  const auto applied = commit(1, reports());
  for (std::uint64_t n : {0, 1}) hear<Evaluated>(id_of(0, n));
  epoch_ = 7;
  for (const auto& [id, trainer] : trainers_) {
    ResumeAt resume{.key = key(1), .record = {}};
    resume.record.key = key(1);
    resume.record.step = Steps(5);
    tell(id, resume);
    const auto again = trainer->hear<Loaded>();
    EXPECT_EQ(again.key, key(1));
    EXPECT_EQ(again.anchor, applied.at(id).anchor);
  }
  tell_view();
  open(2, 5, 8);
  const auto second = reports();
  Tokens added[2];
  for (const auto& [id, report] : second) added[is_router(id) ? 0 : 1] += report.tokens;
  EXPECT_EQ(added[0], Tokens(2 * 3 * 4 * 8));
  EXPECT_EQ(added[1], added[0]);
  const auto after = commit(2, second);
  for (StageIndex stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(after.at(id_of(stage, 0)).anchor, after.at(id_of(stage, 1)).anchor);
    EXPECT_NE(after.at(id_of(stage, 0)).anchor, applied.at(id_of(stage, 0)).anchor);
  }
}

TEST_F(PipelineReplicaTest, RoundsWithTwoWeightVersions) {
  spec_.swarm.schedule = PipelineSchedule::kTwoBufferedWeights;
  start(2);
  open(1, 0, 6);
  double before = 0;
  for (RoundNumber round = 1; round <= 3; ++round) {
    const auto reported = reports();
    Tokens added[2];
    for (const auto& [id, report] : reported) {
      // Wiring may send all of a step's microbatches to the other replica of a later stage.
      EXPECT_LE(report.steps, Steps(6)) << id.n;
      if (is_router(id)) {
        EXPECT_EQ(report.steps, Steps(6)) << id.n;
      }
      EXPECT_EQ(report.norm > 0, report.tokens > Tokens(0)) << id.n << " of round " << round;
      added[is_router(id) ? 0 : 1] += report.tokens;
      EXPECT_EQ(report.drawn, Tokens(is_router(id) ? 6 * 4 * 8 : 0));
    }
    EXPECT_EQ(added[0], Tokens(2 * 6 * 4 * 8));
    EXPECT_EQ(added[1], added[0]);
    const auto next = std::pair(6 * round, 6 * round + 6);
    const auto applied = round < 3 ? commit(round, reported, next) : commit(round, reported);
    for (StageIndex stage = 0; stage < 2; ++stage) {
      EXPECT_EQ(applied.at(id_of(stage, 0)).anchor, applied.at(id_of(stage, 1)).anchor);
    }
    const double loss =
        hear<Evaluated>(id_of(0, 0)).loss_sum + hear<Evaluated>(id_of(0, 1)).loss_sum;
    if (round > 1) {
      EXPECT_LT(loss, before) << "it learns";
    }
    before = loss;
  }
}

TEST_F(PipelineReplicaTest, ACheckpointComesWithASample) {
  spec_.checkpoint.every_rounds = 2;
  start(2);
  const ReplicaId writer = id_of(0, 0);
  const auto sample_of = [&](RoundNumber round) {
    std::filesystem::remove_all(checkpoint_);
    trainers_.at(writer)->tell(
        WriteCheckpointTo{writer, {CheckpointId(1), key(round)}, checkpoint_});
    return trainers_.at(writer)->hear<CheckpointReady>().sample;
  };
  open(1, 0, 2);
  for (const RoundNumber round : {1, 2, 3}) {
    const auto reported = reports();
    if (round > 1) {
      EXPECT_EQ(sample_of(round - 1).empty(), round == 2) << "every other round";
    }
    const auto next = std::pair(2 * round, 2 * round + 2);
    round < 3 ? commit(round, reported, next) : commit(round, reported);
    for (std::uint64_t n : {0, 1}) hear<Evaluated>(id_of(0, n));
  }
  EXPECT_FALSE(sample_of(3).empty()) << "after the last one";
}

TEST_F(PipelineReplicaTest, ClosingStopsEverybodyAtTheSameStep) {
  start(2);
  open(1, 0, 1'000'000);
  const auto [progress, stats] = trainers_.at(id_of(0, 0))->hear_for_people();
  EXPECT_EQ(progress.replica, id_of(0, 0));
  EXPECT_EQ(progress.key, key(1));
  EXPECT_GT(progress.step, Steps(0));
  EXPECT_GT(progress.tokens, Tokens(0));
  EXPECT_GT(progress.train_loss, 0);
  EXPECT_GT(progress.tokens_per_s, 0);
  EXPECT_EQ(stats.replica, id_of(0, 0));
  for (const auto& [id, trainer] : trainers_) tell(id, CloseRound{key(1)});
  const auto reported = reports();
  Tokens drawn, last;
  for (const auto& [id, report] : reported) {
    EXPECT_EQ(report.steps, reported.begin()->second.steps);
    EXPECT_LT(report.steps, Steps(1'000'000));
    drawn += report.drawn;
    if (!is_router(id)) last += report.tokens;
  }
  EXPECT_EQ(drawn, last);
}

TEST_F(PipelineReplicaTest, AStageThatTheRoundWentOnWithoutStopsAtOnce) {
  start(1);
  const ReplicaId last = id_of(1, 0);
  tell(last, OpenRound{key(1), Steps(0), Steps(5), {{0, 0}}});
  tell(last, plan_of(1, 1, {}));
  const auto report = hear<RoundReport>(last);
  EXPECT_EQ(report.tokens, Tokens(0));
  EXPECT_EQ(report.norm, 0);
  EXPECT_EQ(hear<Vote>(last).key, key(1));
}

TEST_F(PipelineReplicaTest, AbortKeepsTheProgressOfEveryStage) {
  start(1);
  open(1, 0, 2);
  const auto first = reports();
  for (const auto& [id, trainer] : trainers_) {
    const std::int64_t count = is_router(id) ? 3 * spec_.train.batch : 0;
    tell(id,
         AbortRound{key(1), AbortReason::kTimeSpent, {key(1), Steps(2), Steps(5), {{800, count}}}});
  }
  const auto second = reports();
  for (const auto& [id, report] : second) {
    EXPECT_EQ(first.at(id).tokens, Tokens(2 * 4 * 8));
    EXPECT_EQ(report.steps, Steps(5));
    EXPECT_EQ(report.tokens, Tokens(5 * 4 * 8));
    EXPECT_EQ(report.drawn, is_router(id) ? report.tokens : Tokens(0));
  }
}

TEST_F(PipelineReplicaTest, TheStagesAreNotTakenForEachOther) {
  start(1);
  Trainer other;
  auto bad = load_of(ReplicaId(31), 2, SourceKind::kSeed, 0);
  other.tell(bad);
  EXPECT_EQ(other.hear<ReplicaFailed>().failure, ReplicaFailure::kInternal);
  bad = load_of(ReplicaId(32), 1, SourceKind::kSeed, 0);
  bad.assign.cut = {{0, 2}, {3, 4}};
  other.tell(bad);
  EXPECT_EQ(other.hear<ReplicaFailed>().failure, ReplicaFailure::kInternal);
  bad.assign.replica = ReplicaId(33);
  bad.assign.cut = cut_;
  bad.assign.source.anchor = loaded_.at(id_of(0, 0)).anchor;
  other.tell(bad);
  EXPECT_EQ(other.hear<ReplicaFailed>().failure, ReplicaFailure::kDigestMismatch);
}

}  // namespace
}  // namespace shoal::trainer
