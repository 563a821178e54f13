// Streams, delays, partitions and repetitions: see network.h.
#include "tests/sim/network.h"

#include <algorithm>

#include "tests/sim/describe.h"

namespace shoal::sim {

using coordinator::ConnectionId;

namespace {
constexpr std::size_t kTail = 3;
constexpr Duration kBacklog = milliseconds(200);  // how often a dial looks for an answer
const Error kBroken{Code::kUnavailable, "the stream broke", "", ""};
}  // namespace

Duration Network::draw_delay() {
  const double mean = sim_.options.link_delay.seconds();
  Duration delay = seconds_f(0.3 * mean + prng_.exponential(0.7 * mean));
  if (sim_.faults_on && prng_.chance(sim_.options.tail_probability)) {
    delay = delay + Duration{prng_.range(0, sim_.options.tail.ns)};
    sim_.faults.count(Fault::kMessageDelay);
  }
  return delay;
}

void Network::after(Duration delay, AgentEnd& end, std::function<void()> run) {
  sim_.queue.after(delay, [&end, life = end.life(), run = std::move(run)] {
    if (end.life() == life) run();
  });
}

bool Network::blocked_up(int host) const {
  const auto it = up_blocked_until_.find(host);
  return it != up_blocked_until_.end() && sim_.now() < it->second;
}

bool Network::blocked_down(int host) const {
  const auto it = down_blocked_until_.find(host);
  return it != down_blocked_until_.end() && sim_.now() < it->second;
}

Network::Stream* Network::of(AgentEnd& end, agent::LinkId link) {
  for (auto& [id, stream] : streams_) {
    if (stream.end == &end && stream.link == link && !stream.closing) return &stream;
  }
  return nullptr;
}

int Network::host_of(ConnectionId connection) const {
  const auto it = streams_.find(connection.n);
  return it == streams_.end() ? -1 : it->second.end->host();
}

Duration Network::settled() const { return sim_.options.tail * 2 + seconds(5); }

bool Network::heard(int host) const {
  const auto it = connected_at_.find(host);
  const bool connected = std::ranges::any_of(streams_, [host](const auto& entry) {
    return entry.second.end->host() == host && !entry.second.closing;
  });
  return connected && it != connected_at_.end() && sim_.now() - it->second >= settled();
}

Instant Network::out_since(int host) const {
  const auto at = [host](const std::map<int, Instant>& times) {
    const auto it = times.find(host);
    return it == times.end() ? kStart : it->second;
  };
  const bool connected = std::ranges::any_of(streams_, [host](const auto& entry) {
    return entry.second.end->host() == host && !entry.second.closing;
  });
  if (!blocked(host)) return heard(host) ? Instant() : at(lost_at_);
  return connected ? at(cut_at_) : std::min(at(cut_at_), at(lost_at_));
}

// ---- opening

void Network::dial(AgentEnd& end, agent::LinkId link, const Hello& hello) {
  dials_.emplace(end.host(), link);
  after(draw_delay() * 2, end, [this, &end, link, hello] { establish(end, link, hello); });
}

void Network::forget_dials(int host) {
  std::erase_if(dials_, [host](const auto& dial) { return dial.first == host; });
}

void Network::establish(AgentEnd& end, agent::LinkId link, const Hello& hello) {
  if (!dials_.contains({end.host(), link})) return;  // given up
  if (coordinator_->stopped() && !blocked(end.host())) {
    return after(kBacklog, end, [this, &end, link, hello] { establish(end, link, hello); });
  }
  dials_.erase({end.host(), link});
  if (!coordinator_->reachable() || blocked(end.host())) {
    return end.link_down(link, {Code::kUnavailable, "cannot reach the coordinator", "", ""});
  }
  Stream& stream = streams_[++last_id_];
  stream.id = ConnectionId{last_id_};
  stream.end = &end;
  stream.link = link;
  stream.up.last = stream.down.last = connected_at_[end.host()] = sim_.now();
  end.link_up(link);
  push_up(stream, hello);
}

// ---- up

void Network::send_up(AgentEnd& end, agent::LinkId link, const FromAgent& message) {
  if (Stream* stream = of(end, link)) push_up(*stream, message);
}

void Network::push_up(Stream& stream, Up message) {
  stream.up.last = std::max(stream.up.last, sim_.now() + draw_delay());
  stream.up.items.push_back({std::move(message), sim_.now()});
  sim_.queue.at(stream.up.last, [this, id = stream.id.n] { deliver_up(id); });
}

void Network::deliver_up(std::uint64_t id) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  Stream& stream = it->second;
  if (stream.up.items.empty()) return;  // it went when the line healed
  if (blocked_up(stream.end->host())) {
    return sim_.queue.at(up_blocked_until_[stream.end->host()], [this, id] { deliver_up(id); });
  }
  auto item = std::move(stream.up.items.front());
  stream.up.items.pop_front();
  if (item.sent_at < newest_sent_ && newest_stream_ != id) sim_.faults.count(Fault::kReorder);
  if (item.sent_at > newest_sent_) newest_sent_ = item.sent_at, newest_stream_ = id;
  hand_up(stream, item.message);
  if (!streams_.contains(id)) return;
  if (stream.closing && stream.up.items.empty()) drop(id, false, true, "closed by the agent");
}

