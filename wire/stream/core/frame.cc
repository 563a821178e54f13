// See frame.h.
#include "wire/stream/core/frame.h"

#include <algorithm>

#include "base/little_endian.h"
#include "base/wire_text.h"

namespace shoal::wire::stream {
namespace {

constexpr std::uint16_t kMark = 0x5368;  // "hS"

Error bad(const char* field, const std::string& what) {
  return {Code::kInvalidArgument, "a frame of the peer " + what, std::string("frame.") + field,
          "run the same version on both hosts"};
}

std::string number(std::uint64_t n) { return std::to_string(n); }

struct Raw {
  std::uint16_t mark = 0;
  std::uint8_t type = 0, flags = 0;
  std::uint16_t reserved = 0;
};

// The most bytes that may follow a header of this type, and the least.
struct Lengths {
  std::uint32_t least = 0, most = 0;
};
Lengths lengths_of(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return {kHelloBytes, kHelloBytes};
    case FrameType::kOpen:
      return {0, kTextMax};
    case FrameType::kCancel:
      return {1, kTextMax};
    case FrameType::kData:
      return {0, kHeadMax + kPieceBytes};
    default:
      return {0, 0};
  }
}

bool is_of_connection(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kBeat;
}

// The fields that a type does not have are 0.
const char* field_too_much(const FrameHeader& h) {
  const bool is_data = h.type == FrameType::kData;
  if (h.head != 0 && !is_data) return "head";
  if (h.message != 0 && !is_data && h.type != FrameType::kEnd) return "message";
  if (h.size != 0 && !is_data && h.type != FrameType::kCredit) return "size";
  if (h.offset != 0 && !is_data) return "offset";
  return nullptr;
}

Status check_data(const FrameHeader& h, std::uint32_t message_max) {
  if (h.size > message_max) {
    return bad("size", "announces a message of " + number(h.size) + " bytes, of at most " +
                           number(message_max));
  }
  if (h.head > kHeadMax || h.head > h.length) {
    return bad("head", "announces a head of " + number(h.head) + " bytes");
  }
  const bool begins_in_it = h.offset < h.size || (h.size == 0 && h.offset == 0);
  if (h.offset % kPieceBytes != 0 || !begins_in_it) {
    return bad("offset", "begins at " + number(h.offset) + " of " + number(h.size));
  }
  if (h.body() != piece_size(h.size, h.offset)) {
    return bad("length", "has " + number(h.body()) + " bytes of a body of " + number(h.size) +
                             " at " + number(h.offset));
  }
  return {};
}

Status check(const FrameHeader& h, std::uint32_t message_max) {
  const Lengths allowed = lengths_of(h.type);
  if (h.length < allowed.least || h.length > allowed.most) {
    return bad("length", "of type " + std::string(to_string(h.type)) + " announces " +
                             number(h.length) + " bytes");
  }
  if (is_of_connection(h.type) != (h.stream == 0)) {
    return bad("stream",
               "of type " + std::string(to_string(h.type)) + " names stream " + number(h.stream));
  }
  if (const char* field = field_too_much(h)) {
    return bad(field, "of type " + std::string(to_string(h.type)) + " has a " + field);
  }
  if (h.type == FrameType::kCredit && h.size == 0) return bad("size", "gives credit of 0 bytes");
  return h.type == FrameType::kData ? check_data(h, message_max) : Status();
}

}  // namespace

HeaderBytes encode(const FrameHeader& h) {
  HeaderBytes bytes{};
  std::byte* at = bytes.data();
  put_little_endian(at, kMark);
  put_little_endian(at, static_cast<std::uint8_t>(h.type));
  put_little_endian(at, std::uint8_t{0});  // no flag has a meaning yet
  put_little_endian(at, h.head);
  put_little_endian(at, std::uint16_t{0});
  for (const std::uint32_t field : {h.length, h.stream, h.message, h.size, h.offset}) {
    put_little_endian(at, field);
  }
  return bytes;
}

