// Frames (outer_opt/core/codec/frame.h) as messages of a reduce stream: the header, or a reference
// to a payload, is the message's head, the payload its body. A payload that lies in memory is not
// copied: it is sent from there, or a peer of this host that may read this process's memory does
// (wire/cross_memory.h), and the head is a reference. For a slow line the payload is entropy coded,
// if that makes it smaller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/codec/frame.h"
#include "outer_opt/core/reduce/reduce_session.h"
#include "wire/cross_memory.h"

namespace shoal::outer_opt {

// Leaves new bytes as they are: what comes from the line overwrites them, and clearing memory that
// the system has just cleared costs a reduce a few percent.
struct UnclearedBytes : std::allocator<std::byte> {
  using std::allocator<std::byte>::allocator;
  template <typename Byte>
  struct rebind {
    using other = UnclearedBytes;
  };
  void construct(std::byte*) noexcept {}
  void construct(std::byte* place, std::byte value) noexcept { *place = value; }
};

using Buffer = std::vector<std::byte, UnclearedBytes>;

// What a message costs on its way: its pieces' headers, each with the head, and the body.
std::size_t message_size(std::size_t head, std::size_t body);

struct OutgoingMessage {
  std::vector<std::byte> head;
  std::span<const std::byte> body;  // in the session's memory, or in `buffer`
  Buffer buffer;                    // to be kept, or given back, when the message is sent
  std::size_t size = 0;             // what its way costs, with what it refers to
};

// How a frame goes to its receiver.
struct SendTerms {
  // The two ends read each other's memory; the frame says so, and refers to its payload when that
  // is resident.
  bool cross_memory = false;
  EntropyCoder* coder = nullptr;  // for payloads in messages; none: nothing is entropy coded
};

// The message of a frame of this session. `buffer` is used where a payload has to be made first,
// and comes back with the message in any case.
OutgoingMessage message_of(const ReduceSession& session, const FrameRef& frame, SendTerms terms,
                           Buffer buffer);

// A frame as it came. One that came by reference or entropy coded has no payload until fetch() or
// expand().
class ReceivedFrame {
 public:
  // Refuses what is neither a frame nor a reference to one, a frame that is not of `kind`, and a
  // body of another size than the header says.
  static Result<ReceivedFrame> read(std::span<const std::byte> head, std::size_t body,
                                    FrameKind kind);
  // The body has come, into the front of this buffer, which the frame keeps.
  void take_body(Buffer body) { body_ = std::move(body); }

  const FrameHeader& header() const { return header_; }
  std::size_t body_size() const { return body_size_; }
  std::size_t size() const;  // as OutgoingMessage::size
  bool must_fetch() const { return header_.by_reference && !payload_; }
  bool must_expand() const { return header_.entropy_coded && !payload_; }
  // Each brings the payload into `buffer`, which the frame keeps until give_back().
  Status fetch(const wire::PeerMemory& memory, Buffer buffer);
  Status expand(EntropyCoder& coder, Buffer buffer);
  // The buffers that it has, for others.
  std::vector<Buffer> give_back();
  std::span<const std::byte> payload() const;  // valid while this lives

 private:
  std::span<std::byte> keep(Buffer buffer);

  FrameHeader header_;
  std::size_t head_size_ = 0, body_size_ = 0;
  std::uint64_t address_ = 0;
  Buffer body_;
  std::optional<Buffer> payload_;
};

// A buffer of at least `size` bytes.
Buffer enlarged(Buffer buffer, std::size_t size);

}  // namespace shoal::outer_opt
