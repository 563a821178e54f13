// For tests: a message of every kind with no field at its default, each list in the order of its
// variant.
#pragma once

#include <string>
#include <vector>

#include "job/sync_spec_test_util.h"
#include "messages/trainer_messages.h"

namespace shoal::proto {

inline const RoundKey kKey{JobId(3), 1, 17};
inline const Digest kAnchor{11, 12}, kMomentum{21, 22};
inline const OpenRound kOpen{
    kKey, Steps(800), Steps(850), {{70, 2}, {4000, 600}}, 2, {{ReplicaId(3), "a:1"}}, 5, true};
inline const std::vector<FileEntry> kFiles{
    {"model.safetensors", Bytes(1000), std::string(64, 'a'), "weights"},
    {"resume/outer.bin", Bytes(7), std::string(64, '0')}};

inline CommitRecord record() {
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
          .momentum_holders = {{ReplicaId(3), "a:1", 0, 60}},
          .proof = {.job_name = "kjv",
                    .owner = "ada",
                    .priority = 33,
                    .spec_sha256 = std::string(64, 'b'),
                    .agent = AgentId(2),
                    .replica = ReplicaId(9),
                    .value_count = 1234,
                    .anchors = {kAnchor, kMomentum},
                    .momenta = {kMomentum, kAnchor},
                    .key_id = "k1",
                    .mac = std::string(64, 'c')}};
}

inline JobSpec spec() {
  JobSpec spec;
  spec.name = "kjv";
  spec.data.train = "/data/kjv.txt";
  spec.train.lr = 3e-4;
  change_sync(spec, [](SyncSpec& sync) { sync.codec = CodecKind::kFp32; });
  return spec;
}

inline std::vector<UnitRange> cut() {
  return {{0, 2}, {2, static_cast<std::int32_t>(spec().model.layers) + 2}};
}

inline HeldReplica held(ReplicaId replica) {
  return {replica,   77,   JobId(3),        1,           2,        kKey,  kAnchor,
          kMomentum, 1234, "10.0.0.4:7100", {1000, 234}, record(), cut(), spec()};
}

inline Assign assign() {
  const StateSource source{SourceKind::kPeer, kKey,    "10.0.0.7:7100", ReplicaId(8),
                           CheckpointId(4),   kAnchor, kMomentum};
  return {ReplicaId(9), JobId(3), 2, 1, cut(), spec(), source, record(), 77, {}, "ada"};
}

