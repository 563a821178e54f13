// Whole rounds through the real worker and learner, with peers replaced by a node that averages
// what it is given: seed, train, report, vote, commit, evaluate, checkpoint, resume, join, and the
// refusals.
#include "trainer/worker.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "outer_opt/cuda/host_accelerator.h"
#include "trainer/checkpoint.h"

namespace shoal::trainer {
namespace {

// A reduce with only this member: the average is its own pseudo-gradient, or what others would
// give.
class LoneNode : public outer_opt::PeerNode {
 public:
  std::string address() const override { return "127.0.0.1:7"; }
  outer_opt::ReduceResult reduce(const ReducePlan&, ReplicaId, const outer_opt::ReduceInput& own,
                                 std::span<float> average, std::stop_token) override {
    std::fill(average.begin(), average.end(), others);
    std::copy(own.pseudo_gradient.begin(), own.pseudo_gradient.end(), average.begin());
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
  void set_donor(outer_opt::Donor) override {}
  void set_momentum_donor(outer_opt::MomentumDonor) override {}
  Status fetch_momentum(const MomentumHolder& holder, const RoundKey&, std::span<float> out,
                        std::stop_token) override {
    if (holder.address.empty()) return Error{Code::kUnavailable, "the holder is gone", "", ""};
    std::fill(out.begin(), out.end(), 0.25f);
    return {};
  }
  void measure(ReplicaId, std::vector<PeerAddress>) override {}
  std::vector<float> momentum_seen;  // of the newest reduce
  std::vector<LinkEstimate> take_links() override { return {}; }
  Status fetch_state(const std::string&, ReplicaId, const RoundKey&, outer_opt::StateSink& sink,
                     std::stop_token) override {
    if (donor == nullptr) return Error{Code::kUnavailable, "the donor is gone", "", ""};
    std::copy(donor->anchor.begin(), donor->anchor.end(), sink.anchor.begin());
    std::copy(donor->momentum.begin(), donor->momentum.end(), sink.momentum.begin());
    std::copy(donor->adam_m.begin(), donor->adam_m.end(), sink.adam_m.begin());
    std::copy(donor->adam_v.begin(), donor->adam_v.end(), sink.adam_v.begin());
    sink.adam_step = 4;
    return {};
  }
  const OuterState* donor = nullptr;
  std::atomic<int> on_device = 0;  // reduces whose vectors are not the host's
  float others = 0;
};

class WorkerTest : public testing::Test {
 protected:
  explicit WorkerTest(bool on_device = false)
      : queue_(64), shelf_([this] { queue_.push(AdamWanted{}); }) {
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
      Worker worker({{},
                     queue_,
                     node_,
                     shelf_,
                     {},
                     [this](const FromTrainer& m) { heard(m); },
                     on_device ? &accelerator_ : nullptr});
      end_ = worker.run();
    });
  }
  ~WorkerTest() override {
    tell(StopTrainer{});
    worker_.join();
  }

