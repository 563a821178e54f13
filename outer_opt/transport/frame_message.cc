#include "outer_opt/transport/frame_message.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <grpc/slice.h>

namespace shoal::outer_opt {
namespace {

OutgoingMessage loan_of(FrameHeader header, std::span<const std::byte> payload) {
  header.borrows = true;
  const auto loan = encode_loan({std::bit_cast<std::uintptr_t>(payload.data()), header});
  const grpc::Slice slice(loan.data(), loan.size());
  return {grpc::ByteBuffer(&slice, 1), loan.size() + kFramingSize + payload.size()};
}

OutgoingMessage encoded(const ReduceSession& session, const FrameRef& frame, bool borrows) {
  grpc_slice raw = grpc_slice_malloc(kFrameHeaderSize + session.payload_size(frame));
  const auto bytes =
      std::as_writable_bytes(std::span(GRPC_SLICE_START_PTR(raw), GRPC_SLICE_LENGTH(raw)));
  const auto payload = bytes.subspan(kFrameHeaderSize);
  session.encode(frame, payload);
  FrameHeader header = session.header(frame, payload);
  header.borrows = borrows;
  std::ranges::copy(encode_header(header), bytes.begin());
  const grpc::Slice slice(raw, grpc::Slice::STEAL_REF);
  return {grpc::ByteBuffer(&slice, 1), bytes.size() + kFramingSize};
}

}  // namespace

OutgoingMessage message_of(const ReduceSession& session, const FrameRef& frame, bool borrow,
                           wire::Lender& lender) {
  const auto resident = session.resident(frame);
  if (resident.empty()) return encoded(session, frame, borrow);
  if (borrow) return loan_of(session.header(frame, resident, true), resident);
  const auto header = encode_header(session.header(frame, resident));
  const grpc::Slice slices[] = {grpc::Slice(header.data(), header.size()), lender.lend(resident)};
  return {grpc::ByteBuffer(slices, 2), header.size() + resident.size() + kFramingSize};
}

Result<ReceivedFrame> ReceivedFrame::read(const grpc::ByteBuffer& message, FrameKind kind) {
  ReceivedFrame frame;
  if (!frame.message_.take(message) || frame.message_.size() < kFrameHeaderSize) {
    return Error{Code::kInvalidArgument, "a message shorter than a frame header"};
  }
  std::array<std::byte, kLoanSize> bytes;
  const auto front = std::span(bytes).first(std::min(frame.message_.size(), bytes.size()));
  frame.message_.copy_front(front);
  if (is_loan(front)) {
    const auto loan = decode_loan(front);
    if (!loan.ok()) return loan.error();
    if (frame.message_.size() != kLoanSize) {
      return Error{Code::kInvalidArgument, "a loan that a payload follows"};
    }
    frame.header_ = loan->header;
    frame.lent_at_ = loan->address;
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
  return message_.size() + kFramingSize + (header_.lent ? header_.payload_size : 0);
}

Status ReceivedFrame::fetch(const wire::BorrowedMemory& memory, std::vector<std::byte> buffer) {
  if (buffer.size() < header_.payload_size) buffer.resize(header_.payload_size);
  fetched_ = std::move(buffer);
  return memory.read(lent_at_, std::span(fetched_).first(header_.payload_size));
}

std::vector<std::span<const std::byte>> ReceivedFrame::payload() const {
  if (!header_.lent) return message_.pieces(kFrameHeaderSize);
  return {std::span(fetched_).first(header_.payload_size)};
}

}  // namespace shoal::outer_opt
