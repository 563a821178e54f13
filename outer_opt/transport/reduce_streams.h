// The two ends of a reduce stream (proto/peer.proto, Reduce) on gRPC's callback API, as links of a
// ReduceCall. Messages are raw: a frame header and its payload, no protobuf.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>

#include "outer_opt/transport/reduce_call.h"
#include "wire/peer_channel.h"

namespace shoal::outer_opt {

// Opens a stream from `call`'s member to the owner `peer` and attaches it. It deletes itself.
void dial_stream(const std::shared_ptr<ReduceCall>& call, int peer, Lane lane, ReplicaId self,
                 const AttemptKey& key, const wire::PeerChannel& channel, Duration time_limit);

// What a stream that a peer opened says of itself.
struct StreamName {
  ReplicaId from;
  AttemptKey key;
  Lane lane;
  std::string memory;  // the token of the memory that it lets the other end read; empty: none
};
std::optional<StreamName> name_of(const grpc::CallbackServerContext& context);

class AcceptedStream;

// Where accepted streams wait until their attempt is known here. Implemented by the peer node.
class StreamKeeper {
 public:
  virtual ~StreamKeeper() = default;
  // The call was broken off. True when the stream was still waiting: it is forgotten now.
  virtual bool forget(AcceptedStream* stream) = 0;
};

// A stream that a peer opened: waits, then is attached to a call or refused. It deletes itself.
class AcceptedStream final : public Link,
                             public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Reads the peer's memory only where `cross_memory`.
  AcceptedStream(grpc::CallbackServerContext* context, StreamKeeper* keeper, StreamName name,
                 bool cross_memory)
      : context_(context), keeper_(keeper), name_(std::move(name)), cross_memory_(cross_memory) {}
  const StreamName& name() const { return name_; }

  // Each at most once, and only one of them; the stream may be gone when they return.
  void join(const std::shared_ptr<ReduceCall>& call);
  void refuse(const grpc::Status& status) { Finish(status); }

  void start_read() override { StartRead(&incoming_); }
  void start_write(const grpc::ByteBuffer& message) override;
  void end_writes() override {}
  void finish(const StreamEnd& end) override;
  void cancel(const StreamEnd&) override { context_->TryCancel(); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void answer_offer();

  grpc::CallbackServerContext* context_;
  StreamKeeper* keeper_;
  const StreamName name_;
  const bool cross_memory_;
  grpc::ByteBuffer incoming_, outgoing_;
};

}  // namespace shoal::outer_opt