  void tell(ToTrainer command) { queue_.push(std::move(command)); }
  void heard(const FromTrainer& message) {
    if (std::holds_alternative<Progress>(message)) return;
    const std::lock_guard lock(mutex_);
    said_.push_back(message);
    changed_.notify_all();
  }
  // The next message, which must be a T.
  template <typename T>
  T hear() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return !said_.empty(); })) {
      ADD_FAILURE() << "nothing was said";
      return {};
    }
    const FromTrainer message = said_.front();
    said_.pop_front();
    if (const auto* failed = std::get_if<ReplicaFailed>(&message)) failed_ = *failed;
    const T* wanted = std::get_if<T>(&message);
    if (wanted == nullptr) {
      ADD_FAILURE() << "another message: " << message.index() << " " << failed_.detail;
      return {};
    }
    return *wanted;
  }
  LoadReplica load(std::uint64_t replica, SourceKind kind, RoundNumber round) {
    LoadReplica command;
    command.assign.replica = ReplicaId(replica);
    command.assign.job = JobId(1);
    command.assign.spec = spec_;
    command.assign.source.kind = kind;
    command.assign.source.key = key(round);
    return command;
  }
  static RoundKey key(RoundNumber round) { return {JobId(1), 0, round}; }
  OpenRound open(RoundNumber round, std::int64_t from, std::int64_t to) {
    return {key(round), Steps(from), Steps(to), {from * 2, (to - from) * 2}};
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
  // A whole round; returns what was applied.
  Applied run_round(const Loaded& loaded, RoundNumber round, std::int64_t from, std::int64_t to,
                    EvalSlice evaluate, bool last) {
    tell_replica(open(round, from, to));
    report_ = hear<FromReplica<RoundReport>>().body;
    tell_replica(plan(round, loaded.value_count));
    const Vote vote = hear<FromReplica<Vote>>().body;
    tell_replica(CommitRound{key(round), 1, vote.average, evaluate, last, {}, 0.7});
    return hear<FromReplica<Applied>>().body;
  }

  outer_opt::HostAccelerator accelerator_;
  EventQueue queue_;
  LoneNode node_;
  DonorShelf shelf_;
  std::string text_;
  JobSpec spec_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FromTrainer> said_;
  ReplicaFailed failed_;
  RoundReport report_;
  ReplicaId replica_{1};                 // that is told
  std::vector<MomentumHolder> holders_;  // of sharded momentum, in plans
  std::optional<WorkerEnd> end_;
  std::thread worker_;
};

TEST_F(WorkerTest, ARoundFromSeedToEvaluation) {
  const Loaded loaded = load_from_seed();
  EXPECT_EQ(loaded.value_count, parameter_count(spec_.model));
  EXPECT_EQ(loaded.address, "127.0.0.1:7");
  const Applied applied = run_round(loaded, 1, 0, 8, {0, 1, 3}, true);
  EXPECT_EQ(report_.steps, Steps(8));
  EXPECT_EQ(report_.tokens, Tokens(8 * 2 * 8));
  EXPECT_EQ(report_.drawn, report_.tokens);
  EXPECT_GT(report_.norm, 0);
  EXPECT_EQ(report_.nonfinite, 0);
  EXPECT_NE(applied.anchor, loaded.anchor);
  const auto evaluated = hear<FromReplica<Evaluated>>().body;
  EXPECT_EQ(evaluated.key, key(1));
  EXPECT_EQ(evaluated.tokens, Tokens(3 * 2 * 8));
  EXPECT_GT(evaluated.loss_sum, 0);
}

TEST_F(WorkerTest, AlgorithmNoneAdoptsTheLocalParameters) {
  spec_.sync.algorithm = SyncAlgorithm::kNone;
  const Loaded loaded = load_from_seed();
  train_four_steps();
  tell_replica(plan(1, loaded.value_count));
  const Vote vote = hear<FromReplica<Vote>>().body;
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, true, {}});
  const Applied applied = hear<FromReplica<Applied>>().body;
  EXPECT_EQ(applied.anchor, vote.average);
  EXPECT_EQ(applied.momentum, loaded.momentum);
}

TEST_F(WorkerTest, AbortKeepsTheProgress) {
  load_from_seed();
  const RoundReport first = train_four_steps();
  tell_replica(AbortRound{key(1), AbortReason::kTimeSpent, open(1, 4, 6)});
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(first.steps, Steps(4));
  EXPECT_EQ(second.steps, Steps(6));
  EXPECT_EQ(second.tokens, Tokens(6 * 2 * 8));
}

// An abort that only waits has no steps: the progress is reported again, to whoever asks.
TEST_F(WorkerTest, AnAbortWithoutStepsLeavesTheReportAsItIs) {
  load_from_seed();
  const RoundReport first = train_four_steps();
  tell_replica(AbortRound{key(1), AbortReason::kBelowMinReplicas, open(1, 10, 10)});
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.steps, Steps(4));
  EXPECT_EQ(second.norm, first.norm);
  tell_replica(AbortRound{key(1), AbortReason::kTimeSpent, open(1, 10, 12)});
  EXPECT_EQ(hear<FromReplica<RoundReport>>().body.steps, Steps(6));
}

