// See frame_fuzz.h. A conversation is: topology, codec, then messages of two bytes for the
// length, one byte for the sender and whether its checksum is to be made right, and the frame.
// Right checksums let the fuzzer past the door; without them nothing would ever be admitted.
#include "tests/fuzz/frame_fuzz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "outer_opt/core/codec.h"
#include "outer_opt/core/make_session.h"
#include "outer_opt/core/sparse2.h"
#include "swarm/pipeline/frame.h"

namespace shoal::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::int64_t kValues = 40, kFrameValues = 8, kSparseFrameValues = 4096;

std::uint8_t take_byte(Bytes& bytes) {
  if (bytes.empty()) return 0;
  const auto value = std::to_integer<std::uint8_t>(bytes.front());
  bytes = bytes.subspan(1);
  return value;
}

Bytes take(Bytes& bytes, std::size_t size) {
  const Bytes taken = bytes.first(std::min(size, bytes.size()));
  bytes = bytes.subspan(taken.size());
  return taken;
}

bool try_reduce_frame(Bytes bytes) {
  const Bytes front = take(bytes, outer_opt::kFrameHeaderSize);
  const auto header = outer_opt::decode_header(front);
  if (!header.ok()) return false;
  const auto again = outer_opt::encode_header(*header);
  SHOAL_CHECK(std::equal(again.begin(), again.end(), front.begin()), "a header in two forms");
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  if (!outer_opt::check_payload(*header, pieces).ok()) return false;
  SHOAL_CHECK(header->payload_size == bytes.size());
  return true;
}

bool try_pipeline_frame(Bytes bytes) {
  const Bytes front = take(bytes, swarm::kFrameHeaderSize);
  const auto header = swarm::decode_header(front);
  if (!header.ok()) return false;
  const auto again = swarm::encode_header(*header);
  SHOAL_CHECK(std::equal(again.begin(), again.end(), front.begin()), "a header in two forms");
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  if (header->kind == swarm::FrameKind::kWord) {
    const auto word = swarm::word_of(*header, pieces);
    SHOAL_CHECK(!word.ok() || swarm::body_of(*word).size() == bytes.size());
  }
  if (header->body_size == 0) return bytes.empty();  // there is no checksum to look at
  const bool whole = swarm::check_body(*header, pieces).ok();
  SHOAL_CHECK(!whole || header->body_size == bytes.size());
  return whole;
}

ReducePlan plan_of(std::uint8_t topology, std::uint8_t codec) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.value_count = kValues;
  constexpr std::array kTopologies = {Topology::kButterfly, Topology::kRing, Topology::kAllgather};
  plan.topology = kTopologies[topology % kTopologies.size()];
  plan.codec = outer_opt::kDenseCodecs[codec % std::size(outer_opt::kDenseCodecs)];
  if (plan.topology == Topology::kAllgather) plan.codec = CodecKind::kSparse2;
  for (std::uint64_t i = 1; i <= 3; ++i) plan.members.push_back({ReplicaId(i), "a:1", 1, 1, 0, 0});
  if (plan.topology != Topology::kAllgather) assign_parts(plan, {1, 1, 1});
  return plan;
}

class Conversation {
 public:
  explicit Conversation(const ReducePlan& plan) : input_(kValues, 1.0f), average_(kValues, NAN) {
    const bool sparse = plan.codec == CodecKind::kSparse2;
    encoded_.resize(sparse ? outer_opt::sparse2_size(kValues) : 0);
    if (sparse) outer_opt::sparse2_encode(input_, encoded_);
    auto made =
        outer_opt::make_session(plan, ReplicaId(1), sparse ? kSparseFrameValues : kFrameValues,
                                {input_, encoded_}, average_);
    SHOAL_CHECK(made.ok(), "a plan that does not fit");
    session_ = std::move(made).value();
  }

  void hear(int peer, bool right_checksum, Bytes message) {
    const auto front = message.first(std::min(message.size(), outer_opt::kFrameHeaderSize));
    auto header = outer_opt::decode_header(front);
    if (!header.ok()) return;
    const std::array pieces = {message.subspan(front.size())};
    if (right_checksum) header->checksum = outer_opt::payload_checksum(pieces);
    if (const auto work = session_->admit(peer, *header)) {
      session_->finish(*work, session_->run(*work, pieces));
    }
  }

  // As a driver does: local work and what is ready to be sent.
  void go_on() {
    while (running()) {
      const auto work = session_->local_work();
      if (!work) break;
      session_->finish(*work, session_->run(*work, {}));
    }
    for (int peer = 1; peer < session_->members(); ++peer) {
      for (const auto kind :
           {outer_opt::FrameKind::kContribution, outer_opt::FrameKind::kAverage}) {
        while (running() && !session_->sent_all(peer, kind) && session_->next_frame(peer, kind)) {
        }
      }
    }
  }

  bool done() const {
    if (session_->state() != outer_opt::SessionState::kDone) return false;
    const bool finite =
        std::all_of(average_.begin(), average_.end(), [](float v) { return std::isfinite(v); });
    SHOAL_CHECK(finite, "an average with a hole");
    return true;
  }

 private:
  bool running() const { return session_->state() == outer_opt::SessionState::kRunning; }

  std::vector<float> input_, average_;
  std::vector<std::byte> encoded_;
  std::unique_ptr<outer_opt::ReduceSession> session_;
};

bool try_session(Bytes bytes) {
  const std::uint8_t topology = take_byte(bytes), codec = take_byte(bytes);
  Conversation conversation(plan_of(topology, codec));
  conversation.go_on();
  while (!bytes.empty()) {
    const std::size_t low = take_byte(bytes), high = take_byte(bytes);
    const std::uint8_t flags = take_byte(bytes);
    conversation.hear(1 + flags % 2, (flags & 2) != 0, take(bytes, low + 256 * high));
    conversation.go_on();
  }
  return conversation.done();
}

}  // namespace

bool try_bytes(std::span<const std::byte> bytes) {
  switch (take_byte(bytes) % 3) {
    case 0:
      return try_reduce_frame(bytes);
    case 1:
      return try_pipeline_frame(bytes);
    default:
      return try_session(bytes);
  }
}

}  // namespace shoal::fuzz
