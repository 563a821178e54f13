// See outbox.h.
#include "wire/stream/core/outbox.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shoal::wire::stream {
namespace {

// The parts of `body` between two offsets.
void cut_out(const std::vector<std::span<const std::byte>>& body, std::size_t begin,
             std::size_t length, std::vector<std::span<const std::byte>>& out) {
  for (const auto& part : body) {
    if (length == 0) return;
    if (begin >= part.size()) {
      begin -= part.size();
      continue;
    }
    const std::size_t taken = std::min(length, part.size() - begin);
    out.push_back(part.subspan(begin, taken));
    begin = 0;
    length -= taken;
  }
}

}  // namespace

std::vector<std::span<const std::byte>> OutFrame::payload() const {
  std::vector<std::span<const std::byte>> parts;
  if (!message) return words.empty() ? parts : std::vector{std::span<const std::byte>(words)};
  if (header.head > 0) parts.emplace_back(message->message.head);
  cut_out(message->message.body, header.offset, header.body(), parts);
  return parts;
}

void Outbox::add(StreamId stream, std::uint32_t credit, bool known_to_peer) {
  Queue& queue = queues_[stream];
  queue.credit = credit;
  queue.known_to_peer = known_to_peer;
}

void Outbox::peer_knows(StreamId stream) {
  const auto found = queues_.find(stream);
  if (found != queues_.end()) found->second.known_to_peer = true;
}

void Outbox::finish(Sending& sending, bool sent) {
  if (sending.message.done) std::exchange(sending.message.done, nullptr)(sent);
}

void Outbox::remove(StreamId stream) {
  const auto found = queues_.find(stream);
  if (found == queues_.end()) return;
  const Queue gone = std::move(found->second);
  queues_.erase(found);
  for (const auto& sending : gone.messages) {
    sending->dropped = true;
    if (sending->held == 0) finish(*sending, false);
  }
}

Status Outbox::send(StreamId stream, OutMessage message) {
  Queue& queue = queues_.at(stream);
  if (queue.messages.size() >= queue_max_) {
    return Error{Code::kResourceExhausted,
                 std::to_string(queue_max_) + " messages of the stream wait already", "",
                 "wait until one is done"};
  }
  auto sending = std::make_shared<Sending>();
  sending->size = static_cast<std::uint32_t>(message.size());
  sending->number = queue.sent++;
  sending->message = std::move(message);
  queue.messages.push_back(std::move(sending));
  return {};
}

Status Outbox::add_credit(StreamId stream, std::uint32_t bytes) {
  const auto found = queues_.find(stream);
  if (found == queues_.end()) return {};  // it is over
  found->second.credit += bytes;
  if (found->second.credit <= kWindowMax) return {};
  return Error{Code::kInvalidArgument, "the peer grants more credit than a window has",
               "frame.size", "run the same version on both hosts"};
}

std::optional<std::uint32_t> Outbox::count_if_empty(StreamId stream) const {
  const auto found = queues_.find(stream);
  if (found == queues_.end() || !found->second.messages.empty()) return std::nullopt;
  return found->second.sent;
}

std::optional<OutFrame> Outbox::piece_of(StreamId stream, Queue& queue) {
  if (queue.messages.empty()) return std::nullopt;
  const std::shared_ptr<Sending> sending = queue.messages.front();
  const std::uint32_t body = piece_size(sending->size, sending->offset);
  const std::uint64_t cost = body + (sending->offset == 0 ? kMessageCost : 0);
  if (cost > queue.credit) return std::nullopt;
  queue.credit -= cost;
  OutFrame frame;
  const auto head = static_cast<std::uint16_t>(sending->message.head.size());
  frame.header = {FrameType::kData, head,          head + body,    stream,
                  sending->number,  sending->size, sending->offset};
  frame.message = sending;
  sending->offset += body;
  ++sending->held;
  if (sending->offset == sending->size) queue.messages.pop_front();
  return frame;
}

std::optional<OutFrame> Outbox::next(bool first_lane) {
  auto at = queues_.upper_bound(last_);
  for (std::size_t i = 0; i < queues_.size(); ++i, ++at) {
    if (at == queues_.end()) at = queues_.begin();
    if (!first_lane && !at->second.known_to_peer) continue;
    if (auto frame = piece_of(at->first, at->second)) {
      last_ = at->first;
      return frame;
    }
  }
  return std::nullopt;
}

void Outbox::let_go(OutFrame& frame) {
  if (!frame.message) return;
  const std::shared_ptr<Sending> sending = std::exchange(frame.message, nullptr);
  --sending->held;
  const bool all = sending->offset == sending->size;
  if (sending->held == 0 && (all || sending->dropped)) finish(*sending, !sending->dropped);
}

}  // namespace shoal::wire::stream
