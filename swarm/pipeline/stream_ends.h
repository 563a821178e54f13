// The two ends of a pipeline stream (proto/pipeline.proto, Exchange) as gRPC reactors, and what a
// stream says of itself in the call's metadata.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include "messages/messages.h"
#include "swarm/pipeline/stream.h"

namespace shoal::swarm {

struct StreamName {
  JobId job;
  std::int64_t epoch = 0;
  ReplicaId from, to;
  StageIndex from_stage = 0;
  std::int32_t protocol = kProtocolVersion;
};

std::optional<StreamName> name_of(const grpc::CallbackServerContext& context);

// A stream to `name.to` over a connection of its own, not started yet. When it is, the owner hears
// opened() or ended().
std::shared_ptr<Stream> stream_to(const std::string& address, const StreamName& name,
                                  const StreamContext& context, Duration keepalive);

class AcceptedStream;

// Where accepted streams wait until their replica is here.
class StreamKeeper {
 public:
  virtual ~StreamKeeper() = default;
  // The call was broken off. True when the stream was still waiting: it is forgotten now.
  virtual bool forget(AcceptedStream* stream) = 0;
};

class AcceptedStream final : public Stream,
                             public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static std::shared_ptr<AcceptedStream> create(const StreamContext& context,
                                                grpc::CallbackServerContext* call,
                                                StreamKeeper* keeper, const StreamName& name);
  const StreamName& name() const { return name_; }

  void start(std::shared_ptr<StreamOwner> owner) override;
  void refuse(const grpc::Status& status);  // instead of start()

  void OnReadDone(bool ok) override { on_read(ok, incoming_); }
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  AcceptedStream(const StreamContext& context, grpc::CallbackServerContext* call,
                 StreamKeeper* keeper, const StreamName& name)
      : Stream(context, name.from, false), call_(call), keeper_(keeper), name_(name) {}
  void start_read() override { StartRead(&incoming_); }
  void start_write(const grpc::ByteBuffer& message) override;
  void cancel() override { call_->TryCancel(); }
  void finish() override { Finish(grpc::Status::CANCELLED); }

  grpc::CallbackServerContext* call_;
  StreamKeeper* keeper_;
  const StreamName name_;
  grpc::ByteBuffer incoming_, outgoing_;
  std::shared_ptr<Stream> self_;  // until the call is done
};

}  // namespace shoal::swarm
