#include "outer_opt/transport/frame_message.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include <grpc/slice.h>

namespace shoal::outer_opt {
namespace {

OutgoingMessage reference_to(FrameHeader header, std::span<const std::byte> payload) {
  header.cross_memory = true;
  const auto reference = encode_reference({std::bit_cast<std::uintptr_t>(payload.data()), header});
  const grpc::Slice slice(reference.data(), reference.size());
  return {grpc::ByteBuffer(&slice, 1), reference.size() + kFramingSize + payload.size()};
}

// A message under construction: room for the header, then for `payload` bytes.
class Draft {
 public:
  explicit Draft(std::size_t payload) : slice_(grpc_slice_malloc(kFrameHeaderSize + payload)) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() { grpc_slice_unref(slice_); }
  std::span<std::byte> payload() { return bytes().subspan(kFrameHeaderSize); }

  // With the first `used` bytes of the payload.
  OutgoingMessage finish(const FrameHeader& header, std::size_t used) {
    std::ranges::copy(encode_header(header), bytes().begin());
    const std::size_t size = kFrameHeaderSize + used;
    const grpc::Slice slice(grpc_slice_sub(slice_, 0, size), grpc::Slice::STEAL_REF);
    return {grpc::ByteBuffer(&slice, 1), size + kFramingSize};
  }

 private:
  std::span<std::byte> bytes() {
    return std::as_writable_bytes(
        std::span(GRPC_SLICE_START_PTR(slice_), GRPC_SLICE_LENGTH(slice_)));
  }
  grpc_slice slice_;
};

// Nothing when that makes the payload no smaller.
std::optional<OutgoingMessage> entropy_coded(FrameHeader header, std::span<const std::byte> payload,
                                             EntropyCoder& coder) {
  Draft draft(payload.size());
  const std::size_t used = coder.encode(header.codec, payload, draft.payload());
  if (used == 0) return std::nullopt;
  header.entropy_coded = true;
  return draft.finish(header, used);
}

OutgoingMessage encoded(const ReduceSession& session, const FrameRef& frame, SendTerms terms) {
  Draft draft(session.payload_size(frame));
  session.encode(frame, draft.payload());
  FrameHeader header = session.header(frame, draft.payload());
  header.cross_memory = terms.cross_memory;
  if (terms.coder != nullptr) {
    if (auto smaller = entropy_coded(header, draft.payload(), *terms.coder)) return *smaller;
  }
  return draft.finish(header, draft.payload().size());
}

}  // namespace

OutgoingMessage message_of(const ReduceSession& session, const FrameRef& frame, SendTerms terms,
                           wire::SlicePins& pins) {
  const auto resident = session.resident(frame);
  if (resident.empty()) return encoded(session, frame, terms);
  if (terms.cross_memory) return reference_to(session.header(frame, resident, true), resident);
  const FrameHeader header = session.header(frame, resident);
  if (terms.coder != nullptr) {
    if (auto smaller = entropy_coded(header, resident, *terms.coder)) return *smaller;
  }
  const auto front = encode_header(header);
  const grpc::Slice slices[] = {grpc::Slice(front.data(), front.size()), pins.pin(resident)};
  return {grpc::ByteBuffer(slices, 2), front.size() + resident.size() + kFramingSize};
}

Result<ReceivedFrame> ReceivedFrame::read(const grpc::ByteBuffer& message, FrameKind kind) {
  ReceivedFrame frame;
  if (!frame.message_.take(message) || frame.message_.size() < kFrameHeaderSize) {
    return Error{Code::kInvalidArgument, "a message shorter than a frame header"};
  }
  std::array<std::byte, kReferenceSize> bytes;
  const auto front = std::span(bytes).first(std::min(frame.message_.size(), bytes.size()));
  frame.message_.copy_front(front);
  if (is_reference(front)) {
    const auto reference = decode_reference(front);
    if (!reference.ok()) return reference.error();
    if (frame.message_.size() != kReferenceSize) {
      return Error{Code::kInvalidArgument, "a reference that a payload follows"};
    }
    frame.header_ = reference->header;
    frame.address_ = reference->address;
  } else {
    const auto header = decode_header(front.first(kFrameHeaderSize));
    if (!header.ok()) return header.error();
    frame.header_ = *header;
  }
  if (frame.header_.kind != kind) {
    return Error{Code::kInvalidArgument, "a frame that runs against its stream"};
  }
  return frame;
}

std::size_t ReceivedFrame::size() const {
  return message_.size() + kFramingSize + (header_.by_reference ? header_.payload_size : 0);
}

Status ReceivedFrame::fetch(const wire::PeerMemory& memory, std::vector<std::byte> buffer) {
  return memory.read(address_, keep(std::move(buffer)));
}

Status ReceivedFrame::expand(EntropyCoder& coder, std::vector<std::byte> buffer) {
  return coder.decode(header_.codec, message_.pieces(kFrameHeaderSize), keep(std::move(buffer)));
}

// Room for the payload.
std::span<std::byte> ReceivedFrame::keep(std::vector<std::byte> buffer) {
  if (buffer.size() < header_.payload_size) buffer.resize(header_.payload_size);
  buffer_ = std::move(buffer);
  return std::span(buffer_).first(header_.payload_size);
}

std::vector<std::span<const std::byte>> ReceivedFrame::payload() const {
  if (!header_.by_reference && !header_.entropy_coded) return message_.pieces(kFrameHeaderSize);
  return {std::span(buffer_).first(header_.payload_size)};
}

}  // namespace shoal::outer_opt
