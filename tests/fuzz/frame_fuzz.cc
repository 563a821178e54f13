// See frame_fuzz.h. A conversation is: shape (topology and variant), codec, then messages of two
// bytes for the length, one byte for the sender and whether its checksum is to be made right, and
// the frame. Right checksums let the fuzzer past the door; without them nothing would ever be
// admitted.
#include "tests/fuzz/frame_fuzz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_pieces.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/reduce/make_session.h"
#include "swarm/core/activation_codec.h"
#include "swarm/pipeline/frame.h"

namespace shoal::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::array kTopologies = {Topology::kButterfly, Topology::kRing, Topology::kAllgather,
                                    Topology::kParamServer};
constexpr std::uint8_t kVariants = 4;  // of a butterfly: mean, trimmed mean, centered clip, sharded
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

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

bool try_reference(Bytes bytes) {
  const auto reference = outer_opt::decode_reference(bytes);
  if (!reference.ok()) return false;
  const auto again = outer_opt::encode_reference(*reference);
  SHOAL_CHECK(std::ranges::equal(again, bytes), "a reference in two forms");
  return true;
}

bool try_reduce_frame(Bytes bytes) {
  if (outer_opt::is_reference(bytes)) return try_reference(bytes);
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

// The receiver knows the size of its tensors before it allocates memory.
bool try_coded_body(swarm::FrameHeader header, Bytes bytes) {
  if (header.values() > 1 << 16 || header.tokens > 1 << 16) return false;
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  outer_opt::EntropyCoder coder;
  std::vector<std::byte> plain;
  const bool expanded = swarm::entropy_decode(coder, header, pieces, plain).ok();
  return expanded && swarm::check_body(header, std::array{Bytes(plain)}).ok();
}

bool try_pipeline_frame(Bytes bytes) {
  const Bytes front = take(bytes, swarm::kFrameHeaderSize);
  const auto header = swarm::decode_header(front);
  if (!header.ok()) return false;
  const auto again = swarm::encode_header(*header);
  SHOAL_CHECK(std::equal(again.begin(), again.end(), front.begin()), "a header in two forms");
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  if (header->kind == swarm::FrameKind::kGossip) {
    const auto gossip = swarm::gossip_of(*header, pieces);
    SHOAL_CHECK(!gossip.ok() || swarm::body_of(*gossip).size() == bytes.size());
  }
  if (header->body_size == 0) return bytes.empty();  // there is no checksum to look at
  if (header->entropy_coded) return try_coded_body(*header, bytes);
  const bool whole = swarm::check_body(*header, pieces).ok();
  SHOAL_CHECK(!whole || header->body_size == bytes.size());
  return whole;
}

class Conversation {
 public:
  explicit Conversation(const ReducePlan& plan) : input_(kValues, 1.0f), average_(kValues, NAN) {
    if (plan.owner_step) momentum_.resize(static_cast<std::size_t>(plan.members[0].part_count));
    const bool sparse = plan.codec == CodecKind::kSparse2;
    encoded_.resize(sparse ? outer_opt::sparse2_size(kValues) : 0);
    if (sparse) outer_opt::sparse2_encode(input_, encoded_);
    auto made = outer_opt::make_session(plan, ReplicaId(1), frame_values_of(plan),
                                        {input_, encoded_, momentum_}, average_);
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
    SHOAL_CHECK(all_finite(average_), "an average with a hole");
    return true;
  }

 private:
  bool running() const { return session_->state() == outer_opt::SessionState::kRunning; }

  std::vector<float> input_, average_, momentum_;
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

bool try_dense(CodecKind kind, Bytes bytes, std::span<float> out) {
  const outer_opt::Codec& codec = outer_opt::codec(kind);
  const bool decoded = codec.decode(bytes, out).ok();
  SHOAL_CHECK(!decoded || all_finite(out), "a codec let a value through that is not finite");
  std::vector<float> sum(out.size());
  const bool added = codec.accumulate(bytes, 0.5f, sum).ok();
  SHOAL_CHECK(added == decoded, "what can be decoded can be added");
  for (std::size_t i = 0; added && i < sum.size(); ++i) SHOAL_CHECK(sum[i] == 0.5f * out[i]);
  if (bytes.size() != codec.encoded_size(out.size())) return decoded;  // no header says so
  outer_opt::FrameHeader header{outer_opt::FrameKind::kAverage,
                                kind,
                                0,
                                0,
                                0,
                                static_cast<std::uint32_t>(out.size()),
                                static_cast<std::uint32_t>(bytes.size())};
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  header.checksum = outer_opt::payload_checksum(pieces);
  std::vector<float> again(out.size());
  const bool in_pieces = outer_opt::decode_payload(codec, header, pieces, again).ok();
  SHOAL_CHECK(in_pieces == decoded && (!decoded || std::ranges::equal(again, out)));
  return decoded;
}

bool try_sparse(Bytes bytes, std::span<float> out) {
  const bool decoded = outer_opt::sparse2_decode(bytes, out).ok();
  SHOAL_CHECK(outer_opt::sparse2_check(bytes, out.size()).ok() == decoded);
  SHOAL_CHECK(!decoded || all_finite(out), "sparse2 let a value through that is not finite");
  const std::array terms = {outer_opt::SparseTerm{bytes, 2, 2}, outer_opt::SparseTerm{bytes, 1, 1}};
  std::vector<float> mean(out.size());
  SHOAL_CHECK(outer_opt::sparse2_mean(terms, mean).ok() == decoded);
  outer_opt::ErrorFeedback feedback(out.size(), 0.5);
  SHOAL_CHECK(feedback.commit(std::vector<float>(out.size()), bytes).ok() == decoded);
  return decoded;
}

// The bytes of one frame, that passed every check of its header: codec, count of values, payload.
bool try_payload(Bytes bytes) {
  const std::uint8_t kind = take_byte(bytes) % (outer_opt::kDenseCodecs.size() + 1);
  const std::size_t low = take_byte(bytes), count = 1 + low + 256 * (take_byte(bytes) % 32);
  std::vector<float> out(count);
  if (kind == outer_opt::kDenseCodecs.size()) return try_sparse(bytes, out);
  return try_dense(outer_opt::kDenseCodecs[kind], bytes, out);
}

// The bytes of one entropy-coded payload: codec, count of values, what was coded.
bool try_entropy(Bytes bytes) {
  const CodecKind kind = outer_opt::kDenseCodecs[take_byte(bytes) % outer_opt::kDenseCodecs.size()];
  const std::size_t low = take_byte(bytes), count = 1 + low + 256 * (take_byte(bytes) % 32);
  std::vector<std::byte> payload(outer_opt::codec(kind).encoded_size(count)), coded(payload.size());
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  outer_opt::EntropyCoder coder;
  if (!coder.decode(kind, pieces, payload).ok()) return false;
  coded.resize(coder.encode(kind, payload, coded));
  if (coded.empty()) return true;
  std::vector<std::byte> again(payload.size());
  SHOAL_CHECK(coder.decode(kind, std::array{Bytes(coded)}, again).ok() && again == payload);
  return true;
}

bool try_activations(Bytes bytes) {
  constexpr std::array kCodecs = {ActivationCodec::kFp32, ActivationCodec::kBf16,
                                  ActivationCodec::kInt8};
  const ActivationCodec codec = kCodecs[take_byte(bytes) % kCodecs.size()];
  const std::size_t low = take_byte(bytes), count = 1 + low + 256 * (take_byte(bytes) % 4);
  std::vector<float> out(count);
  const std::array pieces = {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)};
  if (!swarm::decode(codec, pieces, out).ok()) return false;
  SHOAL_CHECK(all_finite(out), "an activation that is not finite");
  return true;
}

}  // namespace