TEST_F(WorkerTest, TheOuterRateIsThatOfTheCommit) {
  const Loaded loaded = load_from_seed();
  train_four_steps();
  tell_replica(plan(1, loaded.value_count));
  const Vote vote = hear<FromReplica<Vote>>().body;
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, true, {}, 0});
  EXPECT_EQ(hear<FromReplica<Applied>>().body.anchor, loaded.anchor);
}

class StreamingWorkerTest : public WorkerTest {
 protected:
  explicit StreamingWorkerTest(bool on_device = false) : WorkerTest(on_device) {
    spec_.model.layers = 2;
    spec_.sync.every = Steps(8);
    spec_.sync.codec = CodecKind::kFp32;
  }
  std::vector<float> anchor(RoundNumber round) {
    std::vector<float> held;
    EXPECT_TRUE(shelf_
                    .serve(ReplicaId(1), key(round),
                           [&](const outer_opt::DonorState& state) {
                             held.assign(state.anchor.begin(), state.anchor.end());
                           })
                    .ok());
    return held;
  }
  ReducePlan plan_of(RoundNumber round, std::int64_t values, std::int32_t fragment) {
    ReducePlan made = plan(round, values);
    made.fragment = fragment;
    return made;
  }
  Vote vote_in(const ReducePlan& made) {
    tell_replica(made);
    return hear<FromReplica<Vote>>().body;
  }
};

TEST_F(StreamingWorkerTest, ARoundChangesTheValuesOfItsFragment) {
  spec_.sync.fragments = 2;
  const Loaded loaded = load_from_seed();
  ASSERT_EQ(loaded.fragments.size(), 2u);
  EXPECT_EQ(loaded.fragments[0] + loaded.fragments[1], loaded.value_count);
  const std::vector<float> before = anchor(0);
  tell_replica(OpenRound{key(1), Steps(0), Steps(4), {0, 8}, 1});
  EXPECT_EQ(hear<FromReplica<RoundReport>>().body.tokens, Tokens(4 * 2 * 8));
  const Vote vote = vote_in(plan_of(1, loaded.fragments[0], 1));
  const OpenRound next{key(2), Steps(4), Steps(8), {8, 8}, 2};
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 1, 3}, false, next, 0.7});
  hear<FromReplica<Applied>>();
  const auto evaluated = hear<FromReplica<Evaluated>>().body;
  const std::vector<float> after = anchor(1);
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < after.size(); ++i) changed += after[i] != before[i] ? 1 : 0;
  EXPECT_GT(changed, loaded.fragments[0] / 2);
  EXPECT_LE(changed, loaded.fragments[0]);
  // The other fragment has both rounds behind it, this round only its own tokens.
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.tokens, Tokens(8 * 2 * 8));
  EXPECT_EQ(second.drawn, Tokens(4 * 2 * 8));
  EXPECT_GE(second.stood_s, 0);

  // What was evaluated is the anchor, not what stays local: a replica that holds only that agrees.
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_streaming";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  hear<CheckpointReady>();
  auto resume = load(2, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = folder.string();
  tell(resume);
  hear<Loaded>();
  tell(ToReplica<Evaluate>{ReplicaId(2), {key(1), {0, 1, 3}}});
  EXPECT_EQ(hear<FromReplica<Evaluated>>().body.loss_sum, evaluated.loss_sum);
}

TEST_F(StreamingWorkerTest, APlanForAnotherFragmentFailsByName) {
  spec_.sync.fragments = 2;
  const Loaded loaded = load_from_seed();
  tell_replica(OpenRound{key(1), Steps(0), Steps(4), {0, 8}, 1});
  hear<FromReplica<RoundReport>>();
  tell_replica(plan_of(1, loaded.fragments[1], 2));
  EXPECT_EQ(hear<FromReplica<ReduceFailed>>().body.failure, ReduceFailure::kPlanMismatch);
  ReducePlan again = plan_of(1, 7, 1);
  again.attempt = 2;
  tell_replica(again);
  EXPECT_EQ(hear<FromReplica<ReduceFailed>>().body.failure, ReduceFailure::kPlanMismatch);
}

