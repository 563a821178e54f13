// A donor and a joiner on loopback: everything arrives, and what cannot be given is refused by
// name.
#include <algorithm>
#include <functional>
#include <future>
#include <numeric>
#include <optional>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "outer_opt/transport/momentum_gather.h"
#include "outer_opt/transport/peer_node.h"
#include "proto/peer.grpc.pb.h"
#include "wire/emulated_line.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kValues = 600'001;  // three chunks, the last one odd
const RoundKey kKey{JobId(3), 1, 8};

std::vector<float> ramp(float from) {
  std::vector<float> values(kValues);
  std::iota(values.begin(), values.end(), from);
  return values;
}

struct Transfer : testing::Test {
  Transfer() {
    donor_node->set_donor(
        [this](ReplicaId replica, const RoundKey& key, const auto& serve) -> Status {
          if (replica != ReplicaId(5)) return Error{Code::kNotFound, "not my replica"};
          if (key != kKey) return Error{Code::kConflict, "I hold round 8"};
          serve(DonorState{kKey, anchor, momentum, adam_m, adam_v, 42});
          return {};
        });
  }

  Status fetch(ReplicaId replica, const RoundKey& key, std::stop_token stop = {}) {
    return joiner_node->fetch_state(donor_node->address(), replica, key, sink, stop);
  }

  std::unique_ptr<PeerNode> donor_node = PeerNode::start({}).value();
  std::unique_ptr<PeerNode> joiner_node = PeerNode::start({}).value();
  std::vector<float> anchor = ramp(1), momentum = ramp(2), adam_m = ramp(3), adam_v = ramp(4);
  std::vector<float> a = std::vector<float>(kValues), m = a, am = a, av = a;
  StateSink sink{a, m, am, av, 0};
};

TEST_F(Transfer, EverythingArrives) {
  const Status status = fetch(ReplicaId(5), kKey);
  ASSERT_TRUE(status.ok()) << to_string(status.error());
  EXPECT_EQ(a, anchor);
  EXPECT_EQ(m, momentum);
  EXPECT_EQ(am, adam_m);
  EXPECT_EQ(av, adam_v);
  EXPECT_EQ(sink.adam_step, 42);
  EXPECT_EQ(sink.received.count(), 4 * std::int64_t{sizeof(float)} * std::int64_t{kValues});
}

TEST_F(Transfer, OverALineItTakesWhatTheLineGives) {
  PeerNodeOptions options;
  options.line = std::make_shared<wire::EmulatedLine>(parse_link("down=40mbit").value());
  joiner_node = PeerNode::start(options).value();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(fetch(ReplicaId(5), kKey).ok());
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const double line_s = static_cast<double>(sink.received.count()) / 5e6;
  EXPECT_GT(spent.count(), 0.95 * line_s);
  EXPECT_LT(spent.count(), 1.5 * line_s + 1);
  EXPECT_EQ(av, adam_v);
  // What came after the first 4 MiB was entropy coded: of these ramps three bytes of four are left.
  const auto plain = static_cast<std::int64_t>(4 * sizeof(float) * kValues);
  EXPECT_LT(sink.received.count(), (4 << 20) + (plain - (4 << 20)) * 8 / 10 + (1 << 20));
}

TEST_F(Transfer, WrongReplicaAndWrongRound) {
  EXPECT_EQ(fetch(ReplicaId(6), kKey).error().code, Code::kNotFound);
  EXPECT_EQ(fetch(ReplicaId(5), {JobId(3), 1, 9}).error().code, Code::kConflict);
}

