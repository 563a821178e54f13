// Streams between replicas in one process on loopback: frames both ways, early and refused streams,
// prompt ends, reconnects, bad frames, certificates, the emulated line.
#include <chrono>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "outer_opt/transport/peer_identity.h"
#include "outer_opt/transport/peer_node.h"
#include "swarm/pipeline/pipeline_service.h"
#include "threads/mutex.h"
#include "wire/emulated_line.h"
#include "wire/stream/blocking_stream.h"
#include "wire/stream/stream_test_util.h"

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
    begin(options);
  }
  // Reached over TLS only, as another host is.
  Station(const wire::stream::TestCluster& cluster, const identity::ReplicaName& who) {
    outer_opt::PeerNodeOptions options;
    options.local_sockets = false;
    options.certificates = true;
    begin(options);
    show(cluster, who);
  }
  void begin(const outer_opt::PeerNodeOptions& options) {
    node = outer_opt::PeerNode::start(options).value();
    service = PipelineService::create(*node);
  }
  void show(const wire::stream::TestCluster& cluster, const identity::ReplicaName& who) {
    const identity::Credentials own = cluster.credentials_of(who);
    node->set_identity(std::make_shared<const outer_opt::PeerIdentity>(
        outer_opt::PeerIdentity{cluster.name(), who, cluster.contexts_of(own), own}));
  }
  ~Station() { leave(); }

  void enter(ReplicaId self, StageIndex stage, std::int64_t context = 8, std::int64_t epoch = 0,
             StageData data = StageData::kTokens) {
    id = self;
    NeighborsOptions options{JobId(1), epoch, self, facts(stage, context)};
    options.facts.shape.data = data;
    neighbors = Neighbors::create(options, PipelineHost::of(*service).context(), [this] {
      const MutexLock lock(mutex);
      woken = true;
      changed.notify_all();
    });
    PipelineHost::of(*service).enter(self, neighbors);
  }
  void leave() {
    if (!neighbors) return;
    PipelineHost::of(*service).leave(id);
    neighbors->close();
    neighbors.reset();
  }
  void dial(const Station& other, ReplicaId replica) {
    neighbors->dial({{replica, 1, other.node->address(), 0}});
  }

  // The next thing that arrives, which must be a News.
  template <typename News>
  News expect() {
    const auto deadline = Clock::now() + kPatience;
    while (arrived.empty() && Clock::now() < deadline) {
      for (Arrival& arrival : neighbors->take()) arrived.push_back(std::move(arrival));
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

  std::unique_ptr<outer_opt::PeerNode> node;
  std::unique_ptr<PipelineService> service;
  std::shared_ptr<Neighbors> neighbors;
  ReplicaId id;
  Mutex mutex;
  CondVar changed;
  bool woken SHOAL_GUARDED_BY(mutex) = false;
  std::deque<Arrival> arrived;
};

struct Written {
  FrameHeader header;
  std::vector<std::byte> body;

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

Written frame(const StageFacts& facts, FrameKind kind, std::int32_t index = 0) {
  Written frame;
  const Microbatch microbatch{1, 0, kFirst, index, PassKind::kTrain};
  frame.header = kind == FrameKind::kBackward
                     ? header_of(BackwardHeader{microbatch, 1, milliseconds(3), 2.5, Tokens(16)})
                     : header_of(ForwardHeader{microbatch, 1}, kind);
  const auto tensor = values(facts.shape.rows() * facts.shape.hidden);
  const bool forward = kind == FrameKind::kForward;
  frame.header.tokens =
      forward ? static_cast<std::uint32_t>(facts.shape.data_words(PassKind::kTrain)) : 0;
  frame.header.rows = static_cast<std::uint32_t>(facts.shape.rows());
  frame.header.columns = static_cast<std::uint32_t>(facts.shape.hidden);
  frame.header.codec = facts.codec;
  const std::size_t front = frame.header.tokens * sizeof(std::uint32_t);
  frame.body.assign(front + encoded_size(facts.codec, tensor.size()), std::byte{});
  EXPECT_TRUE(encode(facts.codec, tensor, std::span(frame.body).subspan(front)));
  frame.finish();
  return frame;
}

void send(Station& from, ReplicaId to, const Written& frame) {
  from.neighbors->send(to, frame.header,
                       std::make_shared<const std::vector<std::byte>>(frame.body));
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

TEST(Neighbors, FramesCrossBothWays) {
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

TEST(Neighbors, SmallFramesCross) {
  Pair pair;
  const ForwardHeader header{{3, 1, kFirst, 7, PassKind::kLoss}, 2};
  pair.first.neighbors->send(kSecond, header_of(header, FrameKind::kCancel), nullptr);
  EXPECT_EQ(pair.second.expect<ArrivedCancel>().header, header);
  FrameHeader refusal = header_of(header, FrameKind::kRefusal);
  refusal.reason = RefusalReason::kNotInView;
  pair.second.neighbors->send(kFirst, refusal, nullptr);
  EXPECT_EQ(pair.first.expect<ArrivedRefusal>().reason, RefusalReason::kNotInView);
  const ProgressGossip gossip{1, 2, {{kFirst, 1, true}}};
  Written said{header_of(gossip), body_of(gossip)};
  said.finish();
  send(pair.second, kFirst, said);
  EXPECT_EQ(pair.first.expect<ProgressGossip>(), gossip);
}

TEST(Neighbors, AStreamWaitsForItsReplica) {
  Station first, second;
  first.enter(kFirst, 0);
  first.dial(second, kSecond);
  first.neighbors->dial({{kSecond, 1, second.node->address(), 0}});  // said twice: nothing changes
  second.enter(kSecond, 1);
  first.expect<Connected>();
  second.expect<Connected>();
}

TEST(Neighbors, AnotherEpochIsRefused) {
  Station first, second;
  second.enter(kSecond, 1, 8, 7);
  first.enter(kFirst, 0);
  first.dial(second, kSecond);
  second.leave();
  second.enter(kSecond, 1);
  first.expect<Connected>();  // the first news there is
  second.expect<Connected>();
}

TEST(Neighbors, BothEndsHearOfAnEndAtOnce) {
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
  pair.first.expect<Connected>();  // dialed again by itself
  pair.second.expect<Connected>();
  pair.first.neighbors->dial({});
  pair.first.expect<Lost>();
  pair.second.expect<Lost>();
  EXPECT_LT(Clock::now() - before, 5s);
}

TEST(Neighbors, AnAddressWhereNobodyIsIsDialedAgain) {
  auto second = std::make_unique<Station>();
  const std::string address = second->node->address();
  second.reset();
  Station first;
  first.enter(kFirst, 0);
  first.neighbors->dial({{kSecond, 1, address, 0}});
  Station third;
  third.enter(kSecond, 1);
  first.neighbors->dial({{kSecond, 1, third.node->address(), 0}});
  first.expect<Connected>();
}

TEST(Neighbors, OnlyAnEvaluationHasSequencesThatAreNone) {
  Pair pair;
  const auto sent = [&](PassKind kind) {
    Written f = frame(facts(1, 8), FrameKind::kForward);
    f.header.microbatch.kind = kind;
    std::fill_n(f.body.begin(), f.header.tokens * 4, std::byte{0xff});
    f.finish();
    send(pair.first, kSecond, f);
  };
  sent(PassKind::kLoss);
  EXPECT_THAT(pair.second.expect<ArrivedForward>().tokens, testing::Each(kNoToken));
  sent(PassKind::kTrain);
  EXPECT_EQ(pair.first.expect<ArrivedRefusal>().reason, RefusalReason::kBadTensor);
}

TEST(Neighbors, BadForwardsAreRefusedAndCounted) {
  Pair pair;
  const auto bad = [&](auto change) {
    Written f = frame(facts(1, 8), FrameKind::kForward);
    change(f);
    send(pair.first, kSecond, f);
    EXPECT_EQ(pair.first.expect<ArrivedRefusal>().reason, RefusalReason::kBadTensor);
  };
  bad([](Written& f) { f.header.checksum ^= 1; });
  bad([](Written& f) { std::swap(f.header.rows, f.header.columns); });
  bad([](Written& f) { f.body[3] = std::byte{1}, f.finish(); });  // a token above the vocabulary
  bad([](Written& f) { f.body.back() = f.body[f.body.size() - 2] = std::byte{0xff}, f.finish(); });
  bad([](Written& f) {
    f.header.codec = ActivationCodec::kFp32;
    f.body.resize(f.header.tokens * 4 + f.header.values() * 4);
    f.finish();
  });
  bad([](Written& f) { f.body.pop_back(), f.finish(), f.header.entropy_coded = true; });
  bad([](Written& f) {
    f.header.rows = f.header.columns = f.header.tokens = 0;
    f.body.clear();
    f.header.body_size = f.header.checksum = 0;
  });
  EXPECT_EQ(pair.second.neighbors->bad_frames(), 7);
  send(pair.first, kSecond, frame(facts(1, 8), FrameKind::kForward, 5));
  EXPECT_EQ(pair.second.expect<ArrivedForward>().header.microbatch.index, 5);
}

TEST(Neighbors, ANumberTravelsInPlaceOfTokens) {
  Station first, second;
  first.enter(kFirst, 0, 8, 0, StageData::kNumber);
  second.enter(kSecond, 1, 8, 0, StageData::kNumber);
  first.dial(second, kSecond);
  first.expect<Connected>();
  second.expect<Connected>();
  StageFacts numbered = facts(1, 8);
  numbered.shape.data = StageData::kNumber;
  Written sound = frame(numbered, FrameKind::kForward);
  sound.body[3] = std::byte{0xff};  // no token is as large
  sound.finish();
  send(first, kSecond, sound);
  EXPECT_EQ(second.expect<ArrivedForward>().tokens, (std::vector<std::uint32_t>{0xff000000, 0}));
  send(first, kSecond, frame(facts(1, 8), FrameKind::kForward));
  EXPECT_EQ(first.expect<ArrivedRefusal>().reason, RefusalReason::kBadTensor);
}

TEST(Neighbors, EntropyCodedTensorsArriveAsTheyWere) {
  Pair pair;
  outer_opt::EntropyCoder coder;
  const Written plain = frame(facts(1, 8), FrameKind::kForward, 3);
  Written coded = plain;
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

TEST(Neighbors, ABadAnswerEndsTheStream) {
  Pair pair;
  Written f = frame(facts(0, 8), FrameKind::kBackward);
  f.header.checksum ^= 1;
  send(pair.second, kFirst, f);
  pair.first.expect<Lost>();
  pair.second.expect<Lost>();
  EXPECT_EQ(pair.first.neighbors->bad_frames(), 1);
  pair.first.expect<Connected>();
  send(pair.second, kFirst, frame(facts(0, 8), FrameKind::kForward));  // against the pipeline
  pair.second.expect<Connected>();
  EXPECT_EQ(pair.second.expect<ArrivedRefusal>().reason, RefusalReason::kBadTensor);
}

// A stranger that knows the purpose and nothing else; on this host, so it needs no certificate.
class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    node_ = wire::stream::Node::start({.bind = ""}, nullptr).value();
    const auto pair = wire::stream::dial_and_wait(*node_, {.address = address}).value();
    stream_ = wire::stream::BlockingStream::open(
        *pair, to_purpose({JobId(1), 0, ReplicaId(9), kSecond}), kLimit);
    EXPECT_TRUE(stream_->read(kLimit).ok()) << "the answer";
  }
  void write(std::span<const std::byte> head, std::size_t body) {
    EXPECT_TRUE(stream_
                    ->write({head.begin(), head.end()},
                            std::make_shared<std::vector<std::byte>>(body), kLimit)
                    .ok());
  }
  void end() { stream_->end(); }
  bool is_cut_off() {
    const auto next = stream_->read(kLimit);
    return !next.ok() && next.error().code != Code::kDeadlineExceeded;
  }

 private:
  static constexpr Duration kLimit = seconds(10);
  std::unique_ptr<wire::stream::Node> node_;
  std::shared_ptr<wire::stream::BlockingStream> stream_;
};

std::vector<std::byte> head_of(const FrameHeader& header) {
  const auto bytes = encode_header(header);
  return {bytes.begin(), bytes.end()};
}

TEST(Neighbors, GarbageEndsItsOwnStreamOnly) {
  Pair pair;
  const Written sound = frame(facts(1, 8), FrameKind::kForward);
  const std::vector<std::byte> head = head_of(sound.header);
  const std::vector<std::byte> zeros(kFrameHeaderSize);
  struct Garbage {
    std::vector<std::byte> head;
    std::size_t body = 0;
  };
  const Garbage all[] = {{{}, 0},
                         {{}, kMessageBytes},  // continues with nothing
                         {{std::byte{1}}, 1},
                         {std::vector<std::byte>(95), 0},
                         {zeros, 100'000},
                         {head, sound.body.size() - 1},
                         {head, sound.body.size() + 1}};
  for (const Garbage& each : all) {
    Stranger stranger(pair.second.node->address());
    pair.second.expect<Connected>();
    stranger.write(each.head, each.body);
    EXPECT_TRUE(stranger.is_cut_off()) << each.head.size() << " " << each.body;
    pair.second.expect<Lost>();
  }
  EXPECT_EQ(pair.second.neighbors->bad_frames(), 7);
  Stranger quiet(pair.second.node->address());
  pair.second.expect<Connected>();
  quiet.end();
  pair.second.expect<Lost>();
  EXPECT_EQ(pair.second.neighbors->bad_frames(), 7);
  send(pair.first, kSecond, sound);
  pair.second.expect<ArrivedForward>();
}

// What comes in the middle of a large frame must be the rest of it.
TEST(Neighbors, ALargeFrameGoesOnAsItShould) {
  constexpr std::int64_t kContext = 20'000;
  Pair pair(kContext);
  const Written large = frame(facts(1, kContext), FrameKind::kForward);
  const std::size_t first = large.body.size() % kMessageBytes;
  ASSERT_GT(large.body.size(), kMessageBytes);
  for (const bool new_frame : {false, true}) {
    Stranger stranger(pair.second.node->address());
    pair.second.expect<Connected>();
    stranger.write(head_of(large.header), first);
    new_frame ? stranger.write(head_of(large.header), first) : stranger.write({}, 1000);
    EXPECT_TRUE(stranger.is_cut_off());
    pair.second.expect<Lost>();
  }
  EXPECT_EQ(pair.second.neighbors->bad_frames(), 2);
}

TEST(Neighbors, AFrameThatIsFarTooLargeIsNotRead) {
  Pair pair;
  const StageFacts taken = facts(1, 8);
  Written large = frame(taken, FrameKind::kForward);
  large.header.rows = 1 << 14;
  large.header.columns = 1 << 14;
  large.header.body_size = large.header.tokens * sizeof(std::uint32_t) +
                           encoded_size(taken.codec, large.header.values());
  ASSERT_GT(large.header.body_size, body_max_of(taken));
  ASSERT_TRUE(decode_header(encode_header(large.header)).ok()) << "as a header it is sound";
  Stranger stranger(pair.second.node->address());
  pair.second.expect<Connected>();
  stranger.write(head_of(large.header), (large.header.body_size - 1) % kMessageBytes + 1);
  ASSERT_TRUE(stranger.is_cut_off()) << "it is not waited for the rest";
  pair.second.expect<Lost>();
  EXPECT_EQ(pair.second.neighbors->bad_frames(), 1);
}

TEST(Neighbors, AnUnreadInboxStopsTheSender) {
  constexpr std::int64_t kContext = 512;
  Pair pair(kContext);
  constexpr int kSent = 400;
  const Written one = frame(facts(1, kContext), FrameKind::kForward);  // 200 KB
  for (int i = 0; i < kSent; ++i) {
    Written each = one;
    each.header.microbatch.index = i;
    send(pair.first, kSecond, each);
  }
  std::size_t most = 0;
  for (int i = 0; i < kSent;) {
    const auto arrivals = pair.second.neighbors->take();
    most = std::max(most, arrivals.size());
    for (const Arrival& arrival : arrivals) {
      EXPECT_EQ(std::get<ArrivedForward>(arrival.news).header.microbatch.index, i++);
    }
  }
  EXPECT_LE(most * one.body.size(), wire::stream::Quotas().window);
}

// At most a few frames that take several messages wait.
TEST(Neighbors, LargeFramesHoldTheWindowToo) {
  constexpr std::int64_t kContext = 20'000;
  Pair pair(kContext);
  constexpr int kSent = 20;
  const Written large = frame(facts(1, kContext), FrameKind::kForward);
  ASSERT_GT(large.body.size(), kMessageBytes);
  for (int i = 0; i < kSent; ++i) send(pair.first, kSecond, large);
  std::this_thread::sleep_for(300ms);  // all that can come
  std::size_t most = 0;
  for (std::size_t came = 0; came < kSent;) {
    const std::size_t now = pair.second.neighbors->take().size();
    most = std::max(most, now);
    came += now;
  }
  EXPECT_LE(most, wire::stream::Quotas().window / kMessageBytes);
}

// ---- who is who

identity::ReplicaName named(const wire::stream::TestCluster& cluster, ReplicaId replica) {
  return cluster.replica(replica.n);
}

TEST(Neighbors, ReplicasOfOtherHostsShowWhoTheyAre) {
  const wire::stream::TestCluster cluster;
  Station first(cluster, named(cluster, kFirst)), second(cluster, named(cluster, kSecond));
  first.enter(kFirst, 0);
  second.enter(kSecond, 1);
  first.dial(second, kSecond);
  first.expect<Connected>();
  second.expect<Connected>();
  send(first, kSecond, frame(facts(1, 8), FrameKind::kForward));
  second.expect<ArrivedForward>();
}

// A peer that shows the certificate of another replica, job or epoch gets no stream, dialed or
// dialing.
TEST(Neighbors, TheCertificateOfAnotherReplicaIsRefused) {
  const wire::stream::TestCluster cluster;
  const identity::ReplicaName right = named(cluster, kFirst);
  identity::ReplicaName other_replica = right, other_job = right, other_epoch = right;
  other_replica.replica = ReplicaId(7);
  other_job.job = JobId(2);
  other_epoch.epoch = 1;
  for (const auto& wrong : {other_replica, other_job, other_epoch}) {
    for (const bool dials : {true, false}) {
      Station liar(cluster, wrong), honest(cluster, named(cluster, kSecond));
      liar.enter(kFirst, 0);
      honest.enter(kSecond, 1);
      Station &from = dials ? liar : honest, &to = dials ? honest : liar;
      from.dial(to, dials ? kSecond : kFirst);
      EXPECT_TRUE(wire::stream::eventually([&] { return !from.neighbors->troubles().empty(); }))
          << identity::to_string({cluster.name(), wrong});
      EXPECT_TRUE(honest.neighbors->take().empty());
      EXPECT_TRUE(liar.neighbors->take().empty());
      liar.show(cluster, right);  // it is what lets it in
      from.expect<Connected>();
    }
  }
}

TEST(Neighbors, TheEmulatedLineDelaysAndPingsMeasureIt) {
  Pair pair(8, {.up_bytes_per_s = 1e6, .rtt = milliseconds(60)});
  const auto before = Clock::now();
  const Written f = frame(facts(1, 8), FrameKind::kForward);  // 3 KB: 3 ms
  for (int i = 0; i < 10; ++i) send(pair.first, kSecond, f);
  for (int i = 0; i < 10; ++i) pair.second.expect<ArrivedForward>();
  EXPECT_GE(Clock::now() - before, 60ms);  // 30 ms and ten frames
  const auto measured = [&] { return pair.first.neighbors->links().at(0).round_trip; };
  const auto deadline = Clock::now() + kPatience;
  while (measured() == Duration{} && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_GE(measured(), milliseconds(60));
  const LinkStats link = pair.first.neighbors->links().at(0);
  EXPECT_EQ(link.to, kSecond);
  EXPECT_EQ(link.microbatches, 10);
  EXPECT_GE(link.sent.count(), 10 * static_cast<std::int64_t>(f.body.size() + kFrameHeaderSize));
}

}  // namespace
}  // namespace shoal::swarm
