// An IPv4 packet as a TUN device gives it: one segment, or, with segmentation offloaded, many
// segments of one TCP connection under one header. A line loses and delays segments, so what comes
// out of it may be any run of a packet's segments; header_of() writes the header of such a run.
// Only headers are copied for it, payloads stay where they are. IPv6 is not looked at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace shoal::bench {

struct Packet {
  std::vector<std::byte> bytes;  // from the IP header on
  // With more than one segment: the length of the IP and TCP headers, and the payload of each
  // segment but the last.
  std::size_t header = 0, payload = 0;
  int segments = 1;
  // The sender left the checksum to the device: the sum of the pseudo-header is in its place.
  bool partial_checksum = false;
  std::uint16_t checksum_start = 0, checksum_offset = 0;
};

// What the device says of a packet beside its bytes.
struct Offload {
  bool partial_checksum = false;
  std::uint16_t checksum_start = 0, checksum_offset = 0;
  std::uint16_t segment_payload = 0;  // TCP over IPv4 in segments of so much; 0: one segment
};

// Nothing when the bytes are no IPv4 packet, or their headers contradict `offload`.
std::optional<Packet> make_packet(std::span<const std::byte> bytes, const Offload& offload);

std::uint32_t destination_of(const Packet& packet);  // in host order

// Segments of one packet that travel together.
struct Train {
  std::shared_ptr<const Packet> packet;
  int first = 0, count = 1;

  std::int64_t bytes() const;                  // on the line, each segment with its headers
  std::span<const std::byte> content() const;  // their payloads; of a single segment all of it
  Train part(int from, int length) const { return {packet, first + from, length}; }
};
Train whole(Packet packet);

inline constexpr std::size_t kHeaderMax = 120;  // IP and TCP with all options
struct TrainHeader {
  std::array<std::byte, kHeaderMax> bytes{};
  std::size_t size = 0;  // 0: the content has its headers
};
// Length, sequence number, flags and checksums as if the sender had sent just these segments.
TrainHeader header_of(const Train& train);

}  // namespace shoal::bench
