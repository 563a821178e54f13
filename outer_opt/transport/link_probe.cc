#include "outer_opt/transport/link_probe.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string>

#include "base/prng.h"
#include "outer_opt/core/round/link_estimates.h"
#include "threads/sleep.h"

namespace shoal::outer_opt {
namespace {

using wire::stream::BlockingStream;
using Message = BlockingStream::Message;

constexpr int kEchoes = 4, kTriesMax = 40;
constexpr Duration kWaitMax = seconds(5);
constexpr std::size_t kFrameBytes = 16 << 10;
constexpr Duration kEchoLimit = seconds(3);
// Limit of a flow: kProbeTime, and the time to drain buffers before its first message arrives.
constexpr Duration kFlowLimit = seconds(5);
constexpr Duration kLookAtGate = milliseconds(100);
constexpr char kEcho[] = "echo", kPush[] = "push", kPull[] = "pull";

// Counts a flow where it arrives.
class Arrivals {
 public:
  void add(const Message& message) {
    received_ = received_ + Bytes(std::ssize(message.body));
    samples_.push_back({message.arrived, received_});
  }
  bool enough() const {
    return !samples_.empty() &&
           (received_ >= kProbeBytes || samples_.back().at - samples_.front().at >= kProbeTime);
  }
  double rate() const { return flow_rate(samples_); }

