// The text of JSON columns. What 0.1.0 stored is read, and written again with the same bytes: an
// older coordinator that is put back reads it, too.
#include "coordinator/store/json_fields.h"

#include <cmath>

#include <gtest/gtest.h>

#include "coordinator/core/records/records.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kOne = "00000000000000010000000000000002";
constexpr const char* kThree = "00000000000000030000000000000004";

template <typename T>
void expect_stored(const std::string& text, const T& value) {
  T read{};
  const Status status = from_json(text, read);
  ASSERT_TRUE(status.ok()) << to_string(status.error());
  EXPECT_EQ(read, value) << text;
  EXPECT_EQ(to_json(value), text);
}

template <typename T>
void expect_refused(const std::string& text) {
  T read{};
  const Status status = from_json(text, read);
  ASSERT_FALSE(status.ok()) << text;
  EXPECT_EQ(status.error().code, Code::kDataLoss);
  EXPECT_EQ(read, T{});
}

TEST(JsonFields, Leases) {
  expect_stored<std::vector<DataLease>>("[]", {});
  expect_stored<std::vector<DataLease>>("[[0,16],[48,9223372036854775807]]",
                                        {{0, 16}, {48, INT64_MAX}});
}

TEST(JsonFields, WhatAnAgentHas) {
  expect_stored<std::vector<Device>>(
      R"([{"index":0,"kind":"cuda","name":"NVIDIA \"H200\"","memory_bytes":150000000000,)"
      R"("gflops":51234.5,"bf16":true,"uuid":"GPU-4f","total_bytes":151000000000,)"
      R"("grouped":0},)"
      R"({"index":1,"kind":"reducer","name":"","memory_bytes":0,"gflops":0.0,"bf16":false,)"
      R"("uuid":"","total_bytes":0,"grouped":0}])",
      {{0, DeviceKind::kCuda, "NVIDIA \"H200\"", Bytes(150'000'000'000), 51234.5, true, "GPU-4f",
        Bytes(151'000'000'000)},
       {1, DeviceKind::kReducer, "", Bytes(0), 0, false}});
  std::vector<Device> nameless;  // stored before devices had UUIDs
  ASSERT_TRUE(from_json(R"([{"index":1,"kind":"cpu","name":"","memory_bytes":0,"gflops":0.0,)"
                        R"("bf16":false}])",
                        nameless)
                  .ok());
  EXPECT_EQ(nameless, (std::vector<Device>{{.index = 1}}));
  expect_stored<std::vector<Label>>(R"([{"key":"zone","value":"a"},{"key":"gpu","value":""}])",
                                    {{"zone", "a"}, {"gpu", ""}});
  expect_stored<std::vector<DeviceRefusal>>(
      R"([{"device":2,"needed_bytes":4096,"at_ns":1700000000000000000,"code":"","kind":"memory",)"
      R"("uuid":"GPU-4f","job":0,"reasons":[],"fault":"none"},)"
      R"({"device":3,"needed_bytes":0,"at_ns":5,"code":"","kind":"unhealthy","uuid":"","job":7,)"
      R"("reasons":["trainer_exited: signal 9"],"fault":"remap_pending"}])",
      {{.device = 2, .needed = Bytes(4096), .at = {1'700'000'000'000'000'000}, .uuid = "GPU-4f"},
       {.device = 3,
        .needed = Bytes(),
        .at = {5},
        .kind = DeviceRefusalKind::kUnhealthy,
        .job = JobId(7),
        .reasons = {"trainer_exited: signal 9"},
        .fault = DeviceFault::kRemapPending}});
  std::vector<DeviceRefusal> before;  // stored before devices were cordoned
  ASSERT_TRUE(from_json(R"([{"device":2,"needed_bytes":4096,"at_ns":5}])", before).ok());
  EXPECT_EQ(before, (std::vector<DeviceRefusal>{{2, Bytes(4096), {5}}}));
}

TEST(JsonFields, Stages) {
  expect_stored<std::vector<JobStage>>(
      std::string(R"([{"units":[0,3],"value_count":1000,"anchor":")") + kOne +
          R"(","momentum":"","fragments":[600,400]},)" +
          R"({"units":[3,6],"value_count":0,"anchor":"","momentum":"","fragments":[]}])",
      {{{0, 3}, 1000, {1, 2}, {}, {600, 400}}, {{3, 6}, 0, {}, {}, {}}});
}

