// Every kind of message survives the wire with no field at its default, and malformed ones are
// refused by the name of the field.
#include "proto/convert.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::proto {
namespace {

using testing::HasSubstr;

const RoundKey kKey{JobId(3), 1, 17};
const Digest kAnchor{11, 12}, kMomentum{21, 22};
const OpenRound kOpen{
    kKey, Steps(800), Steps(850), {{70, 2}, {4000, 600}}, 2, {{ReplicaId(3), "a:1"}}, 5, true};
const std::vector<FileEntry> kFiles{{"model.safetensors", Bytes(1000), std::string(64, 'a')},
                                    {"resume/outer.bin", Bytes(7), std::string(64, '0')}};

CommitRecord record() {
  return {.key = kKey,
          .step = Steps(440),
          .tokens = Tokens(12'345),
          .next_sequence = 9000,
          .returned = {{70, 2}, {4000, 600}},
          .carried_steps = 3,
          .outer_lr = 0.4,
          .averages = {{1, 2}, {3, 4}},
          .anchors = {kAnchor, {}},
          .momenta = {kMomentum, {}},
          .next_replica = 10,
          .next_checkpoint = 4,
          .momentum_holders = {{ReplicaId(3), "a:1", 0, 60}}};
}

JobSpec spec() {
  JobSpec spec;
  spec.name = "kjv";
  spec.data.train = "/data/kjv.txt";
  spec.train.lr = 3e-4;
  spec.sync.codec = CodecKind::kFp32;
  return spec;
}

std::vector<UnitRange> cut() {
  return {{0, 2}, {2, static_cast<std::int32_t>(spec().model.layers) + 2}};
}

HeldReplica held(ReplicaId replica) {
  return {replica,   77,   JobId(3),        1,           2,        kKey,  kAnchor,
          kMomentum, 1234, "10.0.0.4:7100", {1000, 234}, record(), cut(), spec()};
}

Assign assign() {
  const StateSource source{SourceKind::kPeer, kKey,    "10.0.0.7:7100", ReplicaId(8),
                           CheckpointId(4),   kAnchor, kMomentum};
  return {ReplicaId(9), JobId(3), 2, 1, cut(), spec(), source, record(), 77};
}

Device device() {
  return {2, DeviceKind::kCuda, "NVIDIA H200", Bytes(150'000'000'000), 51'234.5, true};
}

// The bytes are serialised in between, as on a socket.
template <typename Wire>
Wire over_the_wire(const Wire& message) {
  Wire arrived;
  EXPECT_TRUE(arrived.ParseFromString(message.SerializeAsString()));
  return arrived;
}

template <typename Message>
void expect_survives(const Message& message) {
  const auto read_back = read(over_the_wire(to_wire(message)));
  ASSERT_TRUE(read_back.ok()) << to_string(read_back.error());
  EXPECT_EQ(read_back.value(), message) << "alternative " << message.index();
}

TEST(Convert, Hello) {
  const Hello hello{std::string(32, 'f'),
                    "node-1",
                    {5},
                    1,
                    1,
                    "0.1.0",
                    "10.0.0.4",
                    {device()},
                    {{"rack", "a"}, {"zone", "b"}},
                    {held(ReplicaId(9)), {ReplicaId(10), 77, JobId(3), 0, 1, {JobId(3), 0, -1}}}};
  const auto read_back = read_hello(over_the_wire(to_wire(hello)));
  ASSERT_TRUE(read_back.ok()) << to_string(read_back.error());
  EXPECT_EQ(*read_back, hello);
}

TEST(Convert, EveryMessageOfAnAgent) {
  const ReplicaId replica(9);
  const std::vector<FromAgent> all{
      Heartbeat{12, Bytes(345)},
      DeviceMeasured{device()},
      LoadProgress{replica, Bytes(70), Bytes(90)},
      Loaded{replica, kKey, kAnchor, kMomentum, 1234, "10.0.0.4:7100", {1000, 234}, {5, 6}},
      ReplicaFailed{replica, ReplicaFailure::kPeerUnreachable, "no route"},
      Progress{replica, kKey, Steps(33), Tokens(444), 2.5, 0.7, 1e-3, 9000.5},
      PipelineStats{replica,
                    34,
                    2,
                    5,
                    milliseconds(40),
                    99,
                    3,
                    1,
                    0.75,
                    {{ReplicaId(4), milliseconds(50), 98, Bytes(1000), Bytes(900)}}},
      FromReplica<RoundReport>{
          replica,
          {kKey,
           Tokens(5),
           Steps(6),
           2.25,
           0.5,
           0.25,
           3,
           1.5,
           Tokens(4),
           0.5,
           {{ReplicaId(4), milliseconds(50), 1e6, 2e6, true}, {ReplicaId(5), {}, 0, 0, false}},
           7,
           Steps(2),
           {{70, 2}, {90, 1}}}},
      FromReplica<Vote>{replica, {kKey, 2, kAnchor, {Bytes(70), Bytes(80), 0.9}, {ReplicaId(4)}}},
      FromReplica<ReduceFailed>{replica,
                                {kKey, 2, ReplicaId(8), ReduceFailure::kTimeLimit, "slow"}},
      FromReplica<Applied>{replica, {kKey, kAnchor, kMomentum, {1, 2}, {3, 4}, {5, 6}}},
      FromReplica<Evaluated>{replica, {kKey, {1, 4, 20}, 812.5, Tokens(400)}},
      CheckpointWritten{replica, CheckpointId(4), kKey, kFiles, "Ahab sp\u00e9ak"},
      CheckpointFailed{replica, CheckpointId(4), "disk full"},
      Goodbye{"stopped"}};
  ASSERT_EQ(all.size(), std::variant_size_v<FromAgent>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].index(), i);
    expect_survives(all[i]);
  }
}

TEST(Convert, EveryMessageOfTheCoordinator) {
  const ReplicaId replica(9);
  const ReducePlan plan{kKey,
                        3,
                        Topology::kButterfly,
                        CodecKind::kFp32,
                        Aggregator::kTrimmedMean,
                        100,
                        {{replica, "a:1", 500, 0.5, 0, 60}, {ReplicaId(10), "b:2", 0, 1, 60, 40}},
                        seconds(30),
                        3};
  ReducePlan with_reducer = plan;
  with_reducer.topology = Topology::kParamServer;
  with_reducer.members[1].reducer = true;
  with_reducer.outer_lr = 0.7;
  with_reducer.entropy_coding = true;
  expect_survives(ToAgent(ToReplica<ReducePlan>{replica, with_reducer}));
  ReducePlan with_owner_step = plan;
  const std::vector<MomentumHolder> holders{{replica, "a:1", 0, 60},
                                            {ReplicaId(10), "b:2", 60, 40}};
  with_owner_step.owner_step = OwnerStep{{0.6, 0.8}, holders};
  expect_survives(ToAgent(ToReplica<ReducePlan>{replica, with_owner_step}));
  expect_survives(ToAgent(ToReplica<WriteCheckpoint>{replica, {CheckpointId(4), kKey, holders}}));
  const std::vector<ToAgent> all{
      Welcome{AgentId(2), {6}, seconds(2), seconds(10), {replica}},
      Refused{{Code::kIncompatible, "protocol 0 is too old", "protocol", "update the agent"}},
      assign(),
      Release{replica, ReleaseReason::kCancelled},
      ToReplica<PipelineView>{
          replica, {JobId(3), 1, 17, {{replica, 0, "10.0.0.7:7100", 1e12}, {ReplicaId(4), 1}}}},
      ToReplica<OpenRound>{replica, kOpen},
      ToReplica<CloseRound>{replica, {kKey}},
      ToReplica<ReducePlan>{replica, plan},
      ToReplica<CommitRound>{replica,
                             {kKey, 3, kAnchor, {1, 4, 20}, false, kOpen, 0.4, 0.25, false, true}},
      ToReplica<AbortRound>{replica, {kKey, AbortReason::kTimeSpent, kOpen}},
      ToReplica<ResumeAt>{replica, {kKey, record()}},
      ToReplica<Evaluate>{replica, {kKey, {1, 4, 20}}},
      ToReplica<WriteCheckpoint>{replica, {CheckpointId(4), kKey}},
      ForgetCheckpoint{CheckpointId(4)}};
  ASSERT_EQ(all.size(), std::variant_size_v<ToAgent>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].index(), i);
    expect_survives(all[i]);
  }
  expect_survives(ToAgent(ToReplica<CommitRound>{replica, {kKey, 3, kAnchor, {}, true, {}}}));
  for (const RoundOutcome outcome : {RoundOutcome::kKept, RoundOutcome::kDropped}) {
    CommitRound commit{kKey, 3, {}, {}, true, {}};
    commit.outcome = outcome;
    commit.record = record();
    expect_survives(ToAgent(ToReplica<CommitRound>{replica, commit}));
  }
}

