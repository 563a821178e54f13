// A holder of sharded outer momentum and one that fetches ranges of it, on loopback.
#include "outer_opt/transport/momentum_transfer.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "outer_opt/transport/momentum_gather.h"
#include "outer_opt/transport/stream_messages.h"
#include "outer_opt/transport/stream_servers.h"
#include "proto/peer.pb.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kValues = 600'001;  // three chunks, the last one odd
const RoundKey kKey{JobId(3), 1, 8};

class MomentumTransfer : public testing::Test {
 protected:
  MomentumTransfer() { std::iota(momentum_.begin(), momentum_.end(), 1.0f); }

  std::unique_ptr<PeerNode> holder_ = PeerNode::start({}).value();
  std::unique_ptr<PeerNode> node_ = PeerNode::start({}).value();
  std::vector<float> momentum_ = std::vector<float>(kValues);
};

TEST_F(MomentumTransfer, RangesOfMomentumFromSeveralHolders) {
  holder_->set_momentum_handler([this](ReplicaId replica, const RoundKey& key,
                                       const ValueRange& range, const auto& serve) -> Status {
    const bool mine = replica == ReplicaId(5) && key == kKey && range.first >= 100;
    if (!mine) return Error{Code::kConflict, "I do not keep that"};
    serve(std::span<const float>(momentum_).subspan(range.first, range.count));
    return {};
  });
  const std::string address = holder_->address();
  Restaged staged{MomentumShards({{50, 500'000}}),
                  {{ReplicaId(5), address, 100, 300'001}, {ReplicaId(5), address, 400'000, 10}}};
  const Gathered gathered = gather_momentum(*node_, kKey, staged, {});
  ASSERT_TRUE(gathered.status.ok()) << to_string(gathered.status.error());
  const auto got = std::as_const(staged.shards).at({50, 500'000});
  EXPECT_EQ(got[49], 0);
  EXPECT_TRUE(std::equal(got.begin() + 50, got.begin() + 300'051, momentum_.begin() + 100));
  EXPECT_EQ(got[300'051], 0);
  EXPECT_EQ(got[399'959], momentum_[400'009]);
  EXPECT_EQ(got[399'960], 0);

  staged.missing.push_back({ReplicaId(6), address, 60, 10});
  const Gathered refused = gather_momentum(*node_, kKey, staged, {});
  EXPECT_EQ(refused.status.error().code, Code::kConflict);
  EXPECT_EQ(refused.lost, ReplicaId(6));
  holder_->set_momentum_handler(nullptr);
  EXPECT_EQ(gather_momentum(*node_, kKey, staged, {}).status.error().code, Code::kNotFound);
}

// A holder that sends these chunks, whatever it was asked for.
class BadHolder {
 public:
  void send(std::int64_t first, const std::string& bytes) {
    v1::MomentumChunk chunk;
    chunk.set_first(first);
    chunk.set_values(bytes);
    chunk.set_checksum(checksum_of(std::as_bytes(std::span(bytes))));
    chunks.push_back(chunk);
  }
  // Eight values, gives up at the first break unless told otherwise.
  Status fetch(FetchPatience patience = {Duration{}, seconds(30)}) {
    PeerNodeOptions options;
    options.momentum_patience = patience;
    const auto node = PeerNode::start(options).value();
    std::vector<float> out(8);
    return node->fetch_momentum({ReplicaId(5), node_->address(), 0, 8}, kKey, out, {});
  }

  std::vector<v1::MomentumChunk> chunks;
  std::vector<std::int64_t> asked_from;
  std::size_t cut_after = 0;   // ends each stream after so many chunks; 0: whole streams
  std::size_t damages = 1000;  // this chunk of the first stream
  bool falls_silent = false;   // instead of ending

 private:
  Status serve(wire::stream::BlockingStream& stream) {
    const auto message = stream.read(seconds(10));
    v1::FetchMomentumRequest request;
    if (!message.ok() || !*message || !parse((*message)->body, request)) return no_message();
    asked_from.push_back(request.from());
    const auto first = static_cast<std::size_t>(cut_after == 0 ? 0 : request.from() / 2);
    const std::size_t end = cut_after == 0 ? chunks.size() : first + cut_after;
    for (std::size_t i = first; i < std::min(end, chunks.size()); ++i) {
      v1::MomentumChunk chunk = chunks[i];
      if (i == damages && asked_from.size() == 1) chunk.set_values("xxxxxxxy");
      if (const Status sent = stream.write({}, body_of(chunk), seconds(10)); !sent.ok())
        return sent;
    }
    if (falls_silent) return (void)stream.read(seconds(10)), Status();
    if (end < chunks.size()) return Error{Code::kUnavailable, "cut", "", ""};
    return {};
  }
  StreamServers servers_{4, 4};
  std::unique_ptr<wire::stream::Node> node_ =
      wire::stream::Node::start(
          {},
          [this](std::shared_ptr<wire::stream::Stream> stream,
                 std::string_view purpose) -> std::shared_ptr<wire::stream::StreamEvents> {
            if (purpose != kMomentumPurpose) return nullptr;
            return servers_.take(std::move(stream), [this](auto& asker) { return serve(asker); });
          })
          .value();

 public:
  ~BadHolder() { servers_.stop(); }
};

void send_all(BadHolder& holder) {
  for (const std::int64_t first : {0, 2, 4, 6}) holder.send(first, std::string(8, 'x'));
}

TEST(BadMomentum, OnlyWholeChunksInTheirPlacesAreTaken) {
  struct Case {
    std::optional<Code> expected;
    const char* what;
    std::function<void(BadHolder&)> send;
  };
  const std::string two(8, 'x');
  const std::vector<Case> cases = {
      {std::nullopt, "all of it", send_all},
      {Code::kIncompatible, "nothing", [](BadHolder&) {}},
      {Code::kIncompatible, "too little", [](BadHolder& h) { send_all(h), h.chunks.pop_back(); }},
      {Code::kIncompatible, "too much", [&](BadHolder& h) { send_all(h), h.send(8, two); }},
      {Code::kInvalidArgument, "a gap", [&](BadHolder& h) { h.send(1, two); }},
      {Code::kIncompatible, "half a value", [](BadHolder& h) { h.send(0, "123456"); }},
      {Code::kIncompatible, "an empty chunk", [](BadHolder& h) { h.send(0, ""); }},
      {Code::kDataLoss, "a damaged chunk",
       [](BadHolder& h) { send_all(h), h.chunks[2].set_values("xxxxxxxy"); }}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    BadHolder holder;
    one.send(holder);
    const Status status = holder.fetch();
    EXPECT_EQ(status.ok() ? std::nullopt : std::optional(status.error().code), one.expected);
  }
}

TEST(BrokenMomentum, GoesOnWhereItWas) {
  BadHolder holder;
  send_all(holder);
  holder.cut_after = 1;
  ASSERT_TRUE(holder.fetch({seconds(30), seconds(30)}).ok());
  EXPECT_EQ(holder.asked_from, (std::vector<std::int64_t>{0, 2, 4, 6}));
}

TEST(BrokenMomentum, ADamagedChunkIsAskedForAgain) {
  BadHolder holder;
  send_all(holder);
  holder.cut_after = 4;
  holder.damages = 2;
  EXPECT_TRUE(holder.fetch({seconds(30), seconds(30)}).ok());
}

TEST(BrokenMomentum, AHolderThatSendsNothingMoreIsGivenUp) {
  BadHolder holder;
  holder.falls_silent = true;
  const Status status = holder.fetch({Duration{}, milliseconds(200)});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kUnavailable) << to_string(status.error());
}

}  // namespace
}  // namespace shoal::outer_opt
