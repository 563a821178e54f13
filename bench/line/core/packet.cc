// See packet.h. Offsets are those of RFC 791 and RFC 9293.
#include "bench/line/core/packet.h"

#include <algorithm>
#include <utility>

namespace shoal::bench {
namespace {

constexpr std::size_t kIpMin = 20, kTcpMin = 20;
constexpr std::size_t kIpLength = 2, kIpId = 4, kIpProtocol = 9, kIpSum = 10, kIpTo = 16;
constexpr std::size_t kTcpSequence = 4, kTcpOffset = 12, kTcpFlags = 13, kTcpSum = 16;
constexpr auto kTcp = std::byte{6};
// Finish and push are told by the last segment, "window reduced" by the first.
constexpr auto kOfLast = std::byte{0x09}, kOfFirst = std::byte{0x80};

std::uint32_t get(std::span<const std::byte> from, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<std::uint32_t>(from[at + i]);
  }
  return value;
}

void put(std::span<std::byte> to, std::size_t at, std::size_t size, std::uint32_t value) {
  for (std::size_t i = size; i-- > 0; value >>= 8) to[at + i] = static_cast<std::byte>(value);
}

// One's complement sum of 16-bit words, RFC 1071.
std::uint32_t fold(std::uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

std::uint32_t sum_of(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += get(bytes, i, 2);
  return fold(sum);
}

std::size_t ip_header(std::span<const std::byte> bytes) { return 4 * (get(bytes, 0, 1) & 15); }

std::size_t payload_bytes(const Packet& packet) { return packet.bytes.size() - packet.header; }

bool is_ipv4(std::span<const std::byte> bytes) {
  return bytes.size() >= kIpMin && get(bytes, 0, 1) >> 4 == 4 && ip_header(bytes) >= kIpMin &&
         ip_header(bytes) <= bytes.size() && get(bytes, kIpLength, 2) == bytes.size();
}

// Length of the IP and TCP headers; 0 for other packets.
std::size_t tcp_headers(std::span<const std::byte> bytes) {
  const std::size_t ip = ip_header(bytes);
  if (bytes[kIpProtocol] != kTcp || bytes.size() < ip + kTcpMin) return 0;
  const std::size_t tcp = 4 * (get(bytes, ip + kTcpOffset, 1) >> 4);
  return tcp >= kTcpMin && ip + tcp <= bytes.size() ? ip + tcp : 0;
}

}  // namespace

std::optional<Packet> make_packet(std::span<const std::byte> bytes, const Offload& offload) {
  if (!is_ipv4(bytes)) return std::nullopt;
  Packet packet;
  packet.partial_checksum = offload.partial_checksum;
  packet.checksum_start = offload.checksum_start;
  packet.checksum_offset = offload.checksum_offset;
  if (offload.segment_payload > 0) {
    packet.header = tcp_headers(bytes);
    packet.payload = offload.segment_payload;
    if (packet.header == 0 || packet.header > kHeaderMax) return std::nullopt;
    const std::size_t content = bytes.size() - packet.header;
    packet.segments =
        static_cast<int>(std::max<std::size_t>(1, (content + packet.payload - 1) / packet.payload));
  }
  packet.bytes.assign(bytes.begin(), bytes.end());
  return packet;
}

std::uint32_t destination_of(const Packet& packet) { return get(packet.bytes, kIpTo, 4); }

Train whole(Packet packet) {
  const int segments = packet.segments;
  return {std::make_shared<const Packet>(std::move(packet)), 0, segments};
}

std::span<const std::byte> Train::content() const {
  const std::span<const std::byte> bytes = packet->bytes;
  if (packet->segments == 1) return bytes;
  const std::size_t begin = static_cast<std::size_t>(first) * packet->payload;
  const std::size_t length = static_cast<std::size_t>(count) * packet->payload;
  return bytes.subspan(packet->header + begin, std::min(length, payload_bytes(*packet) - begin));
}

std::int64_t Train::bytes() const {
  const std::size_t headers = packet->segments == 1 ? 0 : packet->header;
  return static_cast<std::int64_t>(content().size() + static_cast<std::size_t>(count) * headers);
}

TrainHeader header_of(const Train& train) {
  const Packet& packet = *train.packet;
  TrainHeader header;
  if (packet.segments == 1) return header;
  header.size = packet.header;
  const std::span<std::byte> out = std::span(header.bytes).first(header.size);
  std::copy_n(packet.bytes.begin(), header.size, out.begin());

  const std::size_t tcp = ip_header(out);
  const auto length = static_cast<std::uint32_t>(header.size + train.content().size());
  const std::uint32_t length_before = get(out, kIpLength, 2);
  put(out, kIpLength, 2, length);
  put(out, kIpId, 2, get(out, kIpId, 2) + static_cast<std::uint32_t>(train.first));
  put(out, kIpSum, 2, 0);
  put(out, kIpSum, 2, ~sum_of(out.first(tcp)));

  const auto skipped =
      static_cast<std::uint32_t>(train.first) * static_cast<std::uint32_t>(packet.payload);
  put(out, tcp + kTcpSequence, 4, get(out, tcp + kTcpSequence, 4) + skipped);
  std::byte& flags = out[tcp + kTcpFlags];
  if (train.first + train.count < packet.segments) flags &= ~kOfLast;
  if (train.first > 0) flags &= ~kOfFirst;
  // The pseudo-header has the length of the segment, RFC 1624 says how a sum changes with a word.
  const std::uint32_t sum = get(out, tcp + kTcpSum, 2);
  put(out, tcp + kTcpSum, 2, fold(sum + (0xffff - fold(length_before)) + length));
  return header;
}

}  // namespace shoal::bench
