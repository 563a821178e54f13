// See frame_message.h.
#include "outer_opt/transport/frame_message.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "wire/stream/core/frame.h"

namespace shoal::outer_opt {
namespace {

template <typename Bytes>
std::vector<std::byte> head_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

OutgoingMessage reference_to(FrameHeader header, std::span<const std::byte> payload,
                             Buffer buffer) {
  header.cross_memory = true;
  auto head = head_of(encode_reference({std::bit_cast<std::uintptr_t>(payload.data()), header}));
  const std::size_t size = message_size(head.size(), 0) + payload.size();
  return {std::move(head), {}, std::move(buffer), size};
}

OutgoingMessage with_body(const FrameHeader& header, std::span<const std::byte> body,
                          Buffer buffer) {
  auto head = head_of(encode_header(header));
  const std::size_t size = message_size(head.size(), body.size());
  return {std::move(head), body, std::move(buffer), size};
}

// Nothing when that makes the payload no smaller: then the buffer is still there.
std::optional<OutgoingMessage> entropy_coded(FrameHeader header, std::span<const std::byte> payload,
                                             EntropyCoder& coder, Buffer& buffer) {
  buffer = enlarged(std::move(buffer), payload.size());
  const std::size_t used =
      coder.encode(header.codec, payload, std::span(buffer).first(payload.size()));
  if (used == 0) return std::nullopt;
  header.entropy_coded = true;
  const auto body = std::span(std::as_const(buffer)).first(used);
  return with_body(header, body, std::move(buffer));
}

OutgoingMessage encoded(const ReduceSession& session, const FrameRef& frame, SendTerms terms,
                        Buffer buffer) {
  const std::size_t size = session.payload_size(frame);
  buffer = enlarged(std::move(buffer), size);
  const auto payload = std::span(buffer).first(size);
  session.encode(frame, payload);
  FrameHeader header = session.header(frame, payload);
  header.cross_memory = terms.cross_memory;
  if (terms.coder != nullptr) {
    Buffer smaller;
    if (auto coded = entropy_coded(header, payload, *terms.coder, smaller))
      return *std::move(coded);
  }
  return with_body(header, payload, std::move(buffer));
}

}  // namespace

std::size_t message_size(std::size_t head, std::size_t body) {
  using wire::stream::kHeaderBytes, wire::stream::kPieceBytes;
  const std::size_t pieces = body == 0 ? 1 : (body - 1) / kPieceBytes + 1;
  return pieces * (kHeaderBytes + head) + body;
}

Buffer enlarged(Buffer buffer, std::size_t size) {
  if (buffer.size() >= size) return buffer;
  buffer.clear();  // nothing of it is to be copied
  buffer.resize(size);
  return buffer;
}

OutgoingMessage message_of(const ReduceSession& session, const FrameRef& frame, SendTerms terms,
                           Buffer buffer) {
  const auto resident = session.resident(frame);
  if (resident.empty()) return encoded(session, frame, terms, std::move(buffer));
  if (terms.cross_memory) {
    return reference_to(session.header(frame, resident, true), resident, std::move(buffer));
  }
  const FrameHeader header = session.header(frame, resident);
  if (terms.coder != nullptr) {
    if (auto coded = entropy_coded(header, resident, *terms.coder, buffer)) {
      return *std::move(coded);
    }
  }
  return with_body(header, resident, std::move(buffer));
}

Result<ReceivedFrame> ReceivedFrame::read(std::span<const std::byte> head, std::size_t body,
                                          FrameKind kind) {
  ReceivedFrame frame;
  frame.head_size_ = head.size();
  frame.body_size_ = body;
  if (is_reference(head)) {
    const auto reference = decode_reference(head);
    if (!reference.ok()) return reference.error();
    frame.header_ = reference->header;
    frame.address_ = reference->address;
  } else {
    const auto header = decode_header(head);
    if (!header.ok()) return header.error();
    frame.header_ = *header;
  }
  const FrameHeader& header = frame.header_;
  if (header.kind != kind) {
    return Error{Code::kInvalidArgument, "a frame that runs against its stream"};
  }
  const bool fits = header.by_reference    ? body == 0
                    : header.entropy_coded ? body > 0 && body <= header.payload_size
                                           : body == header.payload_size;
  if (!fits) return Error{Code::kInvalidArgument, "a payload of another size than its header says"};
  return frame;
}

std::size_t ReceivedFrame::size() const {
  return message_size(head_size_, body_size_) + (header_.by_reference ? header_.payload_size : 0);
}

Status ReceivedFrame::fetch(const wire::PeerMemory& memory, Buffer buffer) {
  return memory.read(address_, keep(std::move(buffer)));
}

Status ReceivedFrame::expand(EntropyCoder& coder, Buffer buffer) {
  const std::span<const std::byte> pieces[] = {std::span(body_).first(body_size_)};
  return coder.decode(header_.codec, pieces, keep(std::move(buffer)));
}

// Room for the payload.
std::span<std::byte> ReceivedFrame::keep(Buffer buffer) {
  payload_ = enlarged(std::move(buffer), header_.payload_size);
  return std::span(*payload_).first(header_.payload_size);
}

std::vector<Buffer> ReceivedFrame::give_back() {
  std::vector<Buffer> buffers;
  if (!body_.empty()) buffers.push_back(std::move(body_));
  if (payload_) buffers.push_back(*std::exchange(payload_, std::nullopt));
  return buffers;
}

std::span<const std::byte> ReceivedFrame::payload() const {
  return std::span(payload_ ? *payload_ : body_).first(header_.payload_size);
}

}  // namespace shoal::outer_opt
