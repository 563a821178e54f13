// See network.h.
#include "bench/line/core/network.h"

#include <algorithm>
#include <utility>

namespace shoal::bench {

Network::Network(const std::vector<HostLines>& hosts, std::uint64_t seed, Bytes held_max)
    : held_max_(held_max.count()) {
  for (const HostLines& host : hosts) {
    for (const LineOptions& options : {host.up, host.down}) {
      lines_.emplace_back(options, mix_seed(seed, lines_.size()));
    }
  }
}

std::size_t Network::index_of(int host, Direction direction) {
  return 2 * static_cast<std::size_t>(host) + (direction == Direction::kDown ? 1 : 0);
}

const Line& Network::line(int host, Direction direction) const {
  return lines_.at(index_of(host, direction));
}

void Network::set(int host, Direction direction, const LineOptions& options) {
  lines_.at(index_of(host, direction)).set(options);
}

bool Network::later(const Event& a, const Event& b) {
  return a.at != b.at ? a.at > b.at : a.order > b.order;
}

void Network::push(int to, bool arrives) {
  for (Passage& passage : passages_) {
    held_ += passage.train.bytes();
    events_.push_back({passage.at, order_++, to, arrives, std::move(passage.train)});
    std::push_heap(events_.begin(), events_.end(), later);
  }
  passages_.clear();
}

void Network::send(Instant now, int from, int to, Packet packet) {
  if (held_ + static_cast<std::int64_t>(packet.bytes.size()) > held_max_) {
    dropped_ += packet.segments;
    return;
  }
  lines_.at(index_of(from, Direction::kUp)).pass(now, whole(std::move(packet)), passages_);
  push(to, false);
}

std::optional<Instant> Network::next() const {
  return events_.empty() ? std::nullopt : std::optional(events_.front().at);
}

void Network::advance(Instant now, std::vector<Delivery>& out) {
  while (!events_.empty() && events_.front().at <= now) {
    std::pop_heap(events_.begin(), events_.end(), later);
    Event event = std::move(events_.back());
    events_.pop_back();
    held_ -= event.train.bytes();
    if (event.arrives) {
      out.push_back({event.at, event.to, std::move(event.train)});
      continue;
    }
    lines_.at(index_of(event.to, Direction::kDown)).pass(event.at, event.train, passages_);
    push(event.to, true);
  }
}

}  // namespace shoal::bench
