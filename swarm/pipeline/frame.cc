// Reading and writing the header byte by byte, so that neither alignment nor padding matters.
#include "swarm/pipeline/frame.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/little_endian.h"
#include "outer_opt/core/codec/frame.h"

namespace shoal::swarm {
namespace {

constexpr std::uint32_t kMagic = 0x46504853u;  // "SHPF"
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kRouterSize = 24;

Error refuse(const std::string& what, std::uint64_t given) {
  return Error{Code::kInvalidArgument, "bad frame: " + what + " " + std::to_string(given)};
}

std::uint64_t tokens_size(const FrameHeader& h) {
  return std::uint64_t{h.tokens} * sizeof(std::uint32_t);
}

std::uint64_t size_for(const FrameHeader& h) {
  if (h.kind == FrameKind::kGossip) return std::uint64_t{h.tokens} * kRouterSize;
  return tokens_size(h) + encoded_size(h.codec, h.values());
}

bool has_right_size(const FrameHeader& h) {
  if (!h.entropy_coded) return h.body_size == size_for(h);
  return h.kind != FrameKind::kGossip && h.body_size > tokens_size(h) && h.body_size < size_for(h);
}

// Rules between the fields, after each of them was read.
Status check(const FrameHeader& h) {
  if (h.values() > kFrameBodyMax) return refuse("tensor of values", h.values());
  if (h.body_size > kFrameBodyMax) return refuse("body of bytes", h.body_size);
  if (h.kind == FrameKind::kGossip && h.tokens > kRoutersMax) return refuse("routers", h.tokens);
  if (!has_right_size(h)) return refuse("body of bytes", h.body_size);
  const bool has_body = h.kind == FrameKind::kForward || h.kind == FrameKind::kBackward ||
                        h.kind == FrameKind::kGossip;
  if (!has_body && h.body_size > 0) return refuse("unexpected body, bytes", h.body_size);
  if (!std::isfinite(h.loss_sum)) return refuse("loss that is not finite, tokens", h.loss_tokens);
  if (h.loss_tokens < 0) return refuse("tokens", static_cast<std::uint64_t>(h.loss_tokens));
  return {};
}

}  // namespace

std::array<std::byte, kFrameHeaderSize> encode_header(const FrameHeader& h) {
  std::array<std::byte, kFrameHeaderSize> bytes;
  std::byte* at = bytes.data();
  put_little_endian(at, kMagic);
  put_little_endian(at, kVersion);
  put_little_endian(at, static_cast<std::uint8_t>(h.kind));
  put_little_endian(at, static_cast<std::uint8_t>(h.microbatch.kind));
  put_little_endian(at, static_cast<std::uint8_t>(h.reason));
  put_little_endian(at, h.microbatch.round);
  put_little_endian(at, h.microbatch.step);
  put_little_endian(at, h.microbatch.router.n);
  put_little_endian(at, h.microbatch.index);
  put_little_endian(at, h.attempt);
  put_little_endian(at, h.service_ns);
  put_little_endian(at, std::bit_cast<std::uint64_t>(h.loss_sum));
  put_little_endian(at, h.loss_tokens);
  put_little_endian(at, static_cast<std::uint8_t>(h.codec));
  put_little_endian(at, static_cast<std::uint8_t>(h.entropy_coded ? 1 : 0));
  put_little_endian(at, std::uint16_t{0});
  put_little_endian(at, h.rows);
  put_little_endian(at, h.columns);
  put_little_endian(at, h.tokens);
  put_little_endian(at, h.body_size);
  put_little_endian(at, h.checksum);
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() != kFrameHeaderSize) return refuse("header size", bytes.size());
  const std::byte* at = bytes.data();
  if (const auto magic = take_little_endian<std::uint32_t>(at); magic != kMagic)
    return refuse("magic", magic);
  if (const auto version = take_little_endian<std::uint8_t>(at); version != kVersion) {
    return refuse("version", version);
  }
  const auto kind = take_little_endian<std::uint8_t>(at),
             pass = take_little_endian<std::uint8_t>(at),
             reason = take_little_endian<std::uint8_t>(at);
  if (kind < 1 || kind > static_cast<std::uint8_t>(FrameKind::kPong)) return refuse("kind", kind);
  if (pass > static_cast<std::uint8_t>(PassKind::kLogits)) return refuse("pass", pass);
  if (reason > static_cast<std::uint8_t>(RefusalReason::kOverCredit))
    return refuse("reason", reason);
  FrameHeader h;
  h.kind = static_cast<FrameKind>(kind);
  h.microbatch.kind = static_cast<PassKind>(pass);
  h.reason = static_cast<RefusalReason>(reason);
  h.microbatch.round = take_little_endian<std::int64_t>(at);
  h.microbatch.step = take_little_endian<std::int64_t>(at);
  h.microbatch.router = ReplicaId(take_little_endian<std::uint64_t>(at));
  h.microbatch.index = take_little_endian<std::int32_t>(at);
  h.attempt = take_little_endian<std::int32_t>(at);
  h.service_ns = take_little_endian<std::int64_t>(at);
  h.loss_sum = std::bit_cast<double>(take_little_endian<std::uint64_t>(at));
  h.loss_tokens = take_little_endian<std::int64_t>(at);
  const auto codec = take_little_endian<std::uint8_t>(at),
             coded = take_little_endian<std::uint8_t>(at);
  if (codec > static_cast<std::uint8_t>(ActivationCodec::kInt8)) return refuse("codec", codec);
  if (coded > 1) return refuse("byte about entropy coding", coded);
  h.codec = static_cast<ActivationCodec>(codec);
  h.entropy_coded = coded == 1;
  if (const auto zero = take_little_endian<std::uint16_t>(at); zero != 0)
    return refuse("reserved field", zero);
  h.rows = take_little_endian<std::uint32_t>(at);
  h.columns = take_little_endian<std::uint32_t>(at);
  h.tokens = take_little_endian<std::uint32_t>(at);
  h.body_size = take_little_endian<std::uint64_t>(at);
  h.checksum = take_little_endian<std::uint64_t>(at);
  if (Status status = check(h); !status.ok()) return status.error();
  return h;
}

