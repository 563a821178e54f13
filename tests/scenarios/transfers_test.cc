// A checkpoint of 4 GB over 20 Mbit/s, up and down, in virtual time: the cores of coordinator and
// agent over a line that is cut five times. It takes half an hour, and nobody loses patience; what
// the other end has is not sent again.
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "agent/core/agent.h"
#include "base/overloaded.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal {
namespace {

constexpr Bytes kSize{4'000'000'000};
constexpr std::int64_t kBytesPerSecond = 20'000'000 / 8;
constexpr Duration kCut = seconds(50);  // how long the line is gone each time

// Files on their way, one byte after the other. What is under way when the line is cut is lost.
struct Way {
  std::int64_t there = 0, sent = 0;
  int cuts = 0;
  bool running = false;
  Instant down_until;

  bool arrived() const { return there == kSize.count(); }
  bool is_down(Instant now) const { return now < down_until; }
  // One second of the line; true: it was cut.
  bool move(Instant now) {
    const std::int64_t step = std::min(kBytesPerSecond, kSize.count() - there);
    sent += step;
    if (cuts < 5 && there >= (cuts + 1) * kSize.count() / 6) {
      ++cuts;
      down_until = now + kCut;
      running = false;
      return true;
    }
    there += step;
    return false;
  }
};

// One coordinator and one agent with one trainer, whose messages take no time. The session between
// them stays; it is the line of the files that breaks.
class World {
 public:
  World() : agent_(agent_options()), rig_(std::make_unique<coordinator::Rig>()) {
    JobSpec spec = coordinator::small_job();
    spec.train.steps = Steps(1000);
    spec.swarm.min_replicas = 1;
    job_ = *rig_->submit(spec);
    tell_agent(agent::Booted{});
    settle();
  }

  void second() {
    now_ = rig_->now = now_ + seconds(1);
    rig_->input(coordinator::Tick{});
    hand_over();
    tell_agent(agent::Tick{});
    if (replica_ && trains_) trainer_says(Progress{.replica = *replica_, .key = round_});
    move_upload();
    move_fetch();
    settle();
  }
  template <typename Done>
  bool run(std::int64_t limit, const Done& done) {
    for (std::int64_t s = 0; s < limit && !done(); ++s) second();
    return done();
  }
  void end_trainer() {
    trains_ = false;
    replica_.reset();
    tell_agent(agent::TrainerExited{trainer_, {0, 9, ""}});
    settle();
  }

  const coordinator::JobRecord& job() const { return rig_->job(job_); }
  bool is_stored() const {
    for (const auto& [id, checkpoint] : rig_->state().checkpoints) {
      if (checkpoint.state == coordinator::CheckpointState::kStored) return true;
    }
    return false;
  }
  std::int64_t count_events(const char* kind) const {
    return std::count_if(rig_->events.begin(), rig_->events.end(),
                         [&](const auto& event) { return event.kind == kind; });
  }
  bool is_serving() const {
    return replica_ && rig_->state().replicas.contains(*replica_) &&
           rig_->state().replicas.at(*replica_).state == coordinator::ReplicaState::kServing;
  }
  Instant now() const { return now_; }

  Way upload, fetch;
  int loads = 0;
  bool may_commit = true;

 private:
  static agent::Options agent_options() {
    agent::Options options;
    options.uid = std::string(32, 'a');
    options.name = options.host = "a";
    options.data_dir = "/data";
    options.devices = {{0, DeviceKind::kCpu, "cpu", mebibytes(4096), 10, false}};
    return options;
  }

  void tell_agent(agent::Input input) { inbox_.push_back(std::move(input)); }
  void trainer_says(FromTrainer message) {
    tell_agent(agent::TrainerSaid{trainer_, std::move(message)});
  }
  void settle() {
    while (!inbox_.empty()) {
      const agent::Input input = std::move(inbox_.front());
      inbox_.pop_front();
      agent::Effects effects;
      agent_.step(now_, input, effects);
      for (const agent::Effect& effect : effects) {
        std::visit([this](const auto& each) { perform(each); }, effect);
      }
      hand_over();
    }
  }
  // What the coordinator has sent since the last time.
  void hand_over() {
    std::vector<ToAgent> said = std::exchange(rig_->sent[connection_], {});
    for (ToAgent& message : said) {
      tell_agent(agent::CoordinatorSaid{link_, std::move(message)});
    }
  }

  void perform(const agent::OpenLink& effect) {
    link_ = effect.link;
    connection_.n += 1;
    tell_agent(agent::LinkUp{link_});
    rig_->input(coordinator::AgentHello{connection_, effect.hello});
  }
  void perform(const agent::SendCoordinator& effect) { rig_->say(connection_, effect.message); }
  void perform(const agent::StartTrainer& effect) {
    trainer_ = effect.trainer;
    tell_agent(agent::TrainerAttached{
        trainer_, {0, {0, DeviceKind::kCpu, "cpu", mebibytes(4096), 10, false}, "a:1", ""}});
  }
  void perform(const agent::SendTrainer& effect) {
    std::visit([this](const auto& each) { obey(each); }, effect.message);
  }
  void perform(const agent::HashCheckpoint& effect) {
    const std::string hash(64, 'a');
    tell_agent(agent::CheckpointHashed{effect.part,
                                       {{"model.safetensors", kSize, hash},
                                        {"shoal.json", Bytes(), hash},
                                        {"shoal_state.safetensors", Bytes(), hash}}});
  }
  void perform(const agent::UploadCheckpoint& effect) {
    uploading_ = effect.part;
    upload.running = true;
  }
  void perform(const agent::FetchCheckpoint& effect) {
    fetching_ = effect.part;
    fetch.running = true;
  }
  void perform(const auto&) {}

  void move_upload() {
    if (!upload.running) return;
    const bool broken = upload.is_down(now_) || upload.move(now_);
    if (broken) {
      upload.running = false;
      tell_agent(agent::CheckpointUploadFailed{uploading_, {Code::kUnavailable, "cut", "", ""}});
      return;
    }
    rig_->input(coordinator::CheckpointMoved{uploading_.checkpoint, 0, Bytes(upload.there)});
    tell_agent(agent::CheckpointUploadMoved{uploading_, Bytes(upload.there)});
    if (!upload.arrived()) return;
    upload.running = false;
    rig_->input(coordinator::CheckpointUploaded{uploading_.checkpoint, 0,
                                                rig_->files_of(uploading_.checkpoint, 0)});
    tell_agent(agent::CheckpointUploadDone{uploading_});
  }
  void move_fetch() {
    if (!fetch.running) return;
    const bool broken = fetch.is_down(now_) || fetch.move(now_);
    if (broken) {
      fetch.running = false;
      tell_agent(agent::CheckpointFetchFailed{fetching_, {Code::kUnavailable, "cut", "", ""}});
      return;
    }
    tell_agent(agent::CheckpointFetchMoved{fetching_, Bytes(fetch.there), kSize});
    if (!fetch.arrived()) return;
    fetch.running = false;
    tell_agent(agent::CheckpointFetched{fetching_});
  }

  void obey(const LoadReplica& command) {
    ++loads;
    replica_ = command.assign.replica;
    const StateSource& source = command.assign.source;
    const Digest anchor = source.anchor ? source.anchor : Digest{7, 7};
    const Digest momentum = source.momentum ? source.momentum : Digest{8, 8};
    trainer_says(Loaded{*replica_, source.key, anchor, momentum, kSize.count() / 16, "a:1"});
  }
  void obey(const ToReplica<OpenRound>& order) { open(order.body); }
  void obey(const ToReplica<ReducePlan>& order) {
    trainer_says(FromReplica<Vote>{*replica_, {order.body.key, order.body.attempt, {5, 5}, {}}});
  }
  void obey(const ToReplica<CommitRound>& order) {
    trainer_says(FromReplica<Applied>{*replica_, {order.body.key, {11, 11}, {9, 9}}});
    if (!order.body.last) open(order.body.next);
  }
  void obey(const WriteCheckpointTo& command) {
    trainer_says(CheckpointReady{command.replica, command.command.checkpoint, command.command.key});
  }
  void obey(const Release&) { trainer_says(TrainerReady{}); }
  void obey(const auto&) {}

  void open(const OpenRound& order) {
    round_ = order.key;
    trains_ = true;
    if (!std::exchange(may_commit, false)) return;
    RoundReport report{.key = order.key, .tokens = Tokens(5), .steps = Steps(10)};
    report.drawn = report.tokens;
    report.norm = 1;
    trainer_says(FromReplica<RoundReport>{*replica_, report});
  }

  Instant now_{1'700'000'000'000'000'000};
  agent::Agent agent_;
  std::unique_ptr<coordinator::Rig> rig_;
  JobId job_;
  agent::LinkId link_;
  coordinator::ConnectionId connection_{100};
  agent::TrainerId trainer_;
  std::deque<agent::Input> inbox_;
  std::optional<ReplicaId> replica_;
  RoundKey round_;
  bool trains_ = false;
  agent::CheckpointPartId uploading_, fetching_;
};

void expect_sent_once(const Way& way) {
  EXPECT_EQ(way.cuts, 5);
  EXPECT_EQ(way.there, kSize.count());
  EXPECT_EQ(way.sent, kSize.count() + 5 * kBytesPerSecond) << "except what was under way";
}

TEST(Transfers, FourGigabytesOverTwentyMegabitsCutFiveTimes) {
  World world;
  Instant begun = world.now();
  ASSERT_TRUE(world.run(3000, [&] { return world.is_stored(); }));
  expect_sent_once(world.upload);
  EXPECT_GT(world.now() - begun, seconds(1600 + 5 * 50));
  EXPECT_LT(world.now() - begun, seconds(1600 + 5 * (50 + 35))) << "waits between two tries";
  EXPECT_EQ(world.count_events(coordinator::event_kind::kCheckpointFailed), 0);
  EXPECT_EQ(world.loads, 1) << "it trained all the while";

  world.end_trainer();
  begun = world.now();
  ASSERT_TRUE(world.run(3000, [&] { return world.is_serving(); }));
  expect_sent_once(world.fetch);
  EXPECT_GT(world.now() - begun, seconds(1600 + 5 * 50));
  EXPECT_LT(world.now() - begun, seconds(1600 + 5 * (50 + 35)));
  EXPECT_EQ(world.loads, 2) << "one load, however often the line was cut";
  EXPECT_EQ(world.job().committed_round, 1);
  EXPECT_EQ(world.count_events(coordinator::event_kind::kReplicaFailed), 1) << "the trainer's end";
}

}  // namespace
}  // namespace shoal