TEST_F(StreamingWorkerTest, TrainsOnBehindTheBoundaryAndCountsEveryTokenOnce) {
  spec_.sync.overlap_steps = Steps(2);
  spec_.sync.blend = 0.5;
  const Loaded loaded = load_from_seed();
  tell_replica(OpenRound{key(1), Steps(0), Steps(8), {0, 20}, 0});
  const auto first = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(first.steps, Steps(8));
  const Vote vote = vote_in(plan(1, loaded.value_count));
  const OpenRound next{key(2), Steps(8), Steps(16), {20, 16}, 0};
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, false, next, 0.7});
  hear<FromReplica<Applied>>();
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.key, key(2));
  EXPECT_EQ(second.steps, Steps(8));
  EXPECT_EQ(second.drawn, Tokens(8 * 2 * 8));
  EXPECT_GT(second.norm, 0);
}

// What three rounds came to, wherever their outer steps were taken.
struct ThreeRounds : StreamingWorkerTest {
  ThreeRounds(bool on_device, std::int64_t fragments, std::int64_t overlap)
      : StreamingWorkerTest(on_device) {
    spec_.sync.fragments = fragments;
    spec_.sync.overlap_steps = Steps(overlap);
    spec_.sync.blend = 0.25;
    const Loaded loaded = load_from_seed();
    tell_replica(opening(1));
    for (RoundNumber round = 1; round <= 3; ++round) {
      norms.push_back(hear<FromReplica<RoundReport>>().body.norm);
      const std::int32_t fragment = opening(round).fragment;
      const std::int64_t values = fragment > 0
                                      ? loaded.fragments[static_cast<std::size_t>(fragment) - 1]
                                      : loaded.value_count;
      ReducePlan exact = plan_of(round, values, fragment);
      exact.codec = CodecKind::kFp32;  // as the lone node averages
      const Vote vote = vote_in(exact);
      tell_replica(
          CommitRound{key(round), 1, vote.average, {0, 0, 0}, false, opening(round + 1), 0.7});
      applied.push_back(hear<FromReplica<Applied>>().body);
    }
  }
  void TestBody() override {}
  OpenRound opening(RoundNumber round) {
    const std::int64_t length = 8 / spec_.sync.fragments, overlap = spec_.sync.overlap_steps.n;
    const std::int64_t from = (round - 1) * length, to = round * length;
    const std::int64_t first = round == 1 ? 0 : from + overlap;
    const auto fragment = spec_.sync.fragments > 1
                              ? static_cast<std::int32_t>((round - 1) % spec_.sync.fragments) + 1
                              : 0;
    return {key(round), Steps(from), Steps(to), {2 * first, 2 * (to + overlap - first)}, fragment};
  }
  int reduced_on_device() const { return node_.on_device; }
  std::vector<Applied> applied;
  std::vector<double> norms;
};

TEST(DeviceWorker, RoundsHaveTheBitsOfTheHost) {
  for (const auto& [fragments, overlap] : {std::pair(1, 0), std::pair(2, 0), std::pair(1, 2)}) {
    ThreeRounds host(false, fragments, overlap), device(true, fragments, overlap);
    EXPECT_EQ(device.reduced_on_device(), 3);
    EXPECT_EQ(host.reduced_on_device(), 0);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(device.applied[i].anchor, host.applied[i].anchor) << fragments << ", round " << i;
      EXPECT_EQ(device.applied[i].momentum, host.applied[i].momentum) << fragments;
      EXPECT_NEAR(device.norms[i], host.norms[i], 1e-9);
    }
  }
}

struct DeviceWorkerTest : WorkerTest {
  DeviceWorkerTest() : WorkerTest(true) {}
};