 private:
  Bytes received_;
  std::vector<FlowSample> samples_;
};

Error busy() {
  return {Code::kResourceExhausted, "a reduce or another measurement runs here", "", "ask again"};
}

Error enough() { return {Code::kCancelled, "that was enough", "", ""}; }

std::shared_ptr<const wire::stream::ByteVector> filler() {
  return std::make_shared<const wire::stream::ByteVector>(kFrameBytes);
}

// A stream that ends with the stop token and with its time.
struct Step {
  Step(wire::stream::Pair& pair, Duration limit, const std::stop_token& stop)
      : stream(BlockingStream::open(pair, kProbePurpose, limit)),
        on_stop(stop, [this] { stream->cancel(enough()); }) {}
  ~Step() { stream->cancel(enough()); }
  Status say(const std::string& words) {
    return stream->write(wire::stream::to_bytes(words), nullptr, kFlowLimit);
  }
  std::shared_ptr<BlockingStream> stream;
  std::stop_callback<std::function<void()>> on_stop;
};

// Takes messages until there are enough of them, or the gate closes.
Status take_flow(BlockingStream& stream, const ProbeGate& gate, Arrivals& arrivals) {
  const Instant end = steady_now() + kFlowLimit;
  while (!arrivals.enough()) {
    if (gate.in_reduce()) return busy();
    const auto message = stream.read(kLookAtGate);
    if (message.ok() && !*message) return busy();  // it gave up in the middle
    if (message.ok()) arrivals.add(**message);
    if (!message.ok() && (message.error().code != Code::kDeadlineExceeded || stream.is_over() ||
                          steady_now() > end)) {
      return message.error();
    }
  }
  return {};
}

Result<Duration> round_trip(wire::stream::Pair& pair, const std::stop_token& stop) {
  Step step(pair, kEchoLimit * kEchoes, stop);
  Duration least = seconds(3600);
  for (int i = 0; i < kEchoes; ++i) {
    const Instant before = steady_now();
    if (const Status said = step.say(kEcho); !said.ok()) return said.error();
    const auto back = step.stream->read(kEchoLimit);
    const bool is_silent = !back.ok() && back.error().code == Code::kDeadlineExceeded;
    if (is_silent) return Error{Code::kUnavailable, back.error().message, "", ""};
    if (!back.ok()) return back.error();
    if (!*back) return busy();
    least = std::min(least, (*back)->arrived - before);
  }
  return least;
}

Result<double> push_rate(wire::stream::Pair& pair, const LinkEstimate& asker, const ProbeGate& gate,
                         const std::stop_token& stop) {
  Step step(pair, kFlowLimit, stop);
  const std::string words = std::string(kPush) + " " + std::to_string(asker.peer.n) + " " +
                            std::to_string(asker.round_trip.ns);
  Status written = step.say(words);
  for (const auto frame = filler(); written.ok();) {
    if (gate.in_reduce()) return busy();
    const bool is_over = step.stream->is_over();
    const auto rate = step.stream->read(Duration());
    if (rate.ok() && *rate) {
      std::istringstream text{std::string(wire::stream::to_text((*rate)->head))};
      double bytes_per_s = 0;
      if (text >> bytes_per_s) return bytes_per_s;
      return Error{Code::kInvalidArgument, "the peer's rate is not a number", "", ""};
    }
    if (is_over) return rate.ok() ? busy() : rate.error();
    written = step.stream->write({}, frame, kLookAtGate);
    if (!written.ok() && !step.stream->is_over()) written = {};  // the line is slow
  }
  return written.error();
}

Result<double> pull_rate(wire::stream::Pair& pair, const ProbeGate& gate,
                         const std::stop_token& stop) {
  Step step(pair, kFlowLimit, stop);
  if (const Status said = step.say(kPull); !said.ok()) return said.error();
  Arrivals arrivals;
  if (const Status taken = take_flow(*step.stream, gate, arrivals); !taken.ok()) {
    return taken.error();
  }
  return arrivals.rate();
}

// ---- answering

Status answer_echoes(BlockingStream& stream, Message first) {
  for (std::optional<Message> echo = std::move(first); echo;) {
    if (const Status sent = stream.write(std::move(echo->head), nullptr, kEchoLimit); !sent.ok()) {
      return sent;
    }
    auto next = stream.read(kEchoLimit);
    if (!next.ok()) return next.error();
    echo = *std::move(next);
  }
  return {};
}

// The gate is free before the asker knows the rate: the next step of his comes at once.
Status take_push(ProbeGate& gate, BlockingStream& stream, LinkEstimate asker, const Found& found) {
  Arrivals arrivals;
  const Status taken = take_flow(stream, gate, arrivals);
  gate.leave();
  if (!taken.ok()) return taken;
  asker.from_per_s = arrivals.rate();
  std::ostringstream rate;
  rate << std::setprecision(17) << asker.from_per_s;
  const Status told = stream.write(wire::stream::to_bytes(rate.str()), nullptr, kFlowLimit);
  if (told.ok()) found(asker);
  return told.ok() ? stream.finish(kFlowLimit) : told;
}

Status flow(const ProbeGate& gate, BlockingStream& stream) {
  const auto frame = filler();
  const Instant end = steady_now() + kFlowLimit;
  for (std::int64_t sent = 0; sent <= kProbeBytes.count();) {
    if (gate.in_reduce() || steady_now() > end) return busy();
    const Status written = stream.write({}, frame, kLookAtGate);
    if (written.ok()) sent += static_cast<std::int64_t>(kFrameBytes);
    if (!written.ok() && stream.is_over()) return written;
  }
  return {};
}

Status give_pull(ProbeGate& gate, BlockingStream& stream) {
  const Status given = flow(gate, stream);
  gate.leave();
  return given.ok() ? stream.finish(kFlowLimit) : given;
}

}  // namespace

// ---- the gate

bool ProbeGate::enter() {
  const MutexLock lock(mutex_);
  if (taken_ || reduces_ > 0) return false;
  return taken_ = true;
}

void ProbeGate::leave() {
  const MutexLock lock(mutex_);
  taken_ = false;
}

void ProbeGate::begin_reduce() {
  const MutexLock lock(mutex_);
  ++reduces_;
}

void ProbeGate::end_reduce() {
  const MutexLock lock(mutex_);
  --reduces_;
}

bool ProbeGate::in_reduce() const {
  const MutexLock lock(mutex_);
  return reduces_ > 0;
}

// ---- measurements

Status serve_probe(ProbeGate& gate, BlockingStream& stream, const Found& found) {
  stream.set_limit(kEchoLimit * kEchoes);
  auto first = stream.read(kEchoLimit);
  if (!first.ok()) return first.error();
  if (!*first) return {};
  std::istringstream words{std::string(wire::stream::to_text((*first)->head))};
  std::string step;
  words >> step;
  if (step == kEcho) return answer_echoes(stream, std::move(**first));
  LinkEstimate asker;
  const bool pushes = step == kPush && words >> asker.peer.n >> asker.round_trip.ns;
  if (!pushes && step != kPull) {
    return Error{Code::kInvalidArgument, "a measurement has no such step", "step",
                 "run the same version on both hosts"};
  }
  if (!gate.enter()) return busy();
  stream.set_limit(kFlowLimit * 2);
  return pushes ? take_push(gate, stream, asker, found) : give_pull(gate, stream);
}

Result<LinkEstimate> probe_link(wire::stream::Pair& pair, ReplicaId self, ReplicaId peer,
                                const ProbeGate& gate, std::stop_token stop) {
  const auto trip = round_trip(pair, stop);
  if (!trip.ok()) return trip.error();
  const auto to = push_rate(pair, {.peer = self, .round_trip = *trip}, gate, stop);
  if (!to.ok()) return to.error();
  const auto from = pull_rate(pair, gate, stop);
  if (!from.ok()) return from.error();
  return LinkEstimate{peer, *trip, *to, *from, true, PeerWay::kUnknown};
}

LinkProber::LinkProber(ProbeGate& gate, Dial dial, Found found)
    : gate_(gate), dial_(std::move(dial)), found_(std::move(found)) {}

void LinkProber::start(ReplicaId self, std::vector<PeerAddress> peers) {
  stop();
  const MutexLock lock(mutex_);
  thread_ = std::jthread([this, self, peers = std::move(peers)](std::stop_token stop) mutable {
    run(self, std::move(peers), std::move(stop));
  });
}

void LinkProber::stop() {
  std::jthread ending;  // joined outside the lock
  const MutexLock lock(mutex_);
  ending.swap(thread_);
}

// A busy peer is asked again after a pause that differs between askers, so that two that ask each
// other do not collide forever. On a long line a failed try takes seconds. The pause is longer
// there, or the two would never find each other idle.
void LinkProber::run(ReplicaId self, std::vector<PeerAddress> peers, std::stop_token stop) {
  Prng prng(peers.empty() ? 1 : peers.front().replica.n + peers.size() * 1000);
  Duration longest;  // of a failed try
  for (int tries = 0; tries < kTriesMax && !peers.empty() && !stop.stop_requested(); ++tries) {
    const Instant before = steady_now();
    if (try_one(self, peers.front(), stop)) {
      peers.erase(peers.begin());
      continue;
    }
    std::rotate(peers.begin(), peers.begin() + 1, peers.end());
    longest = std::max(longest, steady_now() - before);
    const Duration most = milliseconds(400) + std::min(kWaitMax, longest * 3);
    (void)sleep_unless_stopped(milliseconds(prng.range(50, most.ms())), stop);
  }
}

Result<LinkEstimate> LinkProber::dial_and_probe(ReplicaId self, const PeerAddress& peer,
                                                std::stop_token stop) {
  const auto reached = dial_(peer, stop);
  if (!reached.ok()) return reached.error();
  auto found = probe_link(*reached->pair, self, peer.replica, gate_, stop);
  reached->let_go();
  if (found.ok()) found->way = reached->way;
  return found;
}

// True: there is nothing more to ask this peer.
bool LinkProber::try_one(ReplicaId self, const PeerAddress& peer, std::stop_token stop) {
  if (!gate_.enter()) return false;
  const auto found = dial_and_probe(self, peer, stop);
  gate_.leave();
  if (found.ok()) return found_(*found), true;
  const Code code = found.error().code;
  const bool again = code == Code::kResourceExhausted || code == Code::kCancelled;
  if (code == Code::kUnavailable && !stop.stop_requested() && !gate_.in_reduce()) {
    found_({peer.replica, {}, 0, 0, false, PeerWay::kUnreachable});
  }
  return !again;
}

}  // namespace shoal::outer_opt