void Network::hand_up(Stream& stream, const Up& message) {
  const ConnectionId connection = stream.id;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    coordinator_->agent_hello(connection, *hello);
    return replay_tail(stream);
  }
  const FromAgent& said = std::get<FromAgent>(message);
  const bool spoken =
      !std::holds_alternative<Heartbeat>(said) && !std::holds_alternative<Progress>(said) &&
      !std::holds_alternative<PipelineStats>(said) && !std::holds_alternative<Goodbye>(said);
  coordinator_->agent_said(connection, said);
  if (!spoken) return;
  auto& tail = tails_[stream.end->host()];
  tail.push_back(said);
  if (tail.size() > kTail) tail.pop_front();
  if (sim_.faults_on && prng_.chance(sim_.options.duplicate_probability) &&
      streams_.contains(connection.n)) {
    sim_.strike(Fault::kDuplicate, "from host " + std::to_string(stream.end->host()));
    coordinator_->agent_said(connection, said);
  }
}

void Network::replay_tail(Stream& stream) {
  auto& tail = tails_[stream.end->host()];
  if (!sim_.faults_on || sim_.options.duplicate_probability == 0 || !prng_.chance(0.3)) return;
  const ConnectionId connection = stream.id;
  for (const FromAgent& said : std::deque<FromAgent>(tail)) {
    if (!streams_.contains(connection.n)) return;
    sim_.strike(Fault::kDuplicate, "again over a new stream");
    coordinator_->agent_said(connection, said);
  }
}

// ---- down

void Network::send_down(ConnectionId connection, const ToAgent& message) {
  const auto it = streams_.find(connection.n);
  if (it == streams_.end()) return;
  auto& lane = it->second.down;
  lane.last = std::max(lane.last, sim_.now() + draw_delay());
  lane.items.push_back({message, sim_.now()});
  sim_.queue.at(lane.last, [this, id = connection.n] { deliver_down(id); });
}

void Network::deliver_down(std::uint64_t id) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  Stream& stream = it->second;
  if (stream.down.items.empty()) return;
  if (blocked_down(stream.end->host())) {
    return sim_.queue.at(down_blocked_until_[stream.end->host()], [this, id] { deliver_down(id); });
  }
  const ToAgent message = std::move(stream.down.items.front().message);
  stream.down.items.pop_front();
  AgentEnd& end = *stream.end;
  const agent::LinkId link = stream.link;
  end.coordinator_said(link, message);
  const bool once =
      std::holds_alternative<Welcome>(message) || std::holds_alternative<Refused>(message);
  if (!once && sim_.faults_on && prng_.chance(sim_.options.duplicate_probability)) {
    sim_.strike(Fault::kDuplicate, "to host " + std::to_string(end.host()));
    end.coordinator_said(link, message);
  }
}