// The host computes what the device does not.
TEST_F(DeviceWorkerTest, ARingIsReducedOnTheHost) {
  const Loaded loaded = load_from_seed();
  train_four_steps();
  ReducePlan ring = plan(1, loaded.value_count);
  ring.topology = Topology::kRing;
  tell_replica(ring);
  const Vote vote = hear<FromReplica<Vote>>().body;
  tell_replica(CommitRound{key(1), 1, vote.average, {0, 0, 0}, true, {}, 0.7});
  EXPECT_NE(hear<FromReplica<Applied>>().body.anchor, loaded.anchor);
  EXPECT_EQ(node_.on_device, 0);
}

TEST_F(DeviceWorkerTest, JobsThatDoNotSuitStayOnTheHost) {
  spec_.sync.algorithm = SyncAlgorithm::kDdp;
  load_from_seed();
  EXPECT_EQ(accelerator_.held, 0);
}

TEST_F(DeviceWorkerTest, ADeviceWithoutRoomIsNamed) {
  accelerator_.room = 100;
  tell(load(1, SourceKind::kSeed, 0));
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kOutOfMemory);
}

TEST_F(DeviceWorkerTest, ADeviceThatFailsAtTheBoundaryReportsNothing) {
  load_from_seed();
  accelerator_.waits_left = 0;
  tell_replica(open(1, 0, 4));
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDeviceLost);
}

class AsyncWorkerTest : public WorkerTest {
 protected:
  AsyncWorkerTest() {
    spec_.sync.algorithm = SyncAlgorithm::kAsync;
    node_.others = 0.01f;
  }
  // Round 1 is committed without this replica, which goes on with `lease` for round 2.
  Applied commit_without(const Loaded& loaded, DataLease lease, std::int64_t steps) {
    ReducePlan without = plan(1, loaded.value_count);
    without.members[0].weight = 0;
    tell_replica(without);
    const Vote vote = hear<FromReplica<Vote>>().body;
    CommitRound commit{key(1), 1, vote.average, {0, 0, 0}, false, {}, 0.7};
    commit.next = {key(2), Steps(0), Steps(steps), lease};
    commit.share = 0.5, commit.refresh = false, commit.keeps = true;
    tell_replica(commit);
    return hear<FromReplica<Applied>>().body;
  }
};

// The anchor moves, what was trained stays as it is and is reported again.
TEST_F(AsyncWorkerTest, AReportThatCameTooLateCountsInTheNextRound) {
  const Loaded loaded = load_from_seed();
  const RoundReport first = train_four_steps();
  const Applied applied = commit_without(loaded, {0, 8}, 4);
  EXPECT_NE(applied.anchor, loaded.anchor);
  EXPECT_NE(applied.momentum, loaded.momentum);
  const auto second = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(second.key, key(2));
  EXPECT_EQ(second.steps, Steps(4));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.train_loss, first.train_loss);
  EXPECT_NEAR(second.norm, first.norm, 1e-4 * first.norm);
}

// A round without it neither stops it nor takes what it has. The lease is longer than the test.
TEST_F(AsyncWorkerTest, TrainsOnWhileOthersCommit) {
  const Loaded loaded = load_from_seed();
  constexpr std::int64_t kLong = 1'000'000;
  tell_replica(open(1, 0, kLong));
  commit_without(loaded, {0, 2 * kLong}, kLong);
  tell_replica(CloseRound{key(2)});
  const auto report = hear<FromReplica<RoundReport>>().body;
  EXPECT_EQ(report.key, key(2));
  EXPECT_LT(report.steps, Steps(kLong));
  EXPECT_EQ(report.tokens, Tokens(report.steps.count() * 2 * 8));
  EXPECT_EQ(report.nonfinite, 0);
}

// The result is adopted where nothing is kept.
TEST_F(AsyncWorkerTest, AContributionBeginsAnewFromTheAnchor) {
  const Loaded loaded = load_from_seed();
  train_four_steps();
  tell_replica(plan(1, loaded.value_count));
  const Vote vote = hear<FromReplica<Vote>>().body;
  CommitRound commit{key(1), 1, vote.average, {0, 0, 0}, false, {}, 0.7};
  commit.next = {key(2), Steps(2), Steps(4), {100, 4}};
  commit.share = 0.5, commit.refresh = false;
  tell_replica(commit);
  hear<FromReplica<Applied>>();
  EXPECT_EQ(hear<FromReplica<RoundReport>>().body.steps, Steps(2));
}

