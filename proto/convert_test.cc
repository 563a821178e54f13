// Every kind of message survives the wire with no field at its default, and malformed ones are
// refused by the name of the field.
#include "proto/convert.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/wire_text.h"
#include "proto/messages_test_util.h"
#include "proto/outsize.h"

namespace shoal::proto {
namespace {

// The bytes are serialized in between, as on a socket.
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
  const auto read_back = read_hello(over_the_wire(to_wire(hello())));
  ASSERT_TRUE(read_back.ok()) << to_string(read_back.error());
  EXPECT_EQ(*read_back, hello());
}

template <typename Message>
void expect_every_one_survives(const std::vector<Message>& all) {
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].index(), i);
    expect_survives(all[i]);
  }
}

TEST(Convert, EveryMessageOfAnAgent) { expect_every_one_survives(messages_of_agents()); }

TEST(Convert, EveryMessageOfTheCoordinator) {
  expect_every_one_survives(messages_of_the_coordinator());
}

TEST(Convert, EveryMessageBetweenAgentAndTrainer) {
  expect_every_one_survives(messages_of_trainers());
  expect_every_one_survives(commands_to_trainers());
}

TEST(Convert, WhatOnlySomeJobsSay) {
  const ReplicaId replica(9);
  ReducePlan with_reducer = plan_of_two();
  with_reducer.topology = Topology::kParamServer;
  with_reducer.members[1].reducer = true;
  with_reducer.outer_lr = 0.7;
  with_reducer.entropy_coding = true;
  expect_survives(ToAgent(ToReplica<ReducePlan>{replica, with_reducer}));
  ReducePlan with_owner_step = plan_of_two();
  const std::vector<MomentumHolder> holders{{replica, "a:1", 0, 60},
                                            {ReplicaId(10), "b:2", 60, 40}};
  with_owner_step.owner_step = OwnerStep{{0.6, 0.8}, holders};
  expect_survives(ToAgent(ToReplica<ReducePlan>{replica, with_owner_step}));
  expect_survives(ToAgent(ToReplica<WriteCheckpoint>{replica, {CheckpointId(4), kKey, holders}}));
  expect_survives(ToAgent(ToReplica<CommitRound>{replica, {kKey, 3, kAnchor, {}, true, {}}}));
  for (const RoundOutcome outcome : {RoundOutcome::kKept, RoundOutcome::kDropped}) {
    CommitRound commit{kKey, 3, {}, {}, true, {}};
    commit.outcome = outcome;
    commit.record = record();
    expect_survives(ToAgent(ToReplica<CommitRound>{replica, commit}));
  }
}

