// The frames of a pipeline stream: a fixed little-endian header, then tokens (u32 each), then a
// tensor. The stream (stream.h) says which replicas speak; the header says what about.
// A frame begins with a message and continues over as many as it needs.
//
//   offset  size  field
//        0     4  magic "SHPF"
//        4     1  version, 1
//        5     1  kind
//        6     1  pass: 0 train, 1 loss, 2 logits
//        7     1  reason of a refusal: 0 past, 1 not in view, 2 bad tensor, 3 over credit
//        8     8  round
//       16     8  step
//       24     8  router
//       32     4  index of the microbatch
//       36     4  attempt
//       40     8  service in ns (backward); time of sending (ping, pong)
//       48     8  loss, fp64 (backward)
//       56     8  tokens of that loss (backward)
//       64     1  codec of the tensor: 0 fp32, 1 bf16, 2 int8
//       65     1  1: the encoded tensor is entropy coded (outer_opt/core/codec/entropy.h), else 0;
//                 then 2 bytes of zero
//       68     4  rows
//       72     4  columns; rows x columns values, none when either is 0
//       76     4  tokens that follow; of gossip, the routers that follow
//       80     8  size of all that follows
//       88     8  XXH3-64 of all that follows, before it was entropy coded; 0 when nothing does
//
// The routers of gossip follow in 24 bytes each: router, done through, last (0 or 1). Pure and
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "job/job_spec.h"
#include "outer_opt/core/codec/entropy.h"
#include "swarm/core/activation_codec.h"
#include "swarm/core/session/stage_session.h"

namespace shoal::swarm {

enum class FrameKind : std::uint8_t {
  kForward = 1,
  kBackward,
  kCancel,
  kRefusal,
  kGossip,
  kPing,
  kPong,
};

struct FrameHeader {
  FrameKind kind = FrameKind::kPing;
  RefusalReason reason = RefusalReason::kPast;
  Microbatch microbatch;  // of gossip: round and step only
  std::int32_t attempt = 0;
  std::int64_t service_ns = 0;
  double loss_sum = 0;
  std::int64_t loss_tokens = 0;
  ActivationCodec codec = ActivationCodec::kFp32;
  bool entropy_coded = false;
  std::uint32_t rows = 0, columns = 0, tokens = 0;
  std::uint64_t body_size = 0, checksum = 0;
  bool operator==(const FrameHeader&) const = default;

  std::size_t values() const { return static_cast<std::size_t>(rows) * columns; }
};

inline constexpr std::size_t kFrameHeaderSize = 96;
// What a reader is ready to skip or to take; a larger frame ends the stream.
inline constexpr std::uint64_t kFrameBodyMax = std::uint64_t{1} << 31;
inline constexpr std::uint32_t kRoutersMax = 4096;

std::array<std::byte, kFrameHeaderSize> encode_header(const FrameHeader& header);
// Refuses (kInvalidArgument) what no sender of this version writes. Sizes and counts must agree
// with each other; whether they are those of this stage is the receiver's to check.
Result<FrameHeader> decode_header(std::span<const std::byte> bytes);

std::uint64_t body_checksum(Pieces body);
// kDataLoss when size or checksum differ.
Status check_body(const FrameHeader& header, Pieces body);

// Makes the tensor behind the tokens of a whole body smaller, if it can; the header then says so.
// `body` keeps its length, and its first body_size bytes are what to send.
void entropy_encode(outer_opt::EntropyCoder& coder, FrameHeader& header, std::span<std::byte> body);
// The body as it was before, in `plain`; the header then says so. kDataLoss when it cannot be.
Status entropy_decode(outer_opt::EntropyCoder& coder, FrameHeader& header, Pieces body,
                      std::vector<std::byte>& plain);

// Headers and bodies of the session's frames.
FrameHeader header_of(const ForwardHeader& forward, FrameKind kind);
FrameHeader header_of(const BackwardHeader& backward);
ForwardHeader forward_of(const FrameHeader& header);
BackwardHeader backward_of(const FrameHeader& header);
FrameHeader header_of(const ProgressGossip& gossip);
std::vector<std::byte> body_of(const ProgressGossip& gossip);
Result<ProgressGossip> gossip_of(const FrameHeader& header, Pieces body);

}  // namespace shoal::swarm