TEST_F(WorkerTest, CheckpointAndResume) {
  const Loaded loaded = load_from_seed();
  const Applied applied = run_round(loaded, 1, 0, 4, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_checkpoint";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  const auto ready = hear<CheckpointReady>();
  EXPECT_EQ(ready.checkpoint, CheckpointId(5));
  EXPECT_FALSE(ready.sample.empty()) << "of the last round";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(6), key(3)}, folder.string()});
  EXPECT_EQ(hear<CheckpointFailed>().checkpoint, CheckpointId(6));

  auto resume = load(2, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = folder.string();
  resume.assign.source.anchor = applied.anchor;
  resume.assign.source.momentum = applied.momentum;
  tell(resume);
  const auto again = hear<Loaded>();
  EXPECT_EQ(again.replica, ReplicaId(2));
  EXPECT_EQ(again.anchor, applied.anchor);
  EXPECT_EQ(again.momentum, applied.momentum);
}

TEST_F(WorkerTest, JoinerTakesTheDonorsState) {
  OuterState donor;
  donor.anchor.assign(static_cast<std::size_t>(parameter_count(with_derived_fields(spec_).model)),
                      0.5f);
  donor.momentum.assign(donor.anchor.size(), 0.25f);
  node_.donor = &donor;
  auto join = load(1, SourceKind::kPeer, 3);
  join.assign.source.anchor = digest_of(std::span<const float>(donor.anchor));
  tell(join);
  const auto loaded = hear<Loaded>();
  EXPECT_EQ(loaded.key, key(3));
  EXPECT_EQ(loaded.anchor, join.assign.source.anchor);
}

// Alone it keeps all momentum; what a plan says that another one keeps is fetched before the
// reduce, and a checkpoint has all of it, whoever keeps it.
TEST_F(WorkerTest, ShardedMomentumIsStagedFollowedAndGathered) {
  spec_.sync.outer_state = shoal::OuterState::kSharded;
  const Loaded loaded = load_from_seed();
  EXPECT_EQ(loaded.momentum, Digest());
  const std::int64_t n = loaded.value_count, half = n / 2;
  Applied applied = run_round(loaded, 1, 0, 2, {0, 0, 0}, true);
  EXPECT_EQ(applied.momentum, Digest());
  EXPECT_EQ(node_.momentum_seen, std::vector<float>(static_cast<std::size_t>(n), 0.0f));

  holders_ = {{replica_, "a:1", 0, half}, {ReplicaId(7), "b:1", half, n - half}};
  run_round(loaded, 2, 2, 4, {0, 0, 0}, true);
  EXPECT_NE(node_.momentum_seen.front(), 0.25f);
  EXPECT_EQ(node_.momentum_seen.back(), 0.25f);

  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_sharded";
  WriteCheckpoint wanted{CheckpointId(5), key(2), holders_};
  wanted.momentum[1].address.clear();
  tell(WriteCheckpointTo{replica_, wanted, folder.string()});
  hear<CheckpointFailed>();
  tell(WriteCheckpointTo{replica_, {CheckpointId(6), key(2), holders_}, folder.string()});
  hear<CheckpointReady>();
  const auto written = read_checkpoint(folder, std::nullopt, true);
  ASSERT_TRUE(written) << to_string(written.error());
  EXPECT_EQ(written->momentum.back(), 0.25f);
  EXPECT_NE(written->momentum.front(), 0.25f);

  auto resume = load(2, SourceKind::kCheckpoint, 2);
  resume.checkpoint_folder = folder.string();
  tell(resume);
  EXPECT_EQ(hear<Loaded>().momentum, Digest());
  std::vector<float> kept;
  const auto take = [&](std::span<const float> values) {
    kept.assign(values.begin(), values.end());
  };
  EXPECT_TRUE(shelf_.serve_momentum(ReplicaId(2), key(2), {0, n}, take).ok());
  EXPECT_EQ(kept, written->momentum);
  EXPECT_FALSE(shelf_.serve_momentum(ReplicaId(2), key(2), {1, n}, take).ok());
  EXPECT_FALSE(shelf_.serve_momentum(ReplicaId(2), key(1), {0, n}, take).ok());
}