TEST(JsonFields, Reduces) {
  expect_stored<std::vector<Reduce>>(
      std::string(R"([{"attempt":2,"attempt_started_at_ns":77,"average":")") + kOne +
          R"(","anchor":"","momentum":"","topology":"ring","topology_reason":"many_streams",)" +
          R"("frame_values":262144,"entropy_coding":true,"momentum_holders":[{"replica":7,)" +
          R"("address":"10.0.0.1:7100","first":0,"count":500}],"given_up":false,"base":")" +
          kThree + R"(","base_momentum":"","drawn_for":1,"audited":[{"owner":7,"second":8,)" +
          R"("first":5,"count":6}],"suspects":[7,8],"barred":[9],)" +
          R"("accusations":[{"owner":9,"member":7}]}])",
      {{.attempt = 2,
        .attempt_started_at = {77},
        .average = {1, 2},
        .choice = {Topology::kRing, outer_opt::TopologyReason::kManyStreams},
        .entropy_coding = true,
        .momentum_holders = {{ReplicaId(7), "10.0.0.1:7100", 0, 500}},
        .base = {3, 4},
        .drawn_for = 1,
        .audited = {{ReplicaId(7), ReplicaId(8), 5, 6}},
        .suspects = {ReplicaId(7), ReplicaId(8)},
        .barred = {ReplicaId(9)},
        .accusations = {{ReplicaId(9), ReplicaId(7)}}}});
}

TEST(JsonFields, PartsOfACheckpoint) {
  const std::string begin =
      std::string(R"([{"writer":7,"state":"stored","anchor":")") + kOne + R"(","momentum":")" +
      kThree + R"(","files":[{"path":"model.safetensors","size":9,"sha256":"ab","role":""}])";
  std::vector<CheckpointPart> parts{{.writer = ReplicaId(7),
                                     .state = CheckpointState::kStored,
                                     .anchor = {1, 2},
                                     .momentum = {3, 4},
                                     .files = {{"model.safetensors", Bytes(9), "ab"}},
                                     .units = {0, 6}}};
  expect_stored(begin + R"(,"units":[0,6]}])", parts);
  std::vector<CheckpointPart> before;  // stored before the units were recorded
  ASSERT_TRUE(from_json(begin + "}]", before).ok());
  parts[0].units = {};
  EXPECT_EQ(before, parts);
}

TEST(JsonFields, WhereAReplicaGotItsStateFrom) {
  expect_stored<StateSource>(
      std::string(R"({"kind":"peer","job":3,"epoch":1,"round":40,"address":"h:1",)") +
          R"("replica":7,"checkpoint":0,"anchor":")" + kOne + R"(","momentum":""})",
      {.kind = SourceKind::kPeer,
       .key = {JobId(3), 1, 40},
       .address = "h:1",
       .replica = ReplicaId(7),
       .anchor = {1, 2}});
}

TEST(JsonFields, ANumberThatIsNotFiniteIsNull) {
  std::vector<Device> devices{{.gflops = INFINITY}};
  const std::string text = to_json(devices);
  EXPECT_NE(text.find("\"gflops\":null"), std::string::npos);
  ASSERT_TRUE(from_json(text, devices).ok());
  EXPECT_TRUE(std::isnan(devices[0].gflops));
}

TEST(JsonFields, WhatWritingDoesNotProduceIsRefused) {
  expect_refused<std::vector<DataLease>>("");
  expect_refused<std::vector<DataLease>>("[[1]]");
  expect_refused<std::vector<DataLease>>(R"([["a",1]])");
  expect_refused<std::vector<DeviceRefusal>>(R"([{"device":2,"needed_bytes":4096}])");
  expect_refused<std::vector<JobStage>>(
      R"([{"units":[0,3],"value_count":1,"anchor":"xyz","momentum":"","fragments":[]}])");
  expect_refused<StateSource>(R"({"kind":"theft"})");
}

}  // namespace
}  // namespace shoal::coordinator
