// Reactors that translate between gRPC's callbacks and ReduceCall. The dialled one keeps a hold on
// its call until ReduceCall has said that it will start no more operations.
#include "outer_opt/transport/reduce_streams.h"

#include <charconv>
#include <string_view>

#include <grpcpp/generic/generic_stub.h>

#include "proto/peer.grpc.pb.h"
#include "wire/local_socket.h"
#include "wire/metadata.h"
#include "wire/socket_owner.h"

namespace shoal::outer_opt {
namespace {

constexpr char kMethod[] = "/shoal.v1.PeerService/Reduce";
constexpr char kReplica[] = "shoal-replica", kJob[] = "shoal-job", kEpoch[] = "shoal-epoch",
               kRound[] = "shoal-round", kAttempt[] = "shoal-attempt", kLane[] = "shoal-lane",
               kLanes[] = "shoal-lanes", kLost[] = "shoal-lost", kMemory[] = "shoal-memory";

using wire::read_number;

// The call that says why a dialled stream is cancelled. It owns itself and outlives the stream.
struct Reason {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::PeerService::Stub> stub;
  grpc::ClientContext context;
  v1::GaveUp request;
  v1::Nothing answer;
};

void tell_reason(std::shared_ptr<grpc::Channel> channel, v1::GaveUp request) {
  auto* reason = new Reason{std::move(channel), nullptr, {}, std::move(request), {}};
  reason->stub = v1::PeerService::NewStub(reason->channel);
  reason->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  // Whether it arrives is not our business any more: the cancellation does.
  reason->stub->async()->GiveUp(&reason->context, &reason->request, &reason->answer,
                                [reason](const grpc::Status&) { delete reason; });
}

class DialledStream final : public Link,
                            public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  DialledStream(const wire::PeerChannel& channel, ReplicaId self, const AttemptKey& key,
                Lane of_lane, Duration time_limit)
      : channel_(channel.channel),
        process_(channel.process),
        stub_(channel.channel),
        self_(self),
        key_(key) {
    dialled = true;
    lane = of_lane;
    asking = process_ > 0;
    context_.AddMetadata(kReplica, std::to_string(self.n));
    context_.AddMetadata(kJob, std::to_string(key.key.job.n));
    context_.AddMetadata(kEpoch, std::to_string(key.key.epoch));
    context_.AddMetadata(kRound, std::to_string(key.key.round));
    context_.AddMetadata(kAttempt, std::to_string(key.attempt));
    context_.AddMetadata(kLane, std::to_string(lane.index));
    context_.AddMetadata(kLanes, std::to_string(lane.count));
    // The owner forgets a stream that waits for an attempt of which it never hears.
    const auto limit = std::chrono::nanoseconds(time_limit.ns) + std::chrono::seconds(5);
    context_.set_deadline(std::chrono::system_clock::now() + limit);
  }

  void start() {
    if (asking) context_.AddMetadata(kMemory, call->memory_token());
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();
    StartCall();
  }

  void start_read() override { StartRead(&incoming_); }
  void start_write(const grpc::ByteBuffer& message) override {
    outgoing_ = message;
    StartWrite(&outgoing_);
  }
  void end_writes() override { StartWritesDone(); }
  void finish(const StreamEnd&) override { RemoveHold(); }
  void cancel(const StreamEnd& why) override {
    if (why.lost && why.lost != call->session().plan().members[peer].replica) tell(why);
    context_.TryCancel();
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (process_ <= 0) return;
    std::optional<wire::PeerMemory> peer_memory;
    if (ok) {
      const wire::Metadata& answer = context_.GetServerInitialMetadata();
      peer_memory = wire::PeerMemory::open(process_, wire::read_text(answer, kMemory));
    }
    call->on_answer(this, std::move(peer_memory));
  }
  void OnReadDone(bool ok) override {
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    call->on_read(this, ok, message);
  }
  void OnWriteDone(bool ok) override {
    outgoing_.Clear();
    call->on_written(this, ok);
  }
  void OnWritesDoneDone(bool ok) override { call->on_written(this, ok); }
  void OnDone(const grpc::Status& status) override {
    StreamEnd end;
    end.ok = status.ok();
    end.given_up = status.error_code() == grpc::StatusCode::CANCELLED;
    end.detail = status.error_message();
    std::uint64_t replica = 0;
    if (read_number(context_.GetServerTrailingMetadata(), kLost, replica))
      end.lost = ReplicaId(replica);
    call->on_closed(this, end);
    delete this;
  }