TEST(Convert, EveryMessageBetweenAgentAndTrainer) {
  const ReplicaId replica(9);
  const std::vector<FromTrainer> from{
      TrainerReady{3, device(), "10.0.0.4:7100", "libtorch 1.13.1", kProtocolVersion + 4, assign()},
      LoadProgress{replica, Bytes(70), Bytes(90)},
      Loaded{replica, kKey, kAnchor, kMomentum, 1234, "10.0.0.4:7100", {1000, 234}, {5, 6}},
      ReplicaFailed{replica, ReplicaFailure::kOutOfMemory, "80 GiB wanted"},
      Progress{replica, kKey, Steps(33), Tokens(444), 2.5, 0.7, 1e-3, 9000.5},
      PipelineStats{replica,
                    34,
                    2,
                    5,
                    milliseconds(40),
                    99,
                    3,
                    1,
                    0.75,
                    {{ReplicaId(4), milliseconds(50), 98, Bytes(1000), Bytes(900)}}},
      FromReplica<RoundReport>{
          replica, {kKey, Tokens(5), Steps(6), 2.25, 0.5, 0.25, 3, 1.5, Tokens(4), 0.5, {}, 7}},
      FromReplica<Vote>{replica, {kKey, 2, kAnchor, {Bytes(70), Bytes(80), 0.9}, {ReplicaId(4)}}},
      FromReplica<ReduceFailed>{replica,
                                {kKey, 2, ReplicaId(8), ReduceFailure::kBadFrame, "checksum"}},
      FromReplica<Applied>{replica, {kKey, kAnchor, kMomentum, {1, 2}, {3, 4}, {5, 6}}},
      FromReplica<Evaluated>{replica, {kKey, {1, 4, 20}, 812.5, Tokens(400)}},
      CheckpointReady{replica, CheckpointId(4), kKey, "Ahab"},
      CheckpointFailed{replica, CheckpointId(4), "disk full"}};
  ASSERT_EQ(from.size(), std::variant_size_v<FromTrainer>);
  for (const auto& message : from) expect_survives(message);

  const ReducePlan plan{kKey,
                        3,
                        Topology::kButterfly,
                        CodecKind::kInt8,
                        Aggregator::kMean,
                        100,
                        {{replica, "a:1", 500, 0.5, 0, 100}},
                        seconds(30)};
  const std::vector<ToTrainer> to{
      LoadReplica{assign(), "/var/lib/shoal/fetched/ckpt_4"},
      Release{replica, ReleaseReason::kDraining},
      ToReplica<PipelineView>{
          replica, {JobId(3), 1, 17, {{replica, 0, "10.0.0.7:7100", 1e12}, {ReplicaId(4), 1}}}},
      ToReplica<OpenRound>{replica, kOpen},
      ToReplica<CloseRound>{replica, {kKey}},
      ToReplica<ReducePlan>{replica, plan},
      ToReplica<CommitRound>{replica,
                             {kKey, 3, kAnchor, {1, 4, 20}, false, kOpen, 0.4, 0.25, false, true}},
      ToReplica<AbortRound>{replica, {kKey, AbortReason::kBelowMinReplicas, kOpen}},
      ToReplica<ResumeAt>{replica, {kKey, record()}},
      ToReplica<Evaluate>{replica, {kKey, {1, 4, 20}}},
      WriteCheckpointTo{replica, {CheckpointId(4), kKey}, "/var/lib/shoal/written/ckpt_4"},
      StopTrainer{}};
  ASSERT_EQ(to.size(), std::variant_size_v<ToTrainer>);
  for (const auto& message : to) expect_survives(message);
}

