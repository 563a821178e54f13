#include "tests/sim/trainer/stage_driver.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/overloaded.h"

namespace shoal::sim {

using namespace swarm;

namespace {
constexpr Duration kAcceptLimit = seconds(5);  // a stream that is not accepted is dialed again
constexpr Duration kRedial = milliseconds(300);
constexpr Duration kTellEvery = seconds(1);
constexpr std::int64_t kBytesPerToken = 16;  // at a boundary: 8 values of bf16
}  // namespace

StageDriver::StageDriver(Sim& sim, PeerNetwork& peers, PeerEnd& self, Process& process,
                         StageOwner& owner, Send send, const SessionOptions& options,
                         const RoundKey& held, std::int64_t step)
    : sim_(sim),
      peers_(peers),
      self_(self),
      process_(process),
      owner_(owner),
      send_(std::move(send)),
      options_(options),
      epoch_(held.epoch),
      session_(options, held.round, step, sim.now()),
      told_at_(sim.now()) {}

void StageDriver::close() {
  closed_ = true;
  for (const auto& [peer, stream] : streams_) {
    send(stream.address, stream.number, StageFrame::Closed{});
  }
  streams_.clear();
}

// ---- calls of the session

void StageDriver::after(Duration delay, const std::function<void(StageDriver&)>& what) {
  process_.after(delay, [weak = weak_from_this(), what] {
    const auto self = weak.lock();
    if (self && !self->closed_) what(*self);
  });
}

// What a call leads to is done in order, also when doing it leads to another call.
void StageDriver::call(const Call& what) {
  SessionActions out;
  what(session_, out);
  todo_.insert(todo_.end(), out.begin(), out.end());
  if (!acting_) act_all();
}

void StageDriver::act_all() {
  const auto alive = shared_from_this();  // the owner may drop it on the way
  acting_ = true;
  while (!todo_.empty() && !closed_) {
    const SessionAction action = std::move(todo_.front());
    todo_.pop_front();
    act(action);
  }
  acting_ = false;
  if (closed_) return;
  compute();
  set_timer();
}

void StageDriver::set_timer() {
  const auto deadline = session_.next_deadline();
  if (!deadline || (timer_ > sim_.now() && timer_ <= *deadline)) return;
  timer_ = std::max(*deadline, sim_.now() + microseconds(1));
  after(timer_ - sim_.now(), [](StageDriver& self) {
    self.call([&](StageSession& s, SessionActions& out) { s.tick(self.sim_.now(), out); });
  });
}

void StageDriver::act(const SessionAction& action) {
  std::visit(
      Overloaded{
          [&](const SendForward& a) {
            LinkStats& line = traffic_[a.to];
            ++line.microbatches;
            line.sent += Bytes(kBytesPerToken * options_.microbatch * options_.context);
            send_to(a.to, StageFrame::Forward{a.header, first_of_.at(a.task)});
          },
          [&](const SendBackward& a) { send_to(a.to, a.header); },
          [&](const SendCancel& a) { send_to(a.to, StageFrame::Cancel{a.header}); },
          [&](const SendRefusal& a) {
            send_to(a.to, StageFrame::Refusal{a.header, a.reason});
          },
          [&](const SendGossip& a) { send_to(a.to, a.gossip); },
          [&](const Forget& a) { first_of_.erase(a.task); },
          [&](const TakeStep& a) { owner_.took_step(a); },
          [&](const ReachBoundary& a) {
            drawn_.clear();
            owner_.reached(a);
          },
          [&](const CameBack& a) { owner_.came_back(a.microbatch, drawn_.at(a.microbatch)); },
          [&](const EvaluationDone&) {},
          [&](const LogitsCame&) {},
          [&](const Dial& a) { dial(a); },
          [&](const CutOff&) { ++sim_.transitions["pipeline cut off"]; },
          [&](const GiveUp& a) { owner_.gave_up(a.detail); },
      },
      action);
}

void StageDriver::view(const PipelineView& view) {
  call([&](StageSession& s, SessionActions& out) { s.view(sim_.now(), view, out); });
}

void StageDriver::open(const OpenRound& round) {
  call([&](StageSession& s, SessionActions& out) { s.open(sim_.now(), round, out); });
}

void StageDriver::stop(bool at_once) {
  call([&](StageSession& s, SessionActions& out) {
    if (at_once) return s.stop(sim_.now(), out);
    if (router()) s.close(sim_.now(), out);
  });
}

void StageDriver::committed(RoundNumber round, std::int64_t step) {
  call([&](StageSession& s, SessionActions& out) { s.committed(sim_.now(), round, step, out); });
}

// ---- the device

void StageDriver::compute() {
  if (computing_) return;
  const std::int64_t counted = session_.stats().added_again;
  const auto pass = session_.next();
  if (!pass) return;
  computing_ = true;
  const bool again = session_.stats().added_again > counted;
  if (again) ++sim_.transitions["gradient added of what was sent again"];
  if (!pass->add) ++sim_.transitions["gradient answered and not added"];
  const auto known = first_of_.find(pass->task);
  std::int64_t first = known == first_of_.end() ? 0 : known->second;
  if (known == first_of_.end()) {
    first = owner_.draw(pass->microbatch);
    first_of_[pass->task] = drawn_[pass->microbatch] = first;
  }
  owner_.pass_begins(*pass);
  const Duration service = owner_.pass_time(pass->kind);
  after(service, [pass = *pass, first, again, service](StageDriver& self) {
    self.computed(pass, first, again, service);
  });
}

void StageDriver::computed(const Compute& pass, std::int64_t first, bool again, Duration service) {
  computing_ = false;
  busy_ = busy_ + service;
  const bool back = pass.kind != ComputeKind::kForward;
  if (back && (pass.add || sim_.misbehave(Bug::kAddsAgain))) {
    owner_.add_gradient(pass.microbatch, first, again);
  }
  const bool last = pass.kind == ComputeKind::kLast;
  const Tokens tokens(last ? options_.microbatch * options_.context : 0);
  const double loss = last ? static_cast<double>(tokens.count()) : 0;
  call([&](StageSession& s, SessionActions& out) {
    s.computed(sim_.now(), service, loss, tokens, out);
  });
  if (!closed_) tell_if_due();
}

// ---- what the coordinator hears of it

void StageDriver::tell() {
  after(kTellEvery, [](StageDriver& self) {
    self.due_to_tell_ = true;
    if (!self.computing_) self.tell_if_due();
    self.tell();
  });
}

void StageDriver::tell_if_due() {
  if (std::exchange(due_to_tell_, false)) owner_.told(stats());
}

PipelineStats StageDriver::stats() {
  const SessionStats counted = session_.stats();
  PipelineStats stats{.replica = options_.self,
                      .step = session_.step(),
                      .queued = counted.queued,
                      .in_flight = counted.in_flight,
                      .service = counted.service,
                      .microbatches = counted.microbatches,
                      .recomputed = counted.recomputed,
                      .dropped = counted.past + counted.unknown,
                      .added_again = counted.added_again};
  const Duration spent = sim_.now() - std::exchange(told_at_, sim_.now());
  const Duration busy = std::exchange(busy_, Duration{});
  if (spent.ns > 0) stats.busy = std::min(1.0, busy.seconds() / spent.seconds());
  for (auto& [peer, line] : traffic_) {
    const auto stream = streams_.find(peer);
    if (stream == streams_.end() || !stream->second.up) continue;
    line.to = peer;
    line.round_trip = sim_.options.peer_delay * 2;
    stats.links.push_back(line);
  }
  return stats;
}

// ---- streams

void StageDriver::dial(const Dial& dial) {
  wanted_.clear();
  for (const PipelineMember& member : dial.peers) wanted_[member.replica] = member.address;
  for (const auto& [peer, address] : wanted_) dial_one(peer);
}

void StageDriver::dial_one(ReplicaId peer) {
  const auto wanted = wanted_.find(peer);
  if (wanted == wanted_.end() || streams_.contains(peer)) return;
  const std::uint64_t number = options_.self.n << 32 | ++numbers_;
  const std::string address = wanted->second;
  streams_[peer] = {address, number, false};
  const StageFrame hello{options_.self, self_.address(), number, StageFrame::Dialed{peer, epoch_}};
  peers_.call(
      self_, address, [send = send_, hello](PeerEnd& end) { send(end, hello); }, [] {});
  after(kAcceptLimit, [peer, number](StageDriver& self) {
    const auto it = self.streams_.find(peer);
    if (it == self.streams_.end() || it->second.number != number || it->second.up) return;
    self.streams_.erase(it);
    self.dial_one(peer);
  });
}

void StageDriver::dialed(const StageFrame& frame, const StageFrame::Dialed& ask) {
  if (ask.to != options_.self || ask.epoch != epoch_) return;
  streams_[frame.from] = {frame.address, frame.stream, true};
  send(frame.address, frame.stream, StageFrame::Accepted{});
  call([&](StageSession& s, SessionActions& out) { s.connected(sim_.now(), frame.from, out); });
}

void StageDriver::end_stream(ReplicaId peer) {
  const auto it = streams_.find(peer);
  if (it == streams_.end()) return;
  const bool was_up = it->second.up;
  streams_.erase(it);
  after(kRedial, [peer](StageDriver& self) { self.dial_one(peer); });
  if (!was_up) return;
  call([&](StageSession& s, SessionActions& out) { s.lost(sim_.now(), peer, out); });
}

void StageDriver::peer_lost(const std::string& address) {
  std::vector<ReplicaId> lost;
  for (const auto& [peer, stream] : streams_) {
    if (stream.address == address) lost.push_back(peer);
  }
  for (const ReplicaId peer : lost) {
    send(address, streams_.at(peer).number, StageFrame::Closed{});
    end_stream(peer);
  }
}

void StageDriver::send(const std::string& address, std::uint64_t stream,
                       const decltype(StageFrame::body)& body) {
  const StageFrame frame{options_.self, self_.address(), stream, body};
  peers_.hang_up(self_, address, [send = send_, frame](PeerEnd& end) { send(end, frame); });
}

void StageDriver::send_to(ReplicaId peer, const decltype(StageFrame::body)& body) {
  const auto it = streams_.find(peer);
  if (it != streams_.end() && it->second.up) send(it->second.address, it->second.number, body);
}

void StageDriver::take_frame(const StageFrame& frame) {
  if (const auto* ask = std::get_if<StageFrame::Dialed>(&frame.body)) return dialed(frame, *ask);
  const auto it = streams_.find(frame.from);
  if (it == streams_.end() || it->second.number != frame.stream) return;
  if (std::holds_alternative<StageFrame::Closed>(frame.body)) return end_stream(frame.from);
  if (std::holds_alternative<StageFrame::Accepted>(frame.body)) {
    it->second.up = true;
    return call(
        [&](StageSession& s, SessionActions& out) { s.connected(sim_.now(), frame.from, out); });
  }
  take(frame);
}

void StageDriver::take(const StageFrame& frame) {
  const Instant now = sim_.now();
  call([&](StageSession& s, SessionActions& out) {
    std::visit(
        Overloaded{
            [&](const StageFrame::Forward& f) {
              if (const auto task = s.forward(now, frame.from, f.header, out)) {
                first_of_[*task] = f.first;
              }
            },
            [&](const BackwardHeader& h) {
              traffic_[frame.from].received +=
                  Bytes(kBytesPerToken * options_.microbatch * options_.context);
              s.backward(now, frame.from, h, out);
            },
            [&](const StageFrame::Cancel& f) { s.cancelled(now, frame.from, f.header, out); },
            [&](const StageFrame::Refusal& f) {
              s.refused(now, frame.from, f.header, f.reason, out);
            },
            [&](const ProgressGossip& gossip) { s.gossip(now, frame.from, gossip, out); },
            [](const auto&) {},
        },
        frame.body);
  });
}

}  // namespace shoal::sim