TEST(Convert, EveryWordOfEveryEnum) {
  for (const auto& word : kEnumerators<ReplicaFailure>) {
    expect_survives(FromAgent(ReplicaFailed{ReplicaId(1), word.value, ""}));
  }
  for (const auto& word : kEnumerators<ReduceFailure>) {
    ReduceFailed failed{kKey, 1, ReplicaId(), word.value, ""};
    expect_survives(FromAgent(FromReplica<ReduceFailed>{ReplicaId(1), failed}));
  }
  for (const auto& word : kEnumerators<ReleaseReason>) {
    expect_survives(ToAgent(Release{ReplicaId(1), word.value}));
  }
  for (const auto& word : kEnumerators<AbortReason>) {
    expect_survives(ToAgent(ToReplica<AbortRound>{ReplicaId(1), {kKey, word.value, kOpen}}));
  }
  for (const auto& word : kEnumerators<Code>) {
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

// ---- text that is not UTF-8, or too long

TEST(Convert, TextOfProgramsArrivesAsUtf8) {
  const FromAgent failed =
      ReplicaFailed{ReplicaId(1), ReplicaFailure::kTrainerExited, "caf\xe9: no such file"};
  const auto read_back = read(over_the_wire(to_wire(failed)));
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(std::get<ReplicaFailed>(*read_back).detail, "caf\xEF\xBF\xBD: no such file");
}

TEST(Convert, EveryTextOfEveryMessageArrivesAsUtf8) {
  const std::string bad = "a\xe2\x96";
  Hello hello;
  hello.name = hello.host = hello.version = hello.relay = bad;
  hello.labels = {{bad, bad}};
  hello.code_from = {bad};
  hello.devices = {{.name = bad}};
  over_the_wire(to_wire(hello));
  Heartbeat beat;
  beat.failures = {{0, bad}};
  over_the_wire(to_wire(FromAgent(beat)));
  over_the_wire(to_wire(FromAgent(Goodbye{bad})));
  over_the_wire(to_wire(FromAgent(CheckpointFailed{ReplicaId(1), CheckpointId(1), bad})));
  CheckpointReady ready;
  ready.sample = bad;
  ready.files = {{.path = bad}};
  over_the_wire(to_wire(FromTrainer(ready)));
  over_the_wire(to_wire(ToTrainer(LoadReplica{.checkpoint_folder = bad})));
  over_the_wire(to_wire(ToAgent(Refused{Error{Code::kInternal, bad, bad, bad}})));
}

TEST(Convert, ATextBeyondTheBoundOfItsFieldIsCutAtACharacter) {
  CheckpointWritten written{.replica = ReplicaId(1), .checkpoint = CheckpointId(1), .key = kKey};
  written.sample = std::string(kSampleBytesMax - 1, 'x') + "é" + "more";
  const auto read_back = read(over_the_wire(to_wire(FromAgent(written))));
  ASSERT_TRUE(read_back.ok()) << to_string(read_back.error());
  EXPECT_EQ(std::get<CheckpointWritten>(*read_back).sample, std::string(kSampleBytesMax - 1, 'x'));
}

TEST(Outsize, NamesTheKindAndTheSizeOfAMessage) {
  const auto wire = to_wire(FromAgent(Goodbye{std::string(1000, 'x')}));
  EXPECT_EQ(outsize(wire, wire.ByteSizeLong()), std::nullopt);
  EXPECT_EQ(*outsize(wire, 900),
            "goodbye: " + std::to_string(wire.ByteSizeLong()) + " bytes, of at most 900");
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

// What is kept, shown, logged and dialed.
TEST(Convert, AnAgentSaysOnlyPlainTextsAndAddresses) {
  Hello good;
  good.uid = std::string(32, 'f');
  good.name = "agent-1";
  good.host = "10.0.0.7";
  ASSERT_TRUE(read_hello(to_wire(good)).ok());
  const auto refused_field = [&](auto spoil) {
    Hello hello = good;
    spoil(hello);
    const auto read = read_hello(to_wire(hello));
    return read.ok() ? std::string() : read.error().field;
  };
  EXPECT_EQ(refused_field([](Hello& h) { h.name = "a\x1b[2J"; }), "hello.name");
  EXPECT_EQ(refused_field([](Hello& h) { h.version = "1\n2"; }), "hello.version");
  EXPECT_EQ(refused_field([](Hello& h) { h.host = "unix:/tmp/s"; }), "hello.host");
  EXPECT_EQ(refused_field([](Hello& h) { h.labels = {{"region", "a\nb"}}; }), "hello.labels");
  EXPECT_EQ(refused_field([](Hello& h) { h.labels.assign(65, {"k", "v"}); }), "hello.labels");
  EXPECT_EQ(refused_field([](Hello& h) { h.devices.assign(257, Device{}); }), "hello.devices");
  EXPECT_EQ(refused_field([](Hello& h) { h.devices = {Device{.name = "\xc2\x9b"}}; }),
            "hello.devices.name");
  Loaded loaded{.replica = ReplicaId(1), .key = kKey, .address = "dns:///peer"};
  expect_refused(to_wire(FromAgent(loaded)), "loaded.address");
}

TEST(Convert, BadMessagesOfAnAgent) {
  v1::AgentMessage message = to_wire(FromAgent(Heartbeat{1, Bytes(1)}));
  message.mutable_heartbeat()->set_sequence(-1);
  expect_refused(message, "heartbeat.sequence");

  message = to_wire(FromAgent(ReplicaFailed{ReplicaId(1), ReplicaFailure::kUnresponsive, ""}));
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

TEST(Convert, NamesOfLoggedValuesArePlainAndFew) {
  Progress said = progress();
  for (const char* name : {"", "a b", "../\n", "log\xc3\xa4"}) {
    said.logged = {{name, Steps(1), 2}};
    expect_refused(to_wire(FromAgent(said)), "progress.logged.name");
  }
  said.logged = {{std::string(kLoggedNameBytesMax + 1, 'a'), Steps(1), 2}};
  expect_refused(to_wire(FromAgent(said)), "progress.logged.name");
  said.logged.assign(kLoggedValuesMax + 1, {"layers.0/norm", Steps(1), 2});
  expect_refused(to_wire(FromAgent(said)), "progress.logged");
  said.logged.pop_back();
  EXPECT_TRUE(read(to_wire(FromAgent(said))).ok());
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
  message.mutable_assign()->mutable_source()->set_address("");
  expect_refused(message, "assign.source.replica");

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