std::uint64_t body_checksum(Pieces body) {
  return body.empty() ? 0 : outer_opt::payload_checksum(body);
}

Status check_body(const FrameHeader& header, Pieces body) {
  std::size_t size = 0;
  for (const auto& piece : body) size += piece.size();
  if (size != header.body_size) {
    return Error{Code::kDataLoss, "bad frame: " + std::to_string(header.body_size) +
                                      " bytes announced, " + std::to_string(size) + " came"};
  }
  if (body_checksum(body) != header.checksum) {
    return Error{Code::kDataLoss, "bad frame: the checksum does not match"};
  }
  return {};
}

void entropy_encode(outer_opt::EntropyCoder& coder, FrameHeader& header,
                    std::span<std::byte> body) {
  const auto tensor = body.subspan(tokens_size(header));
  std::vector<std::byte> coded(tensor.size());
  const std::size_t size = coder.encode(format_of(header.codec), tensor, coded);
  if (size == 0) return;
  std::memcpy(tensor.data(), coded.data(), size);
  header.body_size = tokens_size(header) + size;
  header.entropy_coded = true;
}

Status entropy_decode(outer_opt::EntropyCoder& coder, FrameHeader& header, Pieces body,
                      std::vector<std::byte>& plain) {
  std::size_t front = tokens_size(header), filled = 0;
  header.entropy_coded = false;
  header.body_size = size_for(header);
  plain.resize(header.body_size);
  std::vector<std::span<const std::byte>> coded;
  for (const auto& piece : body) {
    const std::size_t n = std::min(front, piece.size());
    if (n > 0) std::memcpy(plain.data() + filled, piece.data(), n);
    filled += n;
    front -= n;
    if (n < piece.size()) coded.push_back(piece.subspan(n));
  }
  if (front > 0) return Error{Code::kDataLoss, "bad frame: its tokens are cut off"};
  return coder.decode(format_of(header.codec), coded, std::span(plain).subspan(filled));
}

FrameHeader header_of(const ForwardHeader& forward, FrameKind kind) {
  FrameHeader h;
  h.kind = kind;
  h.microbatch = forward.microbatch;
  h.attempt = forward.attempt;
  return h;
}

FrameHeader header_of(const BackwardHeader& backward) {
  FrameHeader h =
      header_of(ForwardHeader{backward.microbatch, backward.attempt}, FrameKind::kBackward);
  h.service_ns = backward.service.ns;
  h.loss_sum = backward.loss_sum;
  h.loss_tokens = backward.tokens.count();
  return h;
}

ForwardHeader forward_of(const FrameHeader& h) { return {h.microbatch, h.attempt}; }

BackwardHeader backward_of(const FrameHeader& h) {
  return {h.microbatch, h.attempt, nanoseconds(h.service_ns), h.loss_sum, Tokens(h.loss_tokens)};
}

FrameHeader header_of(const ProgressGossip& gossip) {
  SHOAL_CHECK(gossip.routers.size() <= kRoutersMax);
  FrameHeader h;
  h.kind = FrameKind::kGossip;
  h.microbatch.round = gossip.round;
  h.microbatch.step = gossip.step;
  h.tokens = static_cast<std::uint32_t>(gossip.routers.size());
  h.body_size = h.tokens * kRouterSize;
  return h;
}

std::vector<std::byte> body_of(const ProgressGossip& gossip) {
  std::vector<std::byte> bytes(gossip.routers.size() * kRouterSize);
  std::byte* at = bytes.data();
  for (const RouterProgress& router : gossip.routers) {
    put_little_endian(at, router.router.n);
    put_little_endian(at, router.done_through);
    put_little_endian(at, static_cast<std::uint64_t>(router.last));
  }
  return bytes;
}

Result<ProgressGossip> gossip_of(const FrameHeader& header, Pieces body) {
  std::vector<std::byte> bytes;
  for (const auto& piece : body) bytes.insert(bytes.end(), piece.begin(), piece.end());
  if (bytes.size() != header.tokens * kRouterSize) return refuse("gossip of bytes", bytes.size());
  ProgressGossip gossip{header.microbatch.round, header.microbatch.step, {}};
  const std::byte* at = bytes.data();
  for (std::uint32_t i = 0; i < header.tokens; ++i) {
    RouterProgress router;
    router.router = ReplicaId(take_little_endian<std::uint64_t>(at));
    router.done_through = take_little_endian<std::int64_t>(at);
    const auto last = take_little_endian<std::uint64_t>(at);
    if (last > 1) return refuse("end of a round", last);
    router.last = last == 1;
    gossip.routers.push_back(router);
  }
  return gossip;
}

}  // namespace shoal::swarm