 private:
  void tell(const StreamEnd& why) {
    v1::GaveUp request;
    request.set_replica(self_.n);
    request.mutable_key()->set_job(key_.key.job.n);
    request.mutable_key()->set_epoch(key_.key.epoch);
    request.mutable_key()->set_round(key_.key.round);
    request.set_attempt(key_.attempt);
    request.set_lost(why.lost.n);
    request.set_detail(why.detail);
    tell_reason(channel_, std::move(request));
  }

  std::shared_ptr<grpc::Channel> channel_;
  const pid_t process_;  // of the peer, 0 when its memory cannot be read
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  const ReplicaId self_;
  const AttemptKey key_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_, outgoing_;
};

}  // namespace

void dial_stream(const std::shared_ptr<ReduceCall>& call, int peer, Lane lane, ReplicaId self,
                 const AttemptKey& key, const wire::PeerChannel& channel, Duration time_limit) {
  auto* stream = new DialledStream(channel, self, key, lane, time_limit);
  stream->call = call;
  stream->peer = peer;
  stream->start();
  if (call->attach(stream)) return;
  // The attempt is over already: nobody else knows the stream, so it ends by itself.
  stream->cancel({});
  stream->finish({});
}

std::optional<StreamName> name_of(const grpc::CallbackServerContext& context) {
  const wire::Metadata& metadata = context.client_metadata();
  StreamName name;
  const bool complete = read_number(metadata, kReplica, name.from.n) &&
                        read_number(metadata, kJob, name.key.key.job.n) &&
                        read_number(metadata, kEpoch, name.key.key.epoch) &&
                        read_number(metadata, kRound, name.key.key.round) &&
                        read_number(metadata, kAttempt, name.key.attempt) &&
                        read_number(metadata, kLane, name.lane.index) &&
                        read_number(metadata, kLanes, name.lane.count) && name.lane.index >= 0 &&
                        name.lane.index < name.lane.count && name.lane.count <= kLanesMax;
  name.memory = wire::read_text(metadata, kMemory);
  return complete ? std::optional(name) : std::nullopt;
}

// ---- accepted streams

void AcceptedStream::join(const std::shared_ptr<ReduceCall>& reduce) {
  const int member = reduce->member(name_.from);
  if (member < 0 || member == reduce->session().self()) {
    return refuse({grpc::StatusCode::FAILED_PRECONDITION,
                   to_string(name_.from) + " is not a member of this attempt"});
  }
  peer = member;
  lane = name_.lane;
  call = reduce;
  if (!name_.memory.empty()) answer_offer();
  if (reduce->attach(this)) return;
  call = nullptr;
  finish(reduce->refusal());
}

// The other end waits for it. gRPC names a connection that it was handed by its descriptor.
void AcceptedStream::answer_offer() {
  constexpr std::string_view kDescriptor = "fd:";
  const std::string connection = context_->peer();
  int fd = -1;
  if (cross_memory_ && connection.starts_with(kDescriptor)) {
    const char* end = connection.data() + connection.size();
    std::from_chars(connection.data() + kDescriptor.size(), end, fd);
  }
  const auto process = wire::process_behind(fd);
  if (process) peer_memory = wire::PeerMemory::open(*process, name_.memory);
  if (peer_memory) context_->AddInitialMetadata(kMemory, call->memory_token());
  StartSendInitialMetadata();
}

void AcceptedStream::start_write(const grpc::ByteBuffer& message) {
  outgoing_ = message;
  StartWrite(&outgoing_);
}

void AcceptedStream::finish(const StreamEnd& end) {
  if (end.ok) return Finish(grpc::Status::OK);
  if (end.lost) context_->AddTrailingMetadata(kLost, std::to_string(end.lost.n));
  Finish({grpc::StatusCode::ABORTED, end.detail.empty() ? "the attempt was given up" : end.detail});
}

void AcceptedStream::OnReadDone(bool ok) {
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  call->on_read(this, ok, message);
}

void AcceptedStream::OnWriteDone(bool ok) {
  outgoing_.Clear();
  call->on_written(this, ok);
}

// Once attached, a broken call shows in its reads and writes.
void AcceptedStream::OnCancel() {
  if (keeper_->forget(this)) refuse(grpc::Status::CANCELLED);
}

void AcceptedStream::OnDone() {
  if (call != nullptr) call->on_closed(this, {});
  delete this;
}

}  // namespace shoal::outer_opt
