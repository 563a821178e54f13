// Streams between replicas in one process on loopback: frames both ways, early and refused streams,
// prompt ends, reconnects, bad frames, the emulated line.
#include <chrono>
#include <limits>

#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "outer_opt/transport/peer_node.h"
#include "swarm/pipeline/pipeline_service.h"
#include "threads/mutex.h"
#include "wire/peer_channel.h"

namespace shoal::swarm {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr ReplicaId kFirst{1}, kSecond{2};

StageFacts facts(StageIndex stage, std::int64_t context) {
  return {stage,
          2,
          {.sequences = 2, .context = context, .hidden = 96, .vocab = 50},
          ActivationCodec::kBf16};
}

// A process with one replica.
struct Station {
  explicit Station(const LinkOptions& link = {}) {
    outer_opt::PeerNodeOptions options;
    if (!(link == LinkOptions{})) options.line = std::make_shared<wire::EmulatedLine>(link);
    service = PipelineService::create(options.line);
    options.services = {service->grpc_service()};
    node = outer_opt::PeerNode::start(options).value();
  }
  ~Station() { leave(); }

  void enter(ReplicaId self, StageIndex stage, std::int64_t context = 8, std::int64_t epoch = 0) {
    id = self;
    NeighboursOptions options{JobId(1), epoch, self, facts(stage, context)};
    neighbours = Neighbours::create(options, PipelineHost::of(*service).context(), [this] {
      const MutexLock lock(mutex);
      woken = true;
      changed.notify_all();
    });
    PipelineHost::of(*service).enter(self, neighbours);
  }
  void leave() {
    if (!neighbours) return;
    PipelineHost::of(*service).leave(id);
    neighbours->close();
    neighbours.reset();
  }
  void dial(const Station& other, ReplicaId replica) {
    neighbours->dial({{replica, 1, other.node->address(), 0}});
  }

  // The next thing that arrives, which must be a News.
  template <typename News>
  News expect() {
    const auto deadline = Clock::now() + kPatience;
    while (arrived.empty() && Clock::now() < deadline) {
      for (Arrival& arrival : neighbours->take()) arrived.push_back(std::move(arrival));
      if (!arrived.empty()) break;
      const MutexLock lock(mutex);  // never held while a stream is called
      changed.wait_until(mutex, deadline, [this]() SHOAL_REQUIRES(mutex) { return woken; });
      woken = false;
    }
    if (arrived.empty()) return ADD_FAILURE() << "nothing arrived", News{};
    Arrival arrival = std::move(arrived.front());
    arrived.pop_front();
    News* news = std::get_if<News>(&arrival.news);
    if (news == nullptr) return ADD_FAILURE() << "got news " << arrival.news.index(), News{};
    return std::move(*news);
  }

  std::unique_ptr<PipelineService> service;
  std::unique_ptr<outer_opt::PeerNode> node;
  std::shared_ptr<Neighbours> neighbours;
  ReplicaId id;
  Mutex mutex;
  CondVar changed;
  bool woken SHOAL_GUARDED_BY(mutex) = false;
  std::deque<Arrival> arrived;
};

struct Frame {
  FrameHeader header;
  std::vector<std::byte> body;

