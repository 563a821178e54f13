// Reading and writing the frame header byte by byte, so that neither alignment nor padding matters.
#include "outer_opt/core/codec/frame.h"

#include <algorithm>
#include <string>

#include "base/little_endian.h"
#include "outer_opt/core/codec/checksum.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"

namespace shoal::outer_opt {
namespace {

constexpr std::uint32_t kMagic = 0x52464853u;           // "SHFR"
constexpr std::uint32_t kReferenceMagic = 0x4e4c4853u;  // "SHLN"
constexpr std::uint8_t kVersion = 1;
constexpr unsigned kCrossMemory = 1, kEntropyCoded = 2;

Error refuse(const std::string& what, std::uint64_t given) {
  return Error{Code::kInvalidArgument, "bad frame: " + what + " " + std::to_string(given)};
}

}  // namespace

std::size_t encoded_size(CodecKind kind, std::size_t values) {
  return traits_of(kind).is_dense() ? codec(kind).encoded_size(values) : sparse2_size(values);
}

std::array<std::byte, kFrameHeaderSize> encode_header(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderSize> bytes;
  std::byte* at = bytes.data();
  put_little_endian(at, kMagic);
  put_little_endian(at, kVersion);
  const unsigned flags =
      (header.cross_memory ? kCrossMemory : 0) | (header.entropy_coded ? kEntropyCoded : 0);
  put_little_endian(at, static_cast<std::uint8_t>(flags));
  put_little_endian(at, static_cast<std::uint8_t>(header.kind));
  put_little_endian(at, traits_of(header.codec).wire);
  put_little_endian(at, header.part);
  put_little_endian(at, header.chunk);
  put_little_endian(at, header.first);
  put_little_endian(at, header.count);
  put_little_endian(at, header.payload_size);
  put_little_endian(at, header.checksum);
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
  const auto flags = take_little_endian<std::uint8_t>(at);
  if ((flags & ~(kCrossMemory | kEntropyCoded)) != 0) return refuse("flags", flags);
  const auto kind = take_little_endian<std::uint8_t>(at);
  if (kind != 1 && kind != 2) return refuse("kind", kind);
  const auto codec_byte = take_little_endian<std::uint8_t>(at);
  const auto known = codec_of_wire(codec_byte);
  if (!known) return refuse("codec", codec_byte);
  FrameHeader header;
  header.cross_memory = (flags & kCrossMemory) != 0;
  header.entropy_coded = (flags & kEntropyCoded) != 0;
  header.kind = static_cast<FrameKind>(kind);
  header.codec = *known;
  header.part = take_little_endian<std::uint32_t>(at);
  header.chunk = take_little_endian<std::uint32_t>(at);
  header.first = take_little_endian<std::int64_t>(at);
  header.count = take_little_endian<std::uint32_t>(at);
  header.payload_size = take_little_endian<std::uint32_t>(at);
  header.checksum = take_little_endian<std::uint64_t>(at);
  if (header.first < 0) return refuse("first value", static_cast<std::uint64_t>(header.first));
  if (header.count == 0 || header.count > kFrameValuesMax)
    return refuse("value count", header.count);
  if (header.payload_size != encoded_size(header.codec, header.count)) {
    return refuse("payload size", header.payload_size);
  }
  return header;
}

std::array<std::byte, kReferenceSize> encode_reference(const FrameReference& reference) {
  std::array<std::byte, kReferenceSize> bytes;
  std::byte* at = bytes.data();
  put_little_endian(at, kReferenceMagic);
  put_little_endian(at, std::uint32_t{0});
  put_little_endian(at, reference.address);
  std::ranges::copy(encode_header(reference.header), at);
  return bytes;
}

bool is_reference(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  return bytes.size() >= sizeof kReferenceMagic &&
         take_little_endian<std::uint32_t>(at) == kReferenceMagic;
}

Result<FrameReference> decode_reference(std::span<const std::byte> bytes) {
  if (bytes.size() != kReferenceSize) return refuse("reference size", bytes.size());
  const std::byte* at = bytes.data();
  if (const auto magic = take_little_endian<std::uint32_t>(at); magic != kReferenceMagic)
    return refuse("magic", magic);
  if (const auto zero = take_little_endian<std::uint32_t>(at); zero != 0)
    return refuse("reserved field", zero);
  FrameReference reference;
  reference.address = take_little_endian<std::uint64_t>(at);
  if (reference.address == 0) return refuse("address", 0);
  auto header = decode_header(bytes.last(kFrameHeaderSize));
  if (!header.ok()) return header.error();
  if (header->entropy_coded) return refuse("flags of a reference", kEntropyCoded);
  reference.header = *header;
  reference.header.by_reference = true;
  return reference;
}

std::uint64_t payload_checksum(Pieces payload) {
  if (payload.size() == 1) return checksum_kernel().once(payload[0].data(), payload[0].size());
  RunningChecksum checksum;
  for (const auto& piece : payload) checksum.add(piece);
  return checksum.value();
}

Status check_size(const FrameHeader& header, Pieces payload) {
  std::size_t size = 0;
  for (const auto& piece : payload) size += piece.size();
  if (size == header.payload_size) return {};
  return Error{Code::kDataLoss, "bad frame: " + std::to_string(header.payload_size) +
                                    " bytes of payload announced, " + std::to_string(size) +
                                    " came"};
}

Status check_checksum(const FrameHeader& header, std::uint64_t found) {
  if (!header.has_checksum() || found == header.checksum) return {};
  return Error{Code::kDataLoss, "bad frame: the checksum of the payload does not match"};
}

Status check_payload(const FrameHeader& header, Pieces payload) {
  if (Status s = check_size(header, payload); !s.ok()) return s;
  return header.has_checksum() ? check_checksum(header, payload_checksum(payload)) : Status();
}

}  // namespace shoal::outer_opt
