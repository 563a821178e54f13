// Reactors that translate between gRPC's callbacks and Stream. A dialled one keeps a hold on its
// call until Stream has said that it will start no more operations.
#include "swarm/pipeline/stream_ends.h"

#include <grpcpp/generic/generic_stub.h>

#include "wire/metadata.h"
#include "wire/peer_channel.h"

namespace shoal::swarm {
namespace {

constexpr char kMethod[] = "/shoal.v1.PipelineService/Exchange";
constexpr char kProtocol[] = "shoal-protocol", kJob[] = "shoal-job", kEpoch[] = "shoal-epoch",
               kFrom[] = "shoal-from", kStage[] = "shoal-stage", kTo[] = "shoal-to";

using wire::read_number;

class DialledStream final : public Stream,
                            public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  DialledStream(const StreamContext& context, const StreamName& name,
                const std::shared_ptr<grpc::Channel>& channel)
      : Stream(context, name.to, true), stub_(channel) {
    call_.AddMetadata(kProtocol, std::to_string(name.protocol));
    call_.AddMetadata(kJob, std::to_string(name.job.n));
    call_.AddMetadata(kEpoch, std::to_string(name.epoch));
    call_.AddMetadata(kFrom, std::to_string(name.from.n));
    call_.AddMetadata(kStage, std::to_string(name.from_stage));
    call_.AddMetadata(kTo, std::to_string(name.to.n));
  }

  void start(std::shared_ptr<StreamOwner> owner) override {
    self_ = shared_from_this();
    begin(std::move(owner));
    stub_.PrepareBidiStreamingCall(&call_, kMethod, {}, this);
    AddHold();
    StartCall();
  }

  // A refusal has no such metadata.
  void OnReadInitialMetadataDone(bool ok) override {
    std::uint64_t replica = 0;
    on_opened(ok && read_number(call_.GetServerInitialMetadata(), kFrom, replica) &&
              replica == peer().n);
  }
  void OnReadDone(bool ok) override { on_read(ok, incoming_); }
  void OnWriteDone(bool ok) override {
    outgoing_.Clear();
    on_written(ok);
  }
  void OnDone(const grpc::Status& status) override {
    on_closed(status.error_message().empty() ? "the peer ended the stream"
                                             : status.error_message());
    self_.reset();  // may delete this
  }

 private:
  void start_read() override { StartRead(&incoming_); }
  void start_write(const grpc::ByteBuffer& message) override {
    outgoing_ = message;
    StartWrite(&outgoing_);
  }
  void cancel() override { call_.TryCancel(); }
  void finish() override { RemoveHold(); }

  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext call_;
  grpc::ByteBuffer incoming_, outgoing_;
  std::shared_ptr<Stream> self_;  // until the call is done
};

}  // namespace

std::optional<StreamName> name_of(const grpc::CallbackServerContext& context) {
  const wire::Metadata& metadata = context.client_metadata();
  StreamName name;
  const bool complete =
      read_number(metadata, kProtocol, name.protocol) && read_number(metadata, kJob, name.job.n) &&
      read_number(metadata, kEpoch, name.epoch) && read_number(metadata, kFrom, name.from.n) &&
      read_number(metadata, kStage, name.from_stage) && read_number(metadata, kTo, name.to.n);
  return complete ? std::optional(name) : std::nullopt;
}

std::shared_ptr<Stream> stream_to(const std::string& address, const StreamName& name,
                                  const StreamContext& context, Duration keepalive) {
  const auto dialled = wire::dial_peer(address, keepalive, context.line.get());
  return std::make_shared<DialledStream>(context, name, dialled.channel);
}

// ---- accepted streams

std::shared_ptr<AcceptedStream> AcceptedStream::create(const StreamContext& context,
                                                       grpc::CallbackServerContext* call,
                                                       StreamKeeper* keeper,
                                                       const StreamName& name) {
  std::shared_ptr<AcceptedStream> stream(new AcceptedStream(context, call, keeper, name));
  stream->self_ = stream;
  return stream;
}

void AcceptedStream::start(std::shared_ptr<StreamOwner> owner) {
  call_->AddInitialMetadata(kFrom, std::to_string(name_.to.n));
  StartSendInitialMetadata();
  begin(std::move(owner));
}

void AcceptedStream::refuse(const grpc::Status& status) {
  never_begun();
  Finish(status);
}

void AcceptedStream::start_write(const grpc::ByteBuffer& message) {
  outgoing_ = message;
  StartWrite(&outgoing_);
}

void AcceptedStream::OnWriteDone(bool ok) {
  outgoing_.Clear();
  on_written(ok);
}

// Once it has started, a call that was broken off shows in its reads and writes; when neither is
// under way, here.
void AcceptedStream::OnCancel() {
  if (keeper_->forget(this)) return refuse(grpc::Status::CANCELLED);
  break_off("the peer broke off the stream", false);
}

void AcceptedStream::OnDone() {
  on_closed("the peer broke off the stream");
  self_.reset();  // may delete this
}

}  // namespace shoal::swarm