  Slices slices() const {
    return body.empty() ? Slices{} : Slices{grpc::Slice(body.data(), body.size())};
  }
  void finish() {
    const std::span<const std::byte> pieces[] = {body};
    header.body_size = body.size();
    header.checksum = body_checksum(pieces);
  }
};

std::vector<float> values(std::int64_t n) {
  std::vector<float> result(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(i % 251);
  return result;
}

Frame frame(const StageFacts& facts, FrameKind kind, std::int32_t index = 0) {
  Frame frame;
  const Microbatch microbatch{1, 0, kFirst, index, PassKind::kTrain};
  frame.header = kind == FrameKind::kBackward
                     ? header_of(BackwardHeader{microbatch, 1, milliseconds(3), 2.5, Tokens(16)})
                     : header_of(ForwardHeader{microbatch, 1}, kind);
  const auto tensor = values(facts.shape.rows() * facts.shape.hidden);
  const bool forward = kind == FrameKind::kForward;
  frame.header.tokens =
      forward ? static_cast<std::uint32_t>(facts.shape.sequences * (facts.shape.context + 1)) : 0;
  frame.header.rows = static_cast<std::uint32_t>(facts.shape.rows());
  frame.header.columns = static_cast<std::uint32_t>(facts.shape.hidden);
  frame.header.codec = facts.codec;
  const std::size_t front = frame.header.tokens * sizeof(std::uint32_t);
  frame.body.assign(front + encoded_size(facts.codec, tensor.size()), std::byte{});
  EXPECT_TRUE(encode(facts.codec, tensor, std::span(frame.body).subspan(front)));
  frame.finish();
  return frame;
}

void send(Station& from, ReplicaId to, const Frame& frame) {
  from.neighbours->send(to, frame.header, frame.slices());
}

// Two stations, connected.
struct Pair {
  explicit Pair(std::int64_t context = 8, const LinkOptions& link = {})
      : first(link), second(link) {
    first.enter(kFirst, 0, context);
    second.enter(kSecond, 1, context);
    first.dial(second, kSecond);
    first.expect<Connected>();
    second.expect<Connected>();
  }
  Station first, second;
};

TEST(Neighbours, FramesCrossBothWays) {
  const std::int64_t context = 20'000;  // 7.7 MB of bf16: several messages
  Pair pair(context);
  for (int i = 0; i < 5; ++i) {
    send(pair.first, kSecond, frame(facts(1, context), FrameKind::kForward, i));
    send(pair.second, kFirst, frame(facts(0, context), FrameKind::kBackward, i));
  }
  for (int i = 0; i < 5; ++i) {
    const auto forward = pair.second.expect<ArrivedForward>();
    EXPECT_EQ(forward.header.microbatch.index, i);
    EXPECT_EQ(forward.tokens.size(), 2u * (context + 1));
    EXPECT_EQ(forward.input, values(2 * context * 96));
    const auto backward = pair.first.expect<ArrivedBackward>();
    EXPECT_EQ(backward.header.microbatch.index, i);
    EXPECT_EQ(backward.header.loss_sum, 2.5);
    EXPECT_EQ(backward.tensor, values(2 * context * 96));
  }
}

TEST(Neighbours, SmallFramesCross) {
  Pair pair;
  const ForwardHeader header{{3, 1, kFirst, 7, PassKind::kLoss}, 2};
  pair.first.neighbours->send(kSecond, header_of(header, FrameKind::kCancel), {});
  EXPECT_EQ(pair.second.expect<ArrivedCancel>().header, header);
  FrameHeader refusal = header_of(header, FrameKind::kRefusal);
  refusal.reason = RefusalReason::kNotInView;
  pair.second.neighbours->send(kFirst, refusal, {});
  EXPECT_EQ(pair.first.expect<ArrivedRefusal>().reason, RefusalReason::kNotInView);
  const ProgressGossip gossip{1, 2, {{kFirst, 1, true}}};
  Frame said{header_of(gossip), body_of(gossip)};
  said.finish();
  send(pair.second, kFirst, said);
  EXPECT_EQ(pair.first.expect<ProgressGossip>(), gossip);
}

TEST(Neighbours, AStreamWaitsForItsReplica) {
  Station first, second;
  first.enter(kFirst, 0);
  first.dial(second, kSecond);
  first.neighbours->dial({{kSecond, 1, second.node->address(), 0}});  // said twice: nothing changes
  second.enter(kSecond, 1);
  first.expect<Connected>();
  second.expect<Connected>();
}

TEST(Neighbours, AnotherEpochIsRefused) {
  Station first, second;
  second.enter(kSecond, 1, 8, 7);
  first.enter(kFirst, 0);
  first.dial(second, kSecond);
  second.leave();
  second.enter(kSecond, 1);
  first.expect<Connected>();  // the first news there is
  second.expect<Connected>();
}

TEST(Neighbours, BothEndsHearOfAnEndAtOnce) {
  Pair pair;
  const auto before = Clock::now();
  pair.first.leave();
  pair.second.expect<Lost>();
  pair.first.enter(kFirst, 0);
  pair.first.dial(pair.second, kSecond);
  pair.first.expect<Connected>();
  pair.second.expect<Connected>();
  pair.second.leave();
  pair.first.expect<Lost>();
  pair.second.enter(kSecond, 1);
  pair.first.expect<Connected>();  // dialled again by itself
  pair.second.expect<Connected>();
  pair.first.neighbours->dial({});
  pair.first.expect<Lost>();
  pair.second.expect<Lost>();
  EXPECT_LT(Clock::now() - before, 5s);
}

TEST(Neighbours, AnAddressWhereNobodyIsIsDialledAgain) {
  auto second = std::make_unique<Station>();
  const std::string address = second->node->address();
  second.reset();
  Station first;
  first.enter(kFirst, 0);
  first.neighbours->dial({{kSecond, 1, address, 0}});
  Station third;
  third.enter(kSecond, 1);
  first.neighbours->dial({{kSecond, 1, third.node->address(), 0}});
  first.expect<Connected>();
}

TEST(Neighbours, BadForwardsAreRefusedAndCounted) {
  Pair pair;
  const auto bad = [&](auto change) {
    Frame f = frame(facts(1, 8), FrameKind::kForward);
    change(f);
    send(pair.first, kSecond, f);
    EXPECT_EQ(pair.first.expect<ArrivedRefusal>().reason, RefusalReason::kBadTensor);
  };
  bad([](Frame& f) { f.header.checksum ^= 1; });
  bad([](Frame& f) { std::swap(f.header.rows, f.header.columns); });
  bad([](Frame& f) { f.body[3] = std::byte{1}, f.finish(); });  // a token above the vocabulary
  bad([](Frame& f) { f.body.back() = f.body[f.body.size() - 2] = std::byte{0xff}, f.finish(); });
  bad([](Frame& f) {
    f.header.codec = ActivationCodec::kFp32;
    f.body.resize(f.header.tokens * 4 + f.header.values() * 4);
    f.finish();
  });
  bad([](Frame& f) { f.body.pop_back(), f.finish(), f.header.entropy_coded = true; });
  bad([](Frame& f) {
    f.header.rows = f.header.columns = f.header.tokens = 0;
    f.body.clear();
    f.header.body_size = f.header.checksum = 0;
  });
  EXPECT_EQ(pair.second.neighbours->bad_frames(), 7);
  send(pair.first, kSecond, frame(facts(1, 8), FrameKind::kForward, 5));
  EXPECT_EQ(pair.second.expect<ArrivedForward>().header.microbatch.index, 5);
}

TEST(Neighbours, EntropyCodedTensorsArriveAsTheyWere) {
  Pair pair;
  outer_opt::EntropyCoder coder;
  const Frame plain = frame(facts(1, 8), FrameKind::kForward, 3);
  Frame coded = plain;
  entropy_encode(coder, coded.header, coded.body);
  ASSERT_TRUE(coded.header.entropy_coded);
  coded.body.resize(coded.header.body_size);
  send(pair.first, kSecond, plain);
  send(pair.first, kSecond, coded);
  const ArrivedForward one = pair.second.expect<ArrivedForward>();
  const ArrivedForward other = pair.second.expect<ArrivedForward>();
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.input, other.input);
}

TEST(Neighbours, ABadAnswerEndsTheStream) {
  Pair pair;
  Frame f = frame(facts(0, 8), FrameKind::kBackward);
  f.header.checksum ^= 1;
  send(pair.second, kFirst, f);
  pair.first.expect<Lost>();
  pair.second.expect<Lost>();
  EXPECT_EQ(pair.first.neighbours->bad_frames(), 1);
  pair.first.expect<Connected>();
  send(pair.second, kFirst, frame(facts(0, 8), FrameKind::kForward));  // against the pipeline
  pair.second.expect<Connected>();
  EXPECT_EQ(pair.second.expect<ArrivedRefusal>().reason, RefusalReason::kBadTensor);
}

// A client that knows the metadata and nothing else.
class Stranger : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stranger(const std::string& address, std::size_t bytes)
      : Stranger(address, grpc::Slice(std::string(bytes, 'x'))) {}
  Stranger(const std::string& address, const grpc::Slice& first)
      : stub_(wire::dial_peer(address, seconds(4)).channel) {
    const std::string protocol = std::to_string(kProtocolVersion);
    for (const auto& [name, value] : {std::pair{"shoal-protocol", protocol.c_str()},
                                      {"shoal-job", "1"},
                                      {"shoal-epoch", "0"},
                                      {"shoal-from", "9"},
                                      {"shoal-stage", "0"},
                                      {"shoal-to", "2"}}) {
      call_.AddMetadata(name, value);
    }
    message_ = grpc::ByteBuffer(&first, 1);
    stub_.PrepareBidiStreamingCall(&call_, "/shoal.v1.PipelineService/Exchange", {}, this);
    StartWrite(&message_);
    StartRead(&answer_);
    StartCall();
  }
  void OnDone(const grpc::Status&) override {
    const MutexLock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  bool wait() {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kPatience, [this]() SHOAL_REQUIRES(mutex_) { return done_; });
  }