TEST(Convert, EveryWordOfEveryEnum) {
  for (const auto& word : kWords<ReplicaFailure>) {
    expect_survives(FromAgent(ReplicaFailed{ReplicaId(1), word.value, ""}));
  }
  for (const auto& word : kWords<ReduceFailure>) {
    ReduceFailed failed{kKey, 1, ReplicaId(), word.value, ""};
    expect_survives(FromAgent(FromReplica<ReduceFailed>{ReplicaId(1), failed}));
  }
  for (const auto& word : kWords<ReleaseReason>) {
    expect_survives(ToAgent(Release{ReplicaId(1), word.value}));
  }
  for (const auto& word : kWords<AbortReason>) {
    expect_survives(ToAgent(ToReplica<AbortRound>{ReplicaId(1), {kKey, word.value, kOpen}}));
  }
  for (const auto& word : kWords<Code>) {
    Refused refused;
    refused.error.code = word.value;
    const auto read_back = read(to_wire(ToAgent(refused)));
    ASSERT_TRUE(read_back.ok());
    EXPECT_EQ(std::get<Refused>(*read_back).error.code, refused.error.code);
  }
}

TEST(Convert, NotANumberPassesWhereItIsNews) {
  const FromAgent report =
      FromReplica<RoundReport>{ReplicaId(1), {kKey, Tokens(5), Steps(6), NAN, NAN, INFINITY, 3, 1}};
  const auto read_back = read(to_wire(report));
  ASSERT_TRUE(read_back.ok());
  EXPECT_TRUE(std::isnan(std::get<FromReplica<RoundReport>>(*read_back).body.norm));
}

