// The frames of a reduce stream: a fixed little-endian header, then the encoded values of one
// chunk. The stream (outer_opt/transport/reduce_link.h) says which replica speaks in which attempt;
// the header says what the payload is. A chunk is a run of at most `frame_values` values of one
// owner's part.
//
//   offset  size  field
//        0     4  magic "SHFR"
//        4     1  version, 1
//        5     1  bit 0: the sender reads the receiver's memory (below); bit 1: the payload is
//              entropy coded (entropy.h); the others are 0
//        6     1  kind: 1 contribution (member to owner), 2 average (owner to member)
//        7     1  codec: its wire number (codec_traits.h)
//        8     4  part: index of its owner in the plan's members; of its sender with sparse2
//       12     4  chunk: index in the part
//       16     8  first: index of the first value in the whole vector
//       24     4  count of values
//       28     4  payload size in bytes, before it was entropy coded
//       32     8  XXH3-64 of the payload, before it was entropy coded
//
// Between processes of one host the payload may stay where it is (wire/cross_memory.h). Then the
// message is a reference, and no payload follows the header:
//
//   offset  size  field
//        0     4  magic "SHLN"
//        4     4  0
//        8     8  address of the payload in the sender
//       16    40  the header; the checksum of a contribution is 0, because nothing but the two
//                 processors touches it on its way. That of an average goes into the digest.
//
// Pure and thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "job/job_spec.h"

namespace shoal::outer_opt {

enum class FrameKind : std::uint8_t { kContribution = 1, kAverage = 2 };

struct FrameHeader {
  FrameKind kind = FrameKind::kContribution;
  CodecKind codec = CodecKind::kFp32;
  std::uint32_t part = 0;
  std::uint32_t chunk = 0;
  std::int64_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t payload_size = 0;
  std::uint64_t checksum = 0;
  bool cross_memory = false;
  bool entropy_coded = false;
  bool by_reference = false;  // its payload is still in the sender
  bool has_checksum() const { return !by_reference || kind == FrameKind::kAverage; }
  bool operator==(const FrameHeader&) const = default;
};

inline constexpr std::size_t kFrameHeaderSize = 40;
inline constexpr std::size_t kReferenceSize = 16 + kFrameHeaderSize;
inline constexpr std::int64_t kFrameValuesMax = 1 << 20;

// A payload as it lies in memory, in order; pieces may be cut anywhere.
using Pieces = std::span<const std::span<const std::byte>>;

// Size of `values` encoded values.
std::size_t encoded_size(CodecKind codec, std::size_t values);

std::array<std::byte, kFrameHeaderSize> encode_header(const FrameHeader& header);

// Refuses (kInvalidArgument) a wrong size, magic, version, kind or codec, a count outside
// [1, kFrameValuesMax], a negative position and a payload size that the codec does not give.
Result<FrameHeader> decode_header(std::span<const std::byte> bytes);

// A header whose payload lies at `address` in the sender: it is by_reference.
struct FrameReference {
  std::uint64_t address = 0;
  FrameHeader header;
  bool operator==(const FrameReference&) const = default;
};
std::array<std::byte, kReferenceSize> encode_reference(const FrameReference& reference);
bool is_reference(std::span<const std::byte> bytes);  // by its magic
// Refuses a wrong size or magic, the address 0, an entropy-coded payload, which lies nowhere, and
// what decode_header() refuses.
Result<FrameReference> decode_reference(std::span<const std::byte> bytes);

// kDataLoss when size or checksum differ; a header without a checksum fits all. Code that reads
// the payload anyway hashes it in passing (read_payload() in codec_pieces.h), and calls the two
// around that.
Status check_payload(const FrameHeader& header, Pieces payload);
Status check_size(const FrameHeader& header, Pieces payload);
Status check_checksum(const FrameHeader& header, std::uint64_t found);

std::uint64_t payload_checksum(Pieces payload);

}  // namespace shoal::outer_opt
