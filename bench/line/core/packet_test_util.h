// Packets for tests: TCP over IPv4 with whatever payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/line/core/packet.h"

namespace shoal::bench {

// 40 bytes of headers; sequence number 1000, flags CWR, ACK, PSH and FIN, from 10.0.0.1
// to 10.0.0.2.
inline std::vector<std::byte> tcp_bytes(std::size_t payload) {
  const auto length = static_cast<unsigned>(40 + payload);
  std::vector<unsigned> header = {
      0x45, 0, length >> 8, length & 255, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
  const std::vector<unsigned> tcp = {0, 80, 0,    80,   0, 0, 0x03, 0xe8, 0, 0,
                                     0, 0,  0x50, 0x99, 1, 0, 0,    0,    0, 0};
  header.insert(header.end(), tcp.begin(), tcp.end());
  std::vector<std::byte> bytes;
  for (const unsigned value : header) bytes.push_back(static_cast<std::byte>(value));
  for (std::size_t i = 0; i < payload; ++i) bytes.push_back(static_cast<std::byte>(i % 251));
  return bytes;
}

// One segment of `size` bytes, headers included; many with `segment_payload`.
inline Packet tcp_packet(std::size_t size, std::uint16_t segment_payload = 0) {
  return *make_packet(tcp_bytes(size - 40), {true, 20, 16, segment_payload});
}

}  // namespace shoal::bench
