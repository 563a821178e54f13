#include "outer_opt/transport/link_probe.h"

#include <algorithm>
#include <string>

#include "base/prng.h"
#include "outer_opt/core/round/link_estimates.h"
#include "threads/clock.h"
#include "threads/sleep.h"
#include "wire/metadata.h"

namespace shoal::outer_opt {
namespace {

constexpr int kEchoes = 4, kTriesMax = 40;
constexpr char kReplica[] = "shoal-replica", kRoundTrip[] = "shoal-round-trip-ns";
constexpr Duration kWaitMax = seconds(5);
constexpr std::size_t kFrameBytes = 16 << 10;
constexpr auto kEchoLimit = std::chrono::seconds(3);
// Of a flow: kProbeTime and what lies in buffers before the first message of it arrives.
constexpr auto kFlowLimit = std::chrono::seconds(5);

// Counts a flow where it arrives.
class Arrivals {
 public:
  void add(const v1::RawFrame& frame) {
    received_ = received_ + Bytes(static_cast<std::int64_t>(frame.data().size()));
    samples_.push_back({steady_now(), received_});
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

grpc::Status busy() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "a reduce or another measurement runs here"};
}

v1::RawFrame filler() {
  v1::RawFrame frame;
  frame.set_data(std::string(kFrameBytes, '\0'));
  return frame;
}

Error error_of(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {Code::kResourceExhausted, status.error_message(), "", "ask again"};
    case grpc::StatusCode::CANCELLED:
      return {Code::kCancelled, status.error_message(), "", ""};
    default:
      return {Code::kInternal, status.error_message(), "", ""};
  }
}

bool is_silence(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// A call that ends with the stop token and with its time.
struct Call {
  Call(std::chrono::seconds limit, const std::stop_token& stop)
      : on_stop(stop, [this] { context.TryCancel(); }) {
    context.set_deadline(std::chrono::system_clock::now() + limit);
  }
  grpc::ClientContext context;
  std::stop_callback<std::function<void()>> on_stop;
};

Result<Duration> round_trip(v1::PeerService::Stub& stub, const std::stop_token& stop) {
  Duration least = seconds(3600);
  for (int i = 0; i < kEchoes; ++i) {
    Call call(kEchoLimit, stop);
    v1::Nothing answer;
    const Instant before = steady_now();
    const grpc::Status status = stub.Echo(&call.context, {}, &answer);
    if (is_silence(status)) return Error{Code::kUnavailable, status.error_message(), "", ""};
    if (!status.ok()) return error_of(status);
    least = std::min(least, steady_now() - before);
  }
  return least;
}

Result<double> push_rate(v1::PeerService::Stub& stub, const LinkEstimate& asker,
                         const ProbeGate& gate, const std::stop_token& stop) {
  Call call(kFlowLimit, stop);
  call.context.AddMetadata(kReplica, std::to_string(asker.peer.n));
  call.context.AddMetadata(kRoundTrip, std::to_string(asker.round_trip.ns));
  v1::PushRate rate;
  const auto writer = stub.Push(&call.context, &rate);
  const v1::RawFrame frame = filler();
  while (!gate.in_reduce() && writer->Write(frame)) {
  }
  if (gate.in_reduce()) call.context.TryCancel();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return error_of(status);
  return rate.bytes_per_s();
}

Result<double> pull_rate(v1::PeerService::Stub& stub, const ProbeGate& gate,
                         const std::stop_token& stop) {
  Call call(kFlowLimit, stop);
  const auto reader = stub.Pull(&call.context, {});
  Arrivals arrivals;
  for (v1::RawFrame frame; !arrivals.enough() && !gate.in_reduce() && reader->Read(&frame);) {
    arrivals.add(frame);
  }
  const bool enough = arrivals.enough();
  if (enough || gate.in_reduce()) call.context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!enough) return error_of(status);
  return arrivals.rate();
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

// ---- answering

grpc::Status take_push(ProbeGate& gate, const grpc::ServerContext& context,
                       grpc::ServerReader<v1::RawFrame>* frames, v1::PushRate* rate,
                       const Found& found) {
  if (!gate.enter()) return busy();
  Arrivals arrivals;
  for (v1::RawFrame frame; !arrivals.enough() && !gate.in_reduce() && frames->Read(&frame);) {
    arrivals.add(frame);
  }
  gate.leave();
  if (!arrivals.enough()) return busy();
  rate->set_bytes_per_s(arrivals.rate());
  LinkEstimate asker{.from_per_s = arrivals.rate()};
  const wire::Metadata& told = context.client_metadata();
  if (wire::read_number(told, kReplica, asker.peer.n) &&
      wire::read_number(told, kRoundTrip, asker.round_trip.ns)) {
    found(asker);
  }
  return grpc::Status::OK;
}

grpc::Status give_pull(ProbeGate& gate, grpc::ServerWriter<v1::RawFrame>* frames) {
  if (!gate.enter()) return busy();
  const v1::RawFrame frame = filler();
  std::int64_t sent = 0;
  while (sent <= kProbeBytes.count() && !gate.in_reduce() && frames->Write(frame)) {
    sent += static_cast<std::int64_t>(kFrameBytes);
  }
  gate.leave();
  return sent > kProbeBytes.count() ? grpc::Status::OK : busy();
}

// ---- asking

Result<LinkEstimate> probe_link(const std::shared_ptr<grpc::Channel>& channel, ReplicaId self,
                                ReplicaId peer, const ProbeGate& gate, std::stop_token stop) {
  const auto stub = v1::PeerService::NewStub(channel);
  const auto trip = round_trip(*stub, stop);
  if (!trip.ok()) return trip.error();
  const auto to = push_rate(*stub, {.peer = self, .round_trip = *trip}, gate, stop);
  if (!to.ok()) return to.error();
  const auto from = pull_rate(*stub, gate, stop);
  if (!from.ok()) return from.error();
  return LinkEstimate{peer, *trip, *to, *from, true};
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

// Whoever is busy is asked again after a while that differs between askers, so that two that ask
// each other do not meet for ever. On a long line a try in vain takes seconds: the while is longer
// there, or the two would never find each other idle.
void LinkProber::run(ReplicaId self, std::vector<PeerAddress> peers, std::stop_token stop) {
  Prng prng(peers.empty() ? 1 : peers.front().replica.n + peers.size() * 1000);
  Duration longest;  // of a try in vain
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

// True: there is nothing more to ask this peer.
bool LinkProber::try_one(ReplicaId self, const PeerAddress& peer, std::stop_token stop) {
  if (!gate_.enter()) return false;
  const auto found = probe_link(dial_(peer.address), self, peer.replica, gate_, stop);
  gate_.leave();
  if (found.ok()) return found_(*found), true;
  const Code code = found.error().code;
  const bool again = code == Code::kResourceExhausted || code == Code::kCancelled;
  if (code == Code::kUnavailable && !stop.stop_requested() && !gate_.in_reduce()) {
    found_({peer.replica, {}, 0, 0, false});
  }
  return !again;
}

}  // namespace shoal::outer_opt