 private:
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext call_;
  grpc::ByteBuffer message_, answer_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ SHOAL_GUARDED_BY(mutex_) = false;
};

TEST(Neighbours, GarbageEndsItsOwnStreamOnly) {
  Pair pair;
  for (const std::size_t bytes : {0u, 1u, 95u, 96u, 100'000u}) {
    Stranger stranger(pair.second.node->address(), bytes);
    pair.second.expect<Connected>();
    ASSERT_TRUE(stranger.wait()) << bytes;
    pair.second.expect<Lost>();
  }
  EXPECT_EQ(pair.second.neighbours->bad_frames(), 5);
  send(pair.first, kSecond, frame(facts(1, 8), FrameKind::kForward));
  pair.second.expect<ArrivedForward>();
}

TEST(Neighbours, AFrameThatIsFarTooLargeIsNotRead) {
  Pair pair;
  const StageFacts taken = facts(1, 8);
  Frame large = frame(taken, FrameKind::kForward);
  large.header.rows = 1 << 14;
  large.header.columns = 1 << 14;
  large.header.body_size = large.header.tokens * sizeof(std::uint32_t) +
                           encoded_size(taken.codec, large.header.values());
  ASSERT_GT(large.header.body_size, body_max_of(taken));
  ASSERT_TRUE(decode_header(encode_header(large.header)).ok()) << "as a header it is sound";
  const auto header = encode_header(large.header);
  Stranger stranger(pair.second.node->address(), grpc::Slice(header.data(), header.size()));
  pair.second.expect<Connected>();
  ASSERT_TRUE(stranger.wait()) << "it is not waited for the rest";
  pair.second.expect<Lost>();
  EXPECT_EQ(pair.second.neighbours->bad_frames(), 1);
}

TEST(Neighbours, AnUnreadInboxStopsTheSender) {
  Pair pair;
  constexpr int kSent = 1000;
  for (int i = 0; i < kSent; ++i) {
    send(pair.first, kSecond, frame(facts(1, 8), FrameKind::kForward, i));
  }
  std::size_t most = 0;
  for (int i = 0; i < kSent;) {
    const auto arrivals = pair.second.neighbours->take();
    most = std::max(most, arrivals.size());
    for (const Arrival& arrival : arrivals) {
      EXPECT_EQ(std::get<ArrivedForward>(arrival.news).header.microbatch.index, i++);
    }
  }
  EXPECT_LE(most, 64u);
}

TEST(Neighbours, TheEmulatedLineDelaysAndPingsMeasureIt) {
  Pair pair(8, {.up_bytes_per_s = 1e6, .rtt = milliseconds(60)});
  const auto before = Clock::now();
  const Frame f = frame(facts(1, 8), FrameKind::kForward);  // 3 KB: 3 ms
  for (int i = 0; i < 10; ++i) send(pair.first, kSecond, f);
  for (int i = 0; i < 10; ++i) pair.second.expect<ArrivedForward>();
  EXPECT_GE(Clock::now() - before, 60ms);  // 30 ms and ten frames
  const auto measured = [&] { return pair.first.neighbours->links().at(0).round_trip; };
  const auto deadline = Clock::now() + kPatience;
  while (measured() == Duration{} && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_GE(measured(), milliseconds(60));
  const LinkStats link = pair.first.neighbours->links().at(0);
  EXPECT_EQ(link.to, kSecond);
  EXPECT_EQ(link.microbatches, 10);
  EXPECT_GE(link.sent.count(), 10 * static_cast<std::int64_t>(f.body.size() + kFrameHeaderSize));
}

}  // namespace
}  // namespace shoal::swarm