TEST_F(Transfer, RangesOfMomentumFromSeveralHolders) {
  donor_node->set_momentum_donor([this](ReplicaId replica, const RoundKey& key,
                                        const ValueRange& range, const auto& serve) -> Status {
    const bool mine = replica == ReplicaId(5) && key == kKey && range.first >= 100;
    if (!mine) return Error{Code::kConflict, "I do not keep that"};
    serve(std::span<const float>(momentum).subspan(range.first, range.count));
    return {};
  });
  const std::string address = donor_node->address();
  Restaged staged{MomentumShards({{50, 500'000}}),
                  {{ReplicaId(5), address, 100, 300'001}, {ReplicaId(5), address, 400'000, 10}}};
  const Gathered gathered = gather_momentum(*joiner_node, kKey, staged, {});
  ASSERT_TRUE(gathered.status.ok()) << to_string(gathered.status.error());
  const auto got = std::as_const(staged.shards).at({50, 500'000});
  EXPECT_EQ(got[49], 0);
  EXPECT_TRUE(std::equal(got.begin() + 50, got.begin() + 300'051, momentum.begin() + 100));
  EXPECT_EQ(got[300'051], 0);
  EXPECT_EQ(got[399'959], momentum[400'009]);
  EXPECT_EQ(got[399'960], 0);

  staged.missing.push_back({ReplicaId(6), address, 60, 10});
  const Gathered refused = gather_momentum(*joiner_node, kKey, staged, {});
  EXPECT_EQ(refused.status.error().code, Code::kConflict);
  EXPECT_EQ(refused.lost, ReplicaId(6));
  donor_node->set_momentum_donor(nullptr);
  EXPECT_EQ(gather_momentum(*joiner_node, kKey, staged, {}).status.error().code, Code::kNotFound);
}

TEST_F(Transfer, AnotherModelSize) {
  momentum.pop_back();
  EXPECT_FALSE(fetch(ReplicaId(5), kKey).ok());
  momentum = ramp(2);
  anchor.push_back(0);
  EXPECT_FALSE(fetch(ReplicaId(5), kKey).ok());
}

// A donor that sends these chunks, whatever it was asked for.
class BadDonor : v1::PeerService::Service {
 public:
  BadDonor() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~BadDonor() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void send(v1::StateTensor tensor, std::int64_t first, const std::string& bytes) {
    v1::StateChunk chunk;
    chunk.set_tensor(tensor);
    chunk.set_first(first);
    chunk.set_values(bytes);
    chunk.set_checksum(checksum_of(std::as_bytes(std::span(bytes))));
    chunks.push_back(chunk);
  }
  // Four vectors of two values.
  void send_all() {
    for (const auto tensor : {v1::STATE_TENSOR_ANCHOR, v1::STATE_TENSOR_MOMENTUM,
                              v1::STATE_TENSOR_ADAM_M, v1::STATE_TENSOR_ADAM_V}) {
      send(tensor, 0, std::string(8, 'x'));
    }
  }
  std::vector<v1::StateChunk> chunks;

 private:
  grpc::Status FetchState(grpc::ServerContext*, const v1::FetchStateRequest*,
                          grpc::ServerWriter<v1::StateChunk>* writer) override {
    for (const v1::StateChunk& chunk : chunks) writer->Write(chunk);
    return grpc::Status::OK;
  }
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(BadTransfer, OnlyWholeChunksInTheirPlacesAreTaken) {
  struct Case {
    std::optional<Code> expected;
    const char* what;
    std::function<void(BadDonor&)> send;
  };
  const std::string two(8, 'x');
  const std::vector<Case> cases = {
      {std::nullopt, "all of it", [](BadDonor& d) { d.send_all(); }},
      {Code::kIncompatible, "nothing", [](BadDonor&) {}},
      {Code::kIncompatible, "too little", [](BadDonor& d) { d.send_all(), d.chunks.pop_back(); }},
      {Code::kDataLoss, "too much",
       [&](BadDonor& d) { d.send_all(), d.send(v1::STATE_TENSOR_ADAM_V, 2, two); }},
      {Code::kDataLoss, "more, of no vector",
       [&](BadDonor& d) { d.send_all(), d.send(v1::STATE_TENSOR_UNSPECIFIED, 0, two); }},
      {Code::kDataLoss, "another vector first",
       [&](BadDonor& d) { d.send(v1::STATE_TENSOR_MOMENTUM, 0, two); }},
      {Code::kDataLoss, "a gap", [&](BadDonor& d) { d.send(v1::STATE_TENSOR_ANCHOR, 1, two); }},
      {Code::kIncompatible, "half a value, and then as if it had been whole",
       [](BadDonor& d) {
         d.send_all();
         d.chunks.erase(d.chunks.begin());
         d.send(v1::STATE_TENSOR_ANCHOR, 0, "123456");
         d.send(v1::STATE_TENSOR_ANCHOR, 1, "7890");
         std::rotate(d.chunks.begin(), d.chunks.end() - 2, d.chunks.end());
       }},
      {Code::kIncompatible, "an empty chunk",
       [](BadDonor& d) { d.send(v1::STATE_TENSOR_ANCHOR, 0, ""); }},
      {Code::kIncompatible, "a longer vector",
       [](BadDonor& d) { d.send(v1::STATE_TENSOR_ANCHOR, 0, std::string(12, 'x')); }},
      {Code::kDataLoss, "a damaged chunk",
       [](BadDonor& d) { d.send_all(), d.chunks[2].set_values("xxxxxxxy"); }}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    BadDonor donor;
    one.send(donor);
    std::vector<float> a(2), m(2), am(2), av(2);
    StateSink sink{a, m, am, av, 0};
    const auto joiner = PeerNode::start({}).value();
    const Status status = joiner->fetch_state(donor.address(), ReplicaId(5), kKey, sink, {});
    EXPECT_EQ(status.ok() ? std::nullopt : std::optional(status.error().code), one.expected);
  }
}

TEST_F(Transfer, NoDonorYet) {
  donor_node->set_donor(nullptr);
  EXPECT_EQ(fetch(ReplicaId(5), kKey).error().code, Code::kNotFound);
}

TEST_F(Transfer, DonorGone) {
  const std::string address = donor_node->address();
  donor_node.reset();
  const Status status = joiner_node->fetch_state(address, ReplicaId(5), kKey, sink, {});
  EXPECT_EQ(status.error().code, Code::kUnavailable);
}

TEST_F(Transfer, Cancelled) {
  std::promise<void> asked, go_on;
  donor_node->set_donor([&](ReplicaId, const RoundKey&, const auto&) -> Status {
    asked.set_value();
    go_on.get_future().wait();
    return Error{Code::kConflict, "too late"};
  });
  std::stop_source stop;
  auto running =
      std::async(std::launch::async, [&] { return fetch(ReplicaId(5), kKey, stop.get_token()); });
  asked.get_future().wait();
  stop.request_stop();
  EXPECT_EQ(running.get().error().code, Code::kCancelled);
  go_on.set_value();
}

}  // namespace
}  // namespace shoal::outer_opt
