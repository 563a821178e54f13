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

// Gives up at the first break.
PeerNodeOptions hasty() {
  PeerNodeOptions options;
  options.state_patience = options.momentum_patience = {Duration{}, seconds(30)};
  return options;
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
  std::unique_ptr<PeerNode> joiner_node = PeerNode::start(hasty()).value();
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
  // Packed from the moment that the line, or a busy host, seems slow; never more than the values.
  const std::int64_t plain = 4 * std::int64_t{sizeof(float)} * std::int64_t{kValues};
  EXPECT_LE(sink.received.count(), plain);
  EXPECT_GT(sink.received.count(), plain / 4);
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
  std::vector<v1::FetchStateRequest> requests;
  // Ends each stream after so many chunks, the way a line does that is lost; 0: whole streams.
  std::size_t cut_after = 0;
  std::size_t damages = 1000;  // this chunk of the first stream

 private:
  grpc::Status FetchState(grpc::ServerContext*, const v1::FetchStateRequest* request,
                          grpc::ServerWriter<v1::StateChunk>* writer) override {
    requests.push_back(*request);
    const auto first = static_cast<std::size_t>(cut_after == 0 ? 0 : request->from() / 2);
    const std::size_t end = cut_after == 0 ? chunks.size() : first + cut_after;
    for (std::size_t i = first; i < std::min(end, chunks.size()); ++i) {
      v1::StateChunk chunk = chunks[i];
      if (i == damages && requests.size() == 1) chunk.set_values("xxxxxxxy");
      writer->Write(chunk);
    }
    if (end < chunks.size()) return {grpc::StatusCode::UNAVAILABLE, "cut"};
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
      {Code::kInvalidArgument, "too much",
       [&](BadDonor& d) { d.send_all(), d.send(v1::STATE_TENSOR_ADAM_V, 2, two); }},
      {Code::kInvalidArgument, "more, of no vector",
       [&](BadDonor& d) { d.send_all(), d.send(v1::STATE_TENSOR_UNSPECIFIED, 0, two); }},
      {Code::kInvalidArgument, "another vector first",
       [&](BadDonor& d) { d.send(v1::STATE_TENSOR_MOMENTUM, 0, two); }},
      {Code::kInvalidArgument, "a gap",
       [&](BadDonor& d) { d.send(v1::STATE_TENSOR_ANCHOR, 1, two); }},
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
    const auto joiner = PeerNode::start(hasty()).value();
    const Status status = joiner->fetch_state(donor.address(), ReplicaId(5), kKey, sink, {});
    EXPECT_EQ(status.ok() ? std::nullopt : std::optional(status.error().code), one.expected);
  }
}

TEST(BrokenTransfer, GoesOnWhereItWasAndNothingComesTwice) {
  BadDonor donor;
  donor.send_all();
  donor.cut_after = 1;
  std::vector<float> a(2), m(2), am(2), av(2);
  std::vector<std::int64_t> filled;
  StateSink sink{a, m, am, av};
  sink.moved = [&](Bytes now, Bytes all) {
    EXPECT_EQ(all.count(), 32);
    filled.push_back(now.count());
  };
  const auto joiner = PeerNode::start({}).value();
  ASSERT_TRUE(joiner->fetch_state(donor.address(), ReplicaId(5), kKey, sink, {}).ok());
  EXPECT_EQ(sink.received.count(), 32);
  EXPECT_EQ(filled, (std::vector<std::int64_t>{8, 16, 24, 32}));
  ASSERT_EQ(donor.requests.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(donor.requests[i].from(), static_cast<std::int64_t>(2 * i));
  }
}

TEST(BrokenTransfer, ADamagedChunkIsAskedForAgain) {
  BadDonor donor;
  donor.send_all();
  donor.cut_after = 4;
  donor.damages = 2;
  std::vector<float> a(2), m(2), am(2), av(2);
  StateSink sink{a, m, am, av};
  const auto joiner = PeerNode::start({}).value();
  EXPECT_TRUE(joiner->fetch_state(donor.address(), ReplicaId(5), kKey, sink, {}).ok());
  EXPECT_EQ(sink.received.count(), 32);
}

// Anchor and momentum are those of the round; the moments are a copy that the donor makes.
TEST_F(Transfer, OtherMomentsBeginAnew) {
  const auto stub = v1::PeerService::NewStub(
      grpc::CreateChannel(donor_node->address(), grpc::InsecureChannelCredentials()));
  const auto first_chunk = [&](std::int64_t from, std::int64_t adam_step) {
    grpc::ClientContext context;
    v1::FetchStateRequest request;
    request.set_replica(5);
    request.mutable_key()->set_job(kKey.job.n);
    request.mutable_key()->set_lineage(kKey.lineage);
    request.mutable_key()->set_round(kKey.round);
    request.set_from(from);
    request.set_adam_step(adam_step);
    v1::StateChunk chunk;
    const auto reader = stub->FetchState(&context, request);
    EXPECT_TRUE(reader->Read(&chunk));
    context.TryCancel();
    (void)reader->Finish();
    return std::pair(chunk.tensor(), chunk.first());
  };
  const auto values = static_cast<std::int64_t>(kValues);
  EXPECT_EQ(first_chunk(values + 7, 1), std::pair(v1::STATE_TENSOR_MOMENTUM, std::int64_t{7}));
  EXPECT_EQ(first_chunk(3 * values + 7, 42), std::pair(v1::STATE_TENSOR_ADAM_V, std::int64_t{7}));
  EXPECT_EQ(first_chunk(3 * values + 7, 41), std::pair(v1::STATE_TENSOR_ADAM_M, std::int64_t{0}));
}

TEST_F(Transfer, ASilentDonorIsGivenUp) {
  PeerNodeOptions options = hasty();
  options.state_patience.silent = milliseconds(300);
  joiner_node = PeerNode::start(options).value();
  std::promise<void> over;
  donor_node->set_donor([&](ReplicaId, const RoundKey&, const auto&) -> Status {
    over.get_future().wait();
    return Error{Code::kConflict, "too late"};
  });
  EXPECT_EQ(fetch(ReplicaId(5), kKey).error().code, Code::kUnavailable);
  over.set_value();
  donor_node.reset();  // its call ends before the promise does
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
  donor_node.reset();  // its call ends before the promises do
}

}  // namespace
}  // namespace shoal::outer_opt