Result<FrameHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                 std::uint32_t message_max) {
  const std::byte* at = bytes.data();
  Raw raw;
  FrameHeader h;
  raw.mark = take_little_endian<std::uint16_t>(at);
  raw.type = take_little_endian<std::uint8_t>(at);
  raw.flags = take_little_endian<std::uint8_t>(at);
  h.head = take_little_endian<std::uint16_t>(at);
  raw.reserved = take_little_endian<std::uint16_t>(at);
  for (std::uint32_t* field : {&h.length, &h.stream, &h.message, &h.size, &h.offset}) {
    *field = take_little_endian<std::uint32_t>(at);
  }
  if (raw.mark != kMark) return bad("mark", "does not begin with our mark");
  if (raw.type > static_cast<std::uint8_t>(FrameType::kBeat)) {
    return bad("type", "has the unknown type " + number(raw.type));
  }
  if (raw.flags != 0) return bad("flags", "has unknown flags " + number(raw.flags));
  if (raw.reserved != 0) return bad("reserved", "must be 0, is " + number(raw.reserved));
  h.type = static_cast<FrameType>(raw.type);
  if (const Status good = check(h, std::min(message_max, kMessageMax)); !good) return good.error();
  return h;
}

std::uint32_t piece_size(std::uint32_t size, std::uint32_t offset) {
  return std::min(kPieceBytes, size - offset);
}

std::array<std::byte, kHelloBytes> encode(const Hello& hello) {
  std::array<std::byte, kHelloBytes> bytes{};
  std::byte* at = bytes.data();
  put_little_endian(at, kStreamProtocol);
  put_little_endian(at, hello.pair.high);
  put_little_endian(at, hello.pair.low);
  put_little_endian(at, hello.lane);
  put_little_endian(at, hello.lanes);
  for (const std::uint32_t field : {hello.message_max, hello.window, hello.streams_max}) {
    put_little_endian(at, field);
  }
  return bytes;
}

Result<Hello> parse_hello(std::span<const std::byte> bytes) {
  if (bytes.size() != kHelloBytes) return bad("length", "is not that of a hello");
  const std::byte* at = bytes.data();
  const auto version = take_little_endian<std::uint16_t>(at);
  if (version != kStreamProtocol) {
    return Error{Code::kIncompatible,
                 "the peer speaks version " + number(version) + " of streams, not " +
                     number(kStreamProtocol),
                 "hello.version", "run the same version on both hosts"};
  }
  Hello hello;
  hello.pair.high = take_little_endian<std::uint64_t>(at);
  hello.pair.low = take_little_endian<std::uint64_t>(at);
  hello.lane = take_little_endian<std::uint16_t>(at);
  hello.lanes = take_little_endian<std::uint16_t>(at);
  for (std::uint32_t* field : {&hello.message_max, &hello.window, &hello.streams_max}) {
    *field = take_little_endian<std::uint32_t>(at);
  }
  if (hello.lanes < 1 || hello.lanes > kLanesMax || hello.lane >= hello.lanes) {
    return bad("lanes", "is connection " + number(hello.lane) + " of " + number(hello.lanes));
  }
  if (hello.message_max < kPieceBytes || hello.message_max > kMessageMax) {
    return bad("message_max", "takes messages of " + number(hello.message_max) + " bytes");
  }
  if (hello.window / 2 < hello.message_max || hello.window > kWindowMax) {
    return bad("window", "has a window of " + number(hello.window) + " bytes for messages of " +
                             number(hello.message_max));
  }
  return hello;
}

std::string encode_reason(Code code, std::string_view why) {
  std::string text(1, static_cast<char>(code));
  text += valid_text(why, kTextMax - 1);
  return text;
}

Error parse_reason(std::span<const std::byte> bytes) {
  Error error{Code::kInternal, "the peer has cancelled the stream", "", ""};
  if (bytes.empty()) return error;
  const auto code = std::to_integer<std::uint8_t>(bytes[0]);
  if (code <= static_cast<std::uint8_t>(Code::kInternal)) error.code = static_cast<Code>(code);
  if (bytes.size() > 1) {
    error.message.assign(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
  }
  return error;
}

}  // namespace shoal::wire::stream