inline Device device() {
  return {2,    DeviceKind::kCuda, "NVIDIA H200",         Bytes(150'000'000'000), 51'234.5,
          true, "GPU-4f1c",        Bytes(151'000'000'000)};
}

inline DeviceSample device_sample() {
  return {
      "GPU-4f1c",
      DeviceAnswer::kPartial,
      seconds(3),
      "not supported",
      DeviceUse{0.75, 0.125, Bytes(1000), Bytes(2000), 0.25},
      DeviceClimate{71.5, 350, 700, 1200, 1980, {"sw_power_cap"}},
      DeviceErrors{5, 1, 2, true, true, 7, 8, RecoveryAction::kResetGpu, {{79, 1, seconds(4)}}}};
}

inline Hello hello() {
  return {std::string(32, 'f'),
          "node-1",
          {5},
          1,
          1,
          "0.1.0",
          "10.0.0.4",
          {device()},
          {{"rack", "a"}, {"zone", "b"}},
          {held(ReplicaId(9)), {ReplicaId(10), 77, JobId(3), 0, 1, {JobId(3), 0, -1}}},
          "10.0.0.4:7200",
          true,
          true,
          {"ada"},
          ProgramLimits::kCgroup};
}

inline Vote vote() {
  return {kKey, 2, kAnchor, {Bytes(70), Bytes(80), 0.9}, {{ReplicaId(4)}, {}, {}}};
}

inline ReducePlan plan_of_two() {
  return {kKey,
          3,
          Topology::kButterfly,
          CodecKind::kFp32,
          Aggregator::kTrimmedMean,
          100,
          {{ReplicaId(9), "a:1", 500, 0.5, 0, 60}, {ReplicaId(10), "b:2", 0, 1, 60, 40}},
          seconds(30),
          3};
}

inline ReducePlan plan_of_one() {
  return {kKey,
          3,
          Topology::kButterfly,
          CodecKind::kInt8,
          Aggregator::kMean,
          100,
          {{ReplicaId(9), "a:1", 500, 0.5, 0, 100}},
          seconds(30)};
}

inline const ReplicaId kReplica(9);

// What a trainer says and its agent passes on.
inline Loaded loaded() {
  return {kReplica,        kKey,        kAnchor, kMomentum,     1234,
          "10.0.0.4:7100", {1000, 234}, {5, 6},  {ReplicaId(4)}};
}
inline Progress progress() {
  return {
      kReplica, kKey, Steps(33), Tokens(444), 2.5, 0.7, 1e-3, 9000.5, {{"norm", Steps(32), -1.5}}};
}
inline PipelineStats stats() {
  return {kReplica,
          34,
          2,
          5,
          milliseconds(40),
          99,
          3,
          1,
          6,
          0.75,
          {{ReplicaId(4), milliseconds(50), 98, Bytes(1000), Bytes(900)}}};
}

inline CopiesHeld copies_held() { return {{{ReplicaId(21), kKey, kAnchor, kMomentum}}}; }
inline KeepCopies keep_copies() {
  return {{{ReplicaId(21), 1, 1234, kKey, kAnchor, kMomentum, {{ReplicaId(4), "a:1"}}}}};
}

inline std::vector<RefusalCount> refusals() {
  return {{RefusalReason::kForeign, 3}, {RefusalReason::kLimits, 40}};
}

inline LoadProgress load_progress() {
  return {kReplica,   Bytes(70), Bytes(90),
          Bytes(110), Bytes(20), {{"head.weight", {64, 300}, "BF16"}, {"scale", {}, "F32"}}};
}

inline MeasureBlock measure_block() {
  return {1,
          {ModelFamily::kGpt2, 768, 12, 12, 64, 3072, 1024, 50257, true, Precision::kBf16, 4,
           Recompute::kRecompute},
          12,
          16};
}
inline BlockMeasured block_measured() {
  return {1, kAnchor, {milliseconds(12), milliseconds(1), milliseconds(9)}, ""};
}

inline MeasureLine measure_line() { return {"\xff\x01payload", 77, 65'536}; }
inline LineMeasured line_measured() { return {"\xfe\x02payload", 77}; }

inline std::vector<FromAgent> messages_of_agents() {
  return {Heartbeat{12,
                    Bytes(345),
                    refusals(),
                    RelayFigures{3, 2, 40, Bytes(9000), 1, 5, 6},
                    {{1, "out of memory"}},
                    {device_sample()}},
          DeviceMeasured{device()},
          block_measured(),
          line_measured(),
          load_progress(),
          loaded(),
          ReplicaFailed{kReplica, ReplicaFailure::kPeerUnreachable, "no route"},
          progress(),
          stats(),
          FromReplica<RoundReport>{
              kReplica,
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
               {{ReplicaId(4), milliseconds(50), 1e6, 2e6, true, PeerWay::kRelayed},
                {ReplicaId(5), {}, 0, 0, false}},
               7,
               Steps(2),
               {{70, 2}, {90, 1}}}},
          FromReplica<Vote>{kReplica, vote()},
          FromReplica<ReduceFailed>{kReplica,
                                    {kKey, 2, ReplicaId(8), ReduceFailure::kTimeLimit, "slow"}},
          FromReplica<Applied>{kReplica, {kKey, kAnchor, kMomentum, {1, 2}, {3, 4}, {5, 6}}},
          FromReplica<Evaluated>{kReplica, {kKey, {1, 4, 20}, 812.5, Tokens(400)}},
          FromReplica<CopiesHeld>{kReplica, copies_held()},
          CheckpointWritten{kReplica, CheckpointId(4), kKey, kFiles, "Ahab sp\u00e9ak", kAnchor},
          CheckpointFailed{kReplica, CheckpointId(4), "disk full"},
          Goodbye{"stopped"}};
}

inline std::vector<ToAgent> messages_of_the_coordinator() {
  return {
      Welcome{AgentId(2), {6}, seconds(2), seconds(10), {kReplica}, {"10.0.0.9:7200"}},
      Refused{{Code::kIncompatible, "protocol 0 is too old", "protocol", "update the agent"}},
      assign(),
      Release{kReplica, ReleaseReason::kCancelled},
      ToReplica<PipelineView>{
          kReplica,
          {JobId(3), 1, 17, {{kReplica, 0, "10.0.0.7:7100", 1e12, seconds(2)}, {ReplicaId(4), 1}}}},
      ToReplica<OpenRound>{kReplica, kOpen},
      ToReplica<CloseRound>{kReplica, {kKey}},
      ToReplica<ReducePlan>{kReplica, plan_of_two()},
      ToReplica<CommitRound>{kReplica,
                             {kKey, 3, kAnchor, {1, 4, 20}, false, kOpen, 0.4, 0.25, false, true}},
      ToReplica<AbortRound>{kReplica, {kKey, AbortReason::kTimeSpent, kOpen}},
      ToReplica<ResumeAt>{kReplica, {kKey, record()}},
      ToReplica<Evaluate>{kReplica, {kKey, {1, 4, 20}}},
      ToReplica<WriteCheckpoint>{kReplica, {CheckpointId(4), kKey}},
      ToReplica<KeepCopies>{kReplica, keep_copies()},
      ForgetCheckpoint{CheckpointId(4)},
      Relays{{"10.0.0.9:7200", "relay.example.org:7200"}},
      ToReplica<KeepRecord>{kReplica, {record()}},
      measure_block(),
      measure_line()};
}

inline std::vector<FromTrainer> messages_of_trainers() {
  return {
      TrainerReady{3, device(), "10.0.0.4:7100", "libtorch 1.13.1", 7, assign(), true},
      load_progress(),
      loaded(),
      ReplicaFailed{kReplica, ReplicaFailure::kOutOfMemory, "80 GiB wanted"},
      progress(),
      stats(),
      PortRefusals{refusals()},
      FromReplica<RoundReport>{
          kReplica, {kKey, Tokens(5), Steps(6), 2.25, 0.5, 0.25, 3, 1.5, Tokens(4), 0.5, {}, 7}},
      FromReplica<Vote>{kReplica, vote()},
      FromReplica<ReduceFailed>{kReplica,
                                {kKey, 2, ReplicaId(8), ReduceFailure::kBadFrame, "checksum"}},
      FromReplica<Applied>{kReplica, {kKey, kAnchor, kMomentum, {1, 2}, {3, 4}, {5, 6}}},
      FromReplica<Evaluated>{kReplica, {kKey, {1, 4, 20}, 812.5, Tokens(400)}},
      FromReplica<CopiesHeld>{kReplica, copies_held()},
      CheckpointReady{kReplica, CheckpointId(4), kKey, "Ahab", kFiles, kAnchor},
      CheckpointFailed{kReplica, CheckpointId(4), "disk full"},
      block_measured()};
}

inline std::vector<ToTrainer> commands_to_trainers() {
  return {
      LoadReplica{assign(), "/var/lib/shoal/fetched/ckpt_4"},
      Release{kReplica, ReleaseReason::kDraining},
      ToReplica<PipelineView>{
          kReplica,
          {JobId(3), 1, 17, {{kReplica, 0, "10.0.0.7:7100", 1e12, seconds(2)}, {ReplicaId(4), 1}}}},
      ToReplica<OpenRound>{kReplica, kOpen},
      ToReplica<CloseRound>{kReplica, {kKey}},
      ToReplica<ReducePlan>{kReplica, plan_of_one()},
      ToReplica<CommitRound>{kReplica,
                             {kKey, 3, kAnchor, {1, 4, 20}, false, kOpen, 0.4, 0.25, false, true}},
      ToReplica<AbortRound>{kReplica, {kKey, AbortReason::kBelowMinReplicas, kOpen}},
      ToReplica<ResumeAt>{kReplica, {kKey, record()}},
      ToReplica<Evaluate>{kReplica, {kKey, {1, 4, 20}}},
      ToReplica<KeepCopies>{kReplica, keep_copies()},
      WriteCheckpointTo{kReplica, {CheckpointId(4), kKey}, "/var/lib/shoal/written/ckpt_4"},
      StopTrainer{},
      Relays{{"10.0.0.9:7200"}},
      ToReplica<KeepRecord>{kReplica, {record()}},
      measure_block()};
}

}  // namespace shoal::proto