ReducePlan plan_of(std::uint8_t shape, std::uint8_t codec) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.value_count = kValues;
  plan.topology = kTopologies[shape % kTopologies.size()];
  plan.codec = outer_opt::kDenseCodecs[codec % std::size(outer_opt::kDenseCodecs)];
  if (plan.topology == Topology::kAllgather) plan.codec = CodecKind::kSparse2;
  const bool helped = plan.topology == Topology::kParamServer;
  const double third = helped ? 0 : 1;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    plan.members.push_back({ReplicaId(i), "a:1", i == 3 ? third : 1, 1, 0, 0, helped && i == 3});
  }
  if (plan.topology != Topology::kAllgather) assign_parts(plan, {1, 1, 1});
  const std::uint8_t variant = shape / kTopologies.size() % kVariants;
  if (plan.topology != Topology::kButterfly) return plan;
  if (variant == 1) plan.aggregator = Aggregator::kTrimmedMean;
  if (variant == 2) plan.aggregator = Aggregator::kCenteredClip;
  if (variant == 3) plan.owner_step.emplace().outer = {0.7, 0.9};
  return plan;
}

std::int64_t frame_values_of(const ReducePlan& plan) {
  return plan.codec == CodecKind::kSparse2 ? kSparseFrameValues : kFrameValues;
}

bool try_bytes(std::span<const std::byte> bytes) {
  switch (take_byte(bytes) % 6) {
    case 0:
      return try_reduce_frame(bytes);
    case 1:
      return try_pipeline_frame(bytes);
    case 2:
      return try_session(bytes);
    case 3:
      return try_payload(bytes);
    case 4:
      return try_activations(bytes);
    default:
      return try_entropy(bytes);
  }
}

}  // namespace shoal::fuzz