// ---- ends

void Network::drop(std::uint64_t id, bool tell_agent, bool tell_coordinator, const char* why) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  AgentEnd* end = it->second.end;
  const agent::LinkId link = it->second.link;
  const bool was_heard = heard(end->host());
  streams_.erase(it);
  if (was_heard)
    lost_at_[end->host()] = blocked(end->host()) ? cut_at_.at(end->host()) : sim_.now();
  sim_.log("stream " + std::to_string(id) + " of host " + std::to_string(end->host()) +
           " ends: " + why);
  if (tell_agent) {
    after(draw_delay(), *end, [end, link] { end->link_down(link, kBroken); });
  }
  if (tell_coordinator) {
    sim_.queue.after(draw_delay(), [this, id] { coordinator_->agent_hung_up(ConnectionId{id}); });
  }
}

void Network::close_by_agent(AgentEnd& end, agent::LinkId link) {
  dials_.erase({end.host(), link});
  Stream* stream = of(end, link);
  if (stream == nullptr) return;
  if (stream->up.items.empty()) return drop(stream->id.n, false, true, "closed by the agent");
  stream->closing = true;
}

void Network::agent_died(AgentEnd& end) {
  forget_dials(end.host());
  std::vector<std::uint64_t> ids;
  for (const auto& [id, stream] : streams_) {
    if (stream.end == &end) ids.push_back(id);
  }
  for (const std::uint64_t id : ids) drop(id, false, true, "the agent died");
}

void Network::close_by_coordinator(ConnectionId connection) {
  // What was sent before is flushed first.
  const auto it = streams_.find(connection.n);
  if (it == streams_.end()) return;
  const Instant flushed = std::max(it->second.down.last, sim_.now());
  sim_.queue.at(
      flushed, [this, connection] { drop(connection.n, true, true, "closed by the coordinator"); });
}

void Network::coordinator_died() {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, stream] : streams_) ids.push_back(id);
  for (const std::uint64_t id : ids) drop(id, true, false, "the coordinator died");
}

void Network::coordinator_stopped() {
  for (const auto& [id, stream] : streams_) {
    sim_.queue.after(sim_.options.keepalive, [this, id = id] {
      if (coordinator_->stopped()) drop(id, true, true, "keep-alive");
    });
  }
}

// ---- faults

bool Network::break_stream(int host) {
  for (const auto& [id, stream] : streams_) {
    if (stream.end->host() != host) continue;
    sim_.strike(Fault::kStreamLoss, "of host " + std::to_string(host));
    drop(id, true, true, "lost");
    return true;
  }
  return false;
}

void Network::partition(int host, bool up, bool down, Duration length) {
  if (!blocked(host)) cut_at_[host] = sim_.now();
  const Instant until = sim_.now() + length;
  if (up) up_blocked_until_[host] = std::max(up_blocked_until_[host], until);
  if (down) down_blocked_until_[host] = std::max(down_blocked_until_[host], until);
  for (const auto& [id, stream] : streams_) {
    if (stream.end->host() != host) continue;
    sim_.queue.after(sim_.options.keepalive, [this, id = id, host] {
      if (blocked(host)) drop(id, true, true, "keep-alive");
    });
  }
}

void Network::heal() {
  for (auto& [host, until] : up_blocked_until_) until = sim_.now();
  for (auto& [host, until] : down_blocked_until_) until = sim_.now();
  for (const auto& [id, stream] : streams_) {  // what was held up goes now
    for (std::size_t i = 0; i < stream.up.items.size(); ++i) {
      sim_.queue.at(sim_.now(), [this, id = id] { deliver_up(id); });
    }
    for (std::size_t i = 0; i < stream.down.items.size(); ++i) {
      sim_.queue.at(sim_.now(), [this, id = id] { deliver_down(id); });
    }
  }
}

}  // namespace shoal::sim
