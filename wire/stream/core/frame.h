// What travels on a connection between two nodes: frames, each a header of 28 bytes and what it
// announces. A message of a stream is cut into pieces of kPieceBytes, a data frame each, so that
// pieces of other streams, and words that end a stream, pass between them.
//
//   mark  type  flags  head  reserved  length  stream  message  size  offset
//    2     1      1      2      2        4       4        4       4      4     bytes, little-endian
//
// A data frame says of itself all that a receiver must know to put it where it belongs: the number
// of its message, the size of that, and its own place in it. So frames of a message may take
// different connections and arrive in any order. In front of its part of the body it carries the
// message's head, a few bytes by which the receiver knows where the body belongs; every piece has
// the same.
//
// Everything is checked at the header, before a byte of what it announces is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/enumerators.h"
#include "base/result.h"

namespace shoal::wire::stream {

inline constexpr std::size_t kHeaderBytes = 28;
inline constexpr std::uint32_t kPieceBytes = 256 << 10;
inline constexpr std::uint32_t kPiecesMax = 64;                         // of a message
inline constexpr std::uint32_t kMessageMax = kPiecesMax * kPieceBytes;  // bytes of a body
inline constexpr std::uint32_t kHeadMax = 1024;                         // bytes of a head
inline constexpr std::uint32_t kTextMax = 1024;  // of a purpose, and of why a stream is cancelled
// What a message costs of a window beside its body: nobody sends without end what has no size.
inline constexpr std::uint32_t kMessageCost = 1024;
inline constexpr std::uint32_t kWindowMax = std::uint32_t{1} << 31;  // bytes of a stream under way

enum class FrameType : std::uint8_t {
  kHello = 0,   // the first one each way on every connection
  kOpen = 1,    // a stream, with its purpose
  kAccept = 2,  // the stream is known: its data may take any connection from now on
  kData = 3,    // a piece of a message
  kCredit = 4,  // `size` more bytes of the stream may be sent
  kEnd = 5,     // the sender has sent `message` messages, and sends no more
  kCancel = 6,  // the stream is over, both ways; code and reason
  kBeat = 7,    // the sender lives
};
constexpr auto enumerators_of(Of<FrameType>) {
  using enum FrameType;
  return enumerators<FrameType>({{kHello, "hello"},
                                 {kOpen, "open"},
                                 {kAccept, "accept"},
                                 {kData, "data"},
                                 {kCredit, "credit"},
                                 {kEnd, "end"},
                                 {kCancel, "cancel"},
                                 {kBeat, "beat"}});
}

struct FrameHeader {
  FrameType type = FrameType::kBeat;
  std::uint16_t head = 0;     // data: bytes of the message's head, the first of `length`
  std::uint32_t length = 0;   // bytes that follow the header
  std::uint32_t stream = 0;   // 0: the connection itself
  std::uint32_t message = 0;  // data: its number in its stream, from 0; end: how many there were
  std::uint32_t size = 0;     // data: of the message's body; credit: bytes
  std::uint32_t offset = 0;   // data: of this piece in the body, a multiple of kPieceBytes
  bool operator==(const FrameHeader&) const = default;
  std::uint32_t body() const { return length - head; }
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
HeaderBytes encode(const FrameHeader& header);

// Errors: invalid_argument, with the field's name. `message_max` is what this node takes.
Result<FrameHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                 std::uint32_t message_max);

// The piece of a body of `size` bytes that begins at `offset`.
std::uint32_t piece_size(std::uint32_t size, std::uint32_t offset);

// Names one pair of nodes among all, so that further connections find it.
struct PairId {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const PairId&) const = default;
};

// What each end says first, on every connection. The dialing end names pair and connection; the
// accepting one repeats them.
struct Hello {
  PairId pair;
  std::uint16_t lane = 0, lanes = 1;  // which connection of how many
  std::uint32_t message_max = 0;      // bytes that the sender takes in one message
  std::uint32_t window = 0;           // bytes of a stream that may be on their way to it
  std::uint32_t streams_max = 0;      // that the other end may have open
  bool operator==(const Hello&) const = default;
};
inline constexpr std::size_t kHelloBytes = 34;
inline constexpr std::uint16_t kStreamProtocol = 1;
inline constexpr std::uint16_t kLanesMax = 16;

std::array<std::byte, kHelloBytes> encode(const Hello& hello);
// Errors: incompatible, another version; invalid_argument, with the field's name.
Result<Hello> parse_hello(std::span<const std::byte> bytes);

// Why a stream is cancelled: a code and a sentence.
std::string encode_reason(Code code, std::string_view why);
Error parse_reason(std::span<const std::byte> bytes);  // an unknown code becomes kInternal

}  // namespace shoal::wire::stream