TEST_F(WorkerTest, AReduceWaitsForNoMomentumThatIsGone) {
  spec_.sync.outer_state = shoal::OuterState::kSharded;
  const Loaded loaded = load_from_seed();
  train_four_steps();
  holders_ = {{ReplicaId(7), "", 0, loaded.value_count}};
  tell_replica(plan(1, loaded.value_count));
  const auto failed = hear<FromReplica<ReduceFailed>>().body;
  EXPECT_EQ(failed.failure, ReduceFailure::kPeerLost);
  EXPECT_EQ(failed.lost, ReplicaId(7));
}

// With ddp the moments are part of what is committed: digests, checkpoints and joiners have them.
TEST_F(WorkerTest, SharedMomentsGoIntoCheckpointsAndToJoiners) {
  spec_.sync = default_spec(SyncAlgorithm::kDdp).sync;
  const Loaded loaded = load_from_seed();
  Applied applied = run_round(loaded, 1, 0, 1, {0, 0, 0}, true);
  EXPECT_NE(applied.momentum, loaded.momentum);
  applied = run_round(loaded, 2, 1, 2, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_ddp";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(2)}, folder.string()});
  hear<CheckpointReady>();
  OuterState held;
  ASSERT_TRUE(shelf_
                  .serve(ReplicaId(1), key(2),
                         [&](const outer_opt::DonorState& state) {
                           held.anchor.assign(state.anchor.begin(), state.anchor.end());
                           held.adam_m.assign(state.adam_m.begin(), state.adam_m.end());
                           held.adam_v.assign(state.adam_v.begin(), state.adam_v.end());
                           EXPECT_TRUE(state.momentum.empty());
                         })
                  .ok());
  EXPECT_EQ(momentum_digest(held), applied.momentum);

  auto resume = load(2, SourceKind::kCheckpoint, 2);
  resume.checkpoint_folder = folder.string();
  resume.assign.source.anchor = applied.anchor;
  resume.assign.source.momentum = applied.momentum;
  tell(resume);
  EXPECT_EQ(hear<Loaded>().momentum, applied.momentum);

  node_.donor = &held;
  auto join = load(3, SourceKind::kPeer, 2);
  join.assign.source.anchor = applied.anchor;
  join.assign.source.momentum = applied.momentum;
  tell(join);
  EXPECT_EQ(hear<Loaded>().momentum, applied.momentum);
}

// What muon keeps goes into checkpoints and to joiners, and all of them take the same next steps.
TEST_F(WorkerTest, MuonTrainsOnAfterACheckpointAndAtAJoiner) {
  spec_.train.optimizer = Optimizer::kMuon;
  const Loaded loaded = load_from_seed();
  const Applied first = run_round(loaded, 1, 0, 4, {0, 0, 0}, true);
  const auto folder = std::filesystem::path(testing::TempDir()) / "shoal_worker_test_muon";
  tell(WriteCheckpointTo{ReplicaId(1), {CheckpointId(5), key(1)}, folder.string()});
  hear<CheckpointReady>();
  OuterState held;
  std::int64_t steps = 0;
  ASSERT_TRUE(shelf_
                  .serve(ReplicaId(1), key(1),
                         [&](const outer_opt::DonorState& state) {
                           held.anchor.assign(state.anchor.begin(), state.anchor.end());
                           held.momentum.assign(state.momentum.begin(), state.momentum.end());
                           held.adam_m.assign(state.adam_m.begin(), state.adam_m.end());
                           held.adam_v.assign(state.adam_v.begin(), state.adam_v.end());
                           steps = state.adam_step;
                         })
                  .ok());
  EXPECT_LT(held.adam_v.size(), held.adam_m.size());
  EXPECT_EQ(steps, 4);
  const Applied uninterrupted = run_round(loaded, 2, 4, 8, {0, 0, 0}, true);

  replica_ = ReplicaId(2);
  auto resume = load(2, SourceKind::kCheckpoint, 1);
  resume.checkpoint_folder = folder.string();
  resume.assign.source.anchor = first.anchor;
  tell(resume);
  EXPECT_EQ(run_round(hear<Loaded>(), 2, 4, 8, {0, 0, 0}, true), uninterrupted);

  replica_ = ReplicaId(3);
  node_.donor = &held;
  tell(load(3, SourceKind::kPeer, 1));
  EXPECT_EQ(run_round(hear<Loaded>(), 2, 4, 8, {0, 0, 0}, true), uninterrupted);
}

TEST_F(WorkerTest, WrongDigestAndLostDonorAreNamed) {
  tell(load(1, SourceKind::kPeer, 3));
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDonorLost);
  auto wrong = load(2, SourceKind::kSeed, 0);
  wrong.assign.source.anchor = {1, 2};
  tell(wrong);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDigestMismatch);
}

