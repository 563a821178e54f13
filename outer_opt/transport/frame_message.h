// Frames (outer_opt/core/codec/frame.h) as messages of a reduce stream. A payload that lies in
// memory is not copied into its message: gRPC reads it from there, or a peer of this host that may
// read this process's memory does (wire/cross_memory.h), and the message is a reference. For a slow
// line the payload is entropy coded, if that makes it smaller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <grpcpp/support/byte_buffer.h>

#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/codec/frame.h"
#include "outer_opt/core/reduce/reduce_session.h"
#include "wire/cross_memory.h"
#include "wire/slices.h"

namespace shoal::outer_opt {

// With what gRPC and HTTP/2 put before it.
inline constexpr std::size_t kFramingSize = 5 + 9;

struct OutgoingMessage {
  grpc::ByteBuffer bytes;
  std::size_t size = 0;  // what its way costs: the message, its framing, what it refers to
};

// How a frame goes to its receiver.
struct SendTerms {
  // The two ends read each other's memory; the frame says so, and refers to its payload when that
  // is resident.
  bool cross_memory = false;
  EntropyCoder* coder = nullptr;  // for payloads in messages; none: nothing is entropy coded
};

// The message of a frame of this session. `pins` counts what gRPC may still read.
OutgoingMessage message_of(const ReduceSession& session, const FrameRef& frame, SendTerms terms,
                           wire::SlicePins& pins);

// A frame as it came. One that came by reference or entropy coded has no payload until fetch() or
// expand().
class ReceivedFrame {
 public:
  // Refuses what is neither a frame nor a reference to one, and a frame that is not of `kind`.
  static Result<ReceivedFrame> read(const grpc::ByteBuffer& message, FrameKind kind);

  const FrameHeader& header() const { return header_; }
  std::size_t size() const;  // as OutgoingMessage::size
  bool must_fetch() const { return header_.by_reference && buffer_.empty(); }
  bool must_expand() const { return header_.entropy_coded && buffer_.empty(); }
  // Each brings the payload into `buffer`, which the frame keeps until give_back().
  Status fetch(const wire::PeerMemory& memory, std::vector<std::byte> buffer);
  Status expand(EntropyCoder& coder, std::vector<std::byte> buffer);
  bool has_buffer() const { return !buffer_.empty(); }
  std::vector<std::byte> give_back() { return std::move(buffer_); }
  // Valid while this lives.
  std::vector<std::span<const std::byte>> payload() const;

 private:
  std::span<std::byte> keep(std::vector<std::byte> buffer);

  FrameHeader header_;
  wire::Received message_;
  std::uint64_t address_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace shoal::outer_opt
