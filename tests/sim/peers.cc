// Paths between trainers: see peers.h.
#include "tests/sim/peers.h"

#include <algorithm>

#include "tests/sim/bits.h"

namespace shoal::sim {

PeerEnd* PeerNetwork::find(const std::string& address) const {
  for (PeerEnd* end : ends_) {
    if (end->alive() && end->address() == address) return end;
  }
  return nullptr;
}

Duration PeerNetwork::draw_delay(int a, int b) {
  const double mean = sim_.options.peer_delay.seconds();
  std::int64_t factor = 1;
  for (const int host : {a, b}) {
    const auto it = slow_until_.find(host);
    if (it != slow_until_.end() && sim_.now() < it->second.first)
      factor = std::max<std::int64_t>(factor, it->second.second);
  }
  return seconds_f(0.3 * mean + prng_.exponential(0.7 * mean)) * factor;
}

Instant PeerNetwork::blocked_until(int from, int to) const {
  const auto it = blocked_until_.find({from, to});
  return it == blocked_until_.end() ? Instant{} : it->second;
}

Instant PeerNetwork::slot(const Path& path, Duration delay) {
  Instant& last = last_[path];
  last = std::max(last, sim_.now() + delay);
  return last;
}

void PeerNetwork::arrive(PeerEnd* from, const std::string& to, int host, std::uint64_t epoch,
                         Path path, std::function<void(PeerEnd&)> work) {
  if (epochs_[path] != epoch) return;  // the path broke meanwhile
  PeerEnd* end = find(to);
  if (end == nullptr) return;
  const std::pair hosts(from->host(), host);
  if (blocked(hosts.first, host) || held_.contains(hosts)) {
    held_[hosts].push_back([this, from, to, host, epoch, path, work = std::move(work)] {
      arrive(from, to, host, epoch, path, work);
    });
    return sim_.queue.at(blocked_until(hosts.first, host),
                         [this, hosts] { release(hosts.first, hosts.second); });
  }
  end->deliver([end, work = std::move(work)] { work(*end); });
}

// Later if the partition was extended meanwhile.
void PeerNetwork::release(int from, int to) {
  const auto held = held_.find({from, to});
  if (held == held_.end()) return;
  if (blocked(from, to)) {
    return sim_.queue.at(blocked_until(from, to), [this, from, to] { release(from, to); });
  }
  const std::deque<std::function<void()>> all = std::move(held->second);
  held_.erase(held);
  for (const auto& arrives : all) arrives();
}

void PeerNetwork::hang_up(PeerEnd& from, const std::string& to,
                          std::function<void(PeerEnd&)> work) {
  PeerEnd* end = find(to);
  if (end == nullptr) return;
  const Path path{from.address(), to};
  const Instant at = slot(path, draw_delay(from.host(), end->host()));
  sim_.queue.at(at, [this, f = &from, to, host = end->host(), epoch = epochs_[path], path,
                     work = std::move(work)] { arrive(f, to, host, epoch, path, work); });
}

void PeerNetwork::maybe_flip(PeerEnd& from, PeerFrame& frame) {
  if (!sim_.faults_on || frame.payload.empty() || flips_.erase(from.host()) == 0) return;
  sim_.strike(Fault::kFlippedFrame, "of " + from.address());
  flip_bit(std::span<std::byte>(frame.payload), prng_.next());
}

void PeerNetwork::send(PeerEnd& from, const std::string& to, PeerFrame frame) {
  maybe_flip(from, frame);
  hang_up(from, to, [frame = std::move(frame)](PeerEnd& end) { end.take_frame(frame); });
}

void PeerNetwork::call(PeerEnd& from, const std::string& to, std::function<void(PeerEnd&)> work,
                       std::function<void()> failed) {
  PeerEnd* end = find(to);
  const bool out = end == nullptr || cut_off(from.host(), end->host());
  const Duration delay = end == nullptr ? sim_.options.peer_delay : sim_.options.keepalive;
  if (out)
    return sim_.queue.after(delay, [f = &from, failed = std::move(failed)] { f->deliver(failed); });
  hang_up(from, to, std::move(work));
}

void PeerNetwork::watch(PeerEnd& from, const std::string& to) {
  PeerEnd* end = find(to);
  const bool gone = end == nullptr;
  const Duration delay = gone ? sim_.options.peer_delay : sim_.options.keepalive;
  sim_.queue.after(delay, [this, f = &from, mine = from.address(), to] {
    if (!f->alive() || f->address() != mine) return;
    PeerEnd* other = find(to);
    if (other != nullptr && !other->frozen() && !cut_off(f->host(), other->host())) return;
    f->deliver([f, to] { f->peer_lost(to, "unreachable"); });
  });
}

void PeerNetwork::died(const std::string& address, int host) {
  for (PeerEnd* end : ends_) {
    if (!end->alive() || end->address() == address) continue;
    const Duration delay =
        cut_off(host, end->host()) ? sim_.options.keepalive : draw_delay(host, end->host());
    sim_.queue.after(delay, [end, mine = end->address(), address] {
      if (!end->alive() || end->address() != mine) return;
      end->deliver([end, address] { end->peer_lost(address, "connection reset"); });
    });
  }
}

void PeerNetwork::froze(PeerEnd& end) {
  sim_.queue.after(sim_.options.keepalive, [this, e = &end, address = end.address()] {
    if (!e->alive() || !e->frozen() || e->address() != address) return;
    for (PeerEnd* other : ends_) {
      if (other != e && other->alive()) break_paths(*e, *other);
    }
  });
}

void PeerNetwork::break_paths(PeerEnd& a, PeerEnd& b) {
  const std::string at_a = a.address(), at_b = b.address();
  ++epochs_[{at_a, at_b}];
  ++epochs_[{at_b, at_a}];
  a.deliver([&a, at_b] { a.peer_lost(at_b, "the path broke"); });
  b.deliver([&b, at_a] { b.peer_lost(at_a, "the path broke"); });
}

void PeerNetwork::partition(int host_a, int host_b, Duration length) {
  Instant& back = blocked_until_[{host_b, host_a}];
  back = std::max(back, sim_.now() + length);
  cut(host_a, host_b, length);
}

// What is sent is not acknowledged, so both ends find the path broken after the keep-alive.
void PeerNetwork::cut(int from, int to, Duration length) {
  Instant& until = blocked_until_[{from, to}];
  until = std::max(until, sim_.now() + length);
  sim_.queue.after(sim_.options.keepalive, [this, from, to] {
    if (blocked(from, to)) break_if_cut(from, to);
  });
}

void PeerNetwork::break_if_cut(int host_a, int host_b) {
  for (PeerEnd* a : ends_) {
    for (PeerEnd* b : ends_) {
      const bool across = a->host() == host_a && b->host() == host_b;
      if (across && a->alive() && b->alive()) break_paths(*a, *b);
    }
  }
}

void PeerNetwork::slow(int host, Duration length, int factor) {
  slow_until_[host] = {sim_.now() + length, factor};
}

void PeerNetwork::heal() {
  for (auto& [pair, until] : blocked_until_) until = sim_.now();
  slow_until_.clear();
  for (const auto& [hosts, held] : held_) {  // what was held up goes now
    sim_.queue.at(sim_.now(), [this, hosts = hosts] { release(hosts.first, hosts.second); });
  }
}

}  // namespace shoal::sim
