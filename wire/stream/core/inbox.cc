// See inbox.h.
#include "wire/stream/core/inbox.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shoal::wire::stream {
namespace {

Error broken(const char* field, const std::string& what) {
  return {Code::kInvalidArgument, "the peer " + what, std::string("frame.") + field,
          "run the same version on both hosts"};
}

std::uint64_t bit_of(const FrameHeader& header) {
  return std::uint64_t{1} << (header.offset / kPieceBytes);
}

std::uint64_t cost_of(const FrameHeader& header) {
  return header.body() + (header.offset == 0 ? kMessageCost : 0);
}

}  // namespace

bool Inbox::Incoming::complete() const {
  const std::uint32_t pieces = size == 0 ? 1 : (size - 1) / kPieceBytes + 1;
  const std::uint64_t all = pieces == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << pieces) - 1;
  return landed == all;
}

Status Inbox::check(const FrameHeader& header) const {
  if (header.message < next_ || (count_ && header.message >= *count_)) {
    return broken("message", "sends message " + std::to_string(header.message) + " once more");
  }
  if (header.message - next_ > window_ / kMessageCost) {
    return broken("message", "is " + std::to_string(header.message - next_) + " messages ahead");
  }
  if (used_ + cost_of(header) > window_) {
    return broken("size", "sends more than its window of " + std::to_string(window_) + " bytes");
  }
  return {};
}

Status Inbox::check_again(const Incoming& known, const FrameHeader& header,
                          std::span<const std::byte> head) const {
  if (known.size != header.size || !std::ranges::equal(known.head, head)) {
    return broken("size", "contradicts itself about message " + std::to_string(header.message));
  }
  if ((known.begun & bit_of(header)) != 0) {
    return broken("offset",
                  "sends a piece of message " + std::to_string(header.message) + " once more");
  }
  return {};
}

Result<std::optional<std::span<std::byte>>> Inbox::place(const FrameHeader& header,
                                                         std::span<const std::byte> head,
                                                         StreamEvents& events) {
  using Place = std::optional<std::span<std::byte>>;
  if (const Status good = check(header); !good) return good.error();
  auto known = messages_.find(header.message);
  if (known == messages_.end()) {
    const Place body = events.place(head, header.size);
    if (!body || body->size() != header.size) return Place();
    known = messages_.try_emplace(header.message).first;
    known->second = {header.size, {head.begin(), head.end()}, *body, 0, 0};
  } else if (const Status good = check_again(known->second, header, head); !good) {
    return good.error();
  }
  Incoming& message = known->second;
  message.begun |= bit_of(header);
  used_ += cost_of(header);
  return Place(message.body.subspan(header.offset, header.body()));
}

void Inbox::landed(const FrameHeader& header) {
  messages_.at(header.message).landed |= bit_of(header);
}

std::optional<Inbox::Message> Inbox::take() {
  const auto first = messages_.find(next_);
  if (first == messages_.end() || !first->second.complete()) return std::nullopt;
  Message message{std::move(first->second.head), first->second.body};
  messages_.erase(first);
  ++next_;
  with_user_ += message.body.size() + kMessageCost;
  return message;
}

Status Inbox::end_after(std::uint32_t count) {
  const bool has_more = !messages_.empty() && messages_.rbegin()->first >= count;
  if (count_ || count < next_ || has_more) {
    return broken("message", "ends a stream after " + std::to_string(count) +
                                 " messages, but had sent more or ended before");
  }
  count_ = count;
  return {};
}

std::uint32_t Inbox::release(std::size_t body) {
  const std::uint64_t cost = body + kMessageCost;
  SHOAL_CHECK(cost <= with_user_, "more was released than had arrived");
  with_user_ -= cost;
  used_ -= cost;
  owed_ += static_cast<std::uint32_t>(cost);
  if (owed_ < window_ / 4) return 0;
  return std::exchange(owed_, 0);
}

}  // namespace shoal::wire::stream