// ---- malformed

template <typename Wire>
void expect_refused(const Wire& message, const std::string& field) {
  const auto result = read(message);
  ASSERT_FALSE(result.ok()) << field;
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_EQ(result.error().field, field);
}

TEST(Convert, MissingBodies) {
  expect_refused(v1::AgentMessage(), "body");
  expect_refused(v1::CoordinatorMessage(), "body");
  expect_refused(v1::TrainerMessage(), "body");
  expect_refused(v1::TrainerCommand(), "body");
  EXPECT_FALSE(read_hello(to_wire(FromAgent(Heartbeat{}))).ok());
  Hello hello;
  expect_refused(to_wire(hello), "hello");  // only as the first message
}

TEST(Convert, BadMessagesOfAnAgent) {
  v1::AgentMessage message = to_wire(FromAgent(Heartbeat{1, Bytes(1)}));
  message.mutable_heartbeat()->set_sequence(-1);
  expect_refused(message, "heartbeat.sequence");

  message = to_wire(FromAgent(ReplicaFailed{ReplicaId(1), ReplicaFailure::kFrozen, ""}));
  message.mutable_replica_failed()->set_failure("on_fire");
  expect_refused(message, "replica_failed.failure");

  message = to_wire(FromAgent(FromReplica<Applied>{ReplicaId(1), {kKey, kAnchor, kMomentum}}));
  message.set_replica(0);
  expect_refused(message, "replica");
  message.set_replica(1);
  message.mutable_applied()->clear_key();
  expect_refused(message, "applied.key");

  message =
      to_wire(FromAgent(FromReplica<Evaluated>{ReplicaId(1), {kKey, {4, 4, 20}, 1, Tokens(1)}}));
  expect_refused(message, "evaluated.slice.slice");
}

TEST(Convert, PathsStayInTheirFolder) {
  for (const char* path : {"", "/etc/passwd", "../x", "a/../b", "a//b", "a/.", "a/"}) {
    const FileEntry entry{path, Bytes(1), std::string(64, 'a')};
    EXPECT_FALSE(read(to_wire(entry)).ok()) << path;
  }
  EXPECT_FALSE(read(to_wire(FileEntry{"a", Bytes(1), std::string(64, 'G')})).ok());
  EXPECT_FALSE(read(to_wire(FileEntry{"a", Bytes(-1), std::string(64, 'a')})).ok());
  EXPECT_TRUE(read(to_wire(FileEntry{"a/..b/c.", Bytes(1), std::string(64, 'a')})).ok());
  auto message = to_wire(FromAgent(CheckpointWritten{ReplicaId(1), CheckpointId(1), kKey, kFiles}));
  message.mutable_checkpoint_written()->mutable_files(1)->set_path("../x");
  expect_refused(message, "checkpoint_written.files.path");
}