TEST_F(WorkerTest, MissingDataModelTooLargeAndBadLeaseAreNamed) {
  auto missing = load(1, SourceKind::kSeed, 0);
  missing.assign.spec.data.train = "/nowhere/text";
  tell(missing);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kDataMissing);
  auto huge = load(1, SourceKind::kSeed, 0);
  huge.assign.spec.model.hidden = 65536;
  huge.assign.spec.model.layers = 200;
  tell(huge);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kOutOfMemory);
  load_from_seed();
  OpenRound round = open(1, 0, 4);
  round.lease.count = 7;
  tell_replica(round);
  EXPECT_EQ(hear<ReplicaFailed>().failure, ReplicaFailure::kInternal);
}

TEST_F(WorkerTest, EvaluateInTheMiddleOfARoundUsesTheAnchor) {
  load_from_seed();
  tell_replica(Evaluate{key(0), {0, 1, 4}});
  const auto before = hear<FromReplica<Evaluated>>().body;
  train_four_steps();
  tell_replica(Evaluate{key(0), {0, 1, 4}});
  const auto after = hear<FromReplica<Evaluated>>().body;
  EXPECT_DOUBLE_EQ(before.loss_sum, after.loss_sum);
}

TEST_F(WorkerTest, SlicesOfTheValidationAddUp) {
  load_from_seed();
  tell_replica(Evaluate{key(0), {0, 1, 5}});
  const auto whole = hear<FromReplica<Evaluated>>().body;
  tell_replica(Evaluate{key(0), {0, 2, 5}});
  const auto even = hear<FromReplica<Evaluated>>().body;
  tell_replica(Evaluate{key(0), {1, 2, 5}});
  const auto odd = hear<FromReplica<Evaluated>>().body;
  EXPECT_EQ(whole.tokens, even.tokens + odd.tokens);
  EXPECT_NEAR(whole.loss_sum, even.loss_sum + odd.loss_sum, 1e-6);
}

TEST_F(WorkerTest, DonorShelfGivesTheHeldRoundOnly) {
  const Loaded loaded = load_from_seed();
  Digest anchor;
  std::size_t moments = 0;
  const auto take = [&](const outer_opt::DonorState& state) {
    anchor = digest_of(state.anchor);
    moments = state.adam_m.size();
  };
  EXPECT_EQ(shelf_.serve(ReplicaId(9), key(0), take).error().code, Code::kNotFound);
  EXPECT_EQ(shelf_.serve(ReplicaId(1), key(2), take).error().code, Code::kConflict);
  ASSERT_TRUE(shelf_.serve(ReplicaId(1), key(0), take).ok());
  EXPECT_EQ(anchor, loaded.anchor);
  EXPECT_EQ(moments, static_cast<std::size_t>(loaded.value_count));
}

}  // namespace
}  // namespace shoal::trainer