TEST(Convert, ASampleIsShort) {
  auto message = to_wire(FromAgent(CheckpointWritten{ReplicaId(1), CheckpointId(1), kKey, kFiles}));
  message.mutable_checkpoint_written()->set_sample(std::string(kSampleBytesMax, 'a'));
  EXPECT_TRUE(read(message).ok());
  message.mutable_checkpoint_written()->set_sample(std::string(kSampleBytesMax + 1, 'a'));
  expect_refused(message, "checkpoint_written.sample");
}

TEST(Convert, BadMessagesOfTheCoordinator) {
  auto message = to_wire(ToAgent(assign()));
  message.mutable_assign()->set_spec_json("{\"name\": \"a\"}");
  expect_refused(message, "assign.spec_json");
  message = to_wire(ToAgent(assign()));
  message.mutable_assign()->mutable_source()->set_donor_address("");
  expect_refused(message, "assign.source.donor");

  message = to_wire(ToAgent(Welcome{AgentId(2), {6}, seconds(2), seconds(10), {}}));
  message.mutable_welcome()->set_heartbeat_every_ns(0);
  expect_refused(message, "welcome.heartbeat_every_ns");

  message = to_wire(ToAgent(ToReplica<OpenRound>{ReplicaId(1), kOpen}));
  message.mutable_open()->set_to_step(799);
  expect_refused(message, "open.to_step");
}

TEST(Convert, FragmentsAddUpToTheVector) {
  Loaded loaded{ReplicaId(1), kKey, kAnchor, kMomentum, 100, "a:1", {60, 39}};
  expect_refused(to_wire(FromAgent(loaded)), "loaded.fragments");
  loaded.fragments = {60, 41};
  expect_refused(to_wire(FromAgent(loaded)), "loaded.fragments");
  loaded.fragments = {100, 0};
  expect_refused(to_wire(FromAgent(loaded)), "loaded.fragments");
}

TEST(Convert, NobodyOwnsAPartInAnAllGather) {
  ReducePlan plan{kKey,
                  3,
                  Topology::kAllgather,
                  CodecKind::kSparse2,
                  Aggregator::kMean,
                  100,
                  {{ReplicaId(1), "a:1", 1, 1, 0, 0}, {ReplicaId(2), "b:2", 1, 1, 0, 0}},
                  seconds(1)};
  expect_survives(ToAgent(ToReplica<ReducePlan>{ReplicaId(1), plan}));
  plan.members[0].part_count = 100;
  plan.members[1].part_first = 100;
  expect_refused(to_wire(ToAgent(ToReplica<ReducePlan>{ReplicaId(1), plan})), "reduce.members");
  plan.topology = Topology::kRing;
  expect_survives(ToAgent(ToReplica<ReducePlan>{ReplicaId(1), plan}));
}

TEST(Convert, PartsOfAPlanCoverTheVector) {
  const ReducePlan plan{kKey,
                        3,
                        Topology::kButterfly,
                        CodecKind::kInt8,
                        Aggregator::kMean,
                        100,
                        {{ReplicaId(1), "a:1", 1, 1, 0, 60}, {ReplicaId(2), "b:2", 1, 1, 60, 40}},
                        seconds(1)};
  const auto good = to_wire(ToAgent(ToReplica<ReducePlan>{ReplicaId(1), plan}));
  auto bad = good;
  bad.mutable_reduce()->mutable_members(1)->set_part_first(50);
  expect_refused(bad, "reduce.members.part_count");
  bad = good;
  bad.mutable_reduce()->mutable_members(1)->set_part_count(INT64_MAX);
  expect_refused(bad, "reduce.members.part_count");
  bad = good;
  bad.mutable_reduce()->set_value_count(101);
  expect_refused(bad, "reduce.members");
  bad = good;
  bad.mutable_reduce()->mutable_members(0)->set_clip_factor(1.5);
  expect_refused(bad, "reduce.members.clip_factor");
  bad = good;
  bad.mutable_reduce()->mutable_members(0)->set_weight(NAN);
  expect_refused(bad, "reduce.members.weight");
}

}  // namespace
}  // namespace shoal::proto
