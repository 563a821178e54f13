// See pipeline_service.h.
#include "swarm/pipeline/pipeline_service.h"

#include <algorithm>

#include "base/check.h"
#include "proto/pipeline.grpc.pb.h"

namespace shoal::swarm {
namespace {

class Service final
    : public PipelineHost,
      public v1::PipelineService::WithRawCallbackMethod_Exchange<v1::PipelineService::Service> {
 public:
  explicit Service(std::shared_ptr<wire::EmulatedLine> line) : PipelineHost(std::move(line)) {}
  grpc::Service* grpc_service() override { return this; }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* call) override {
    const auto name = name_of(*call);
    const auto stream = AcceptedStream::create(context(), call, this, name.value_or(StreamName{}));
    if (!name) {
      stream->refuse({grpc::StatusCode::INVALID_ARGUMENT, "the call's metadata name no stream"});
    } else if (name->protocol != kProtocolVersion) {
      stream->refuse({grpc::StatusCode::FAILED_PRECONDITION,
                      "protocol " + std::to_string(name->protocol) + " is spoken there, protocol " +
                          std::to_string(kProtocolVersion) +
                          " here; install one version of Shoal on both hosts"});
    } else {
      arrived(stream);
    }
    return stream.get();  // it keeps itself alive until OnDone
  }
};

}  // namespace

void PipelineHost::enter(ReplicaId replica, const std::shared_ptr<Neighbours>& neighbours) {
  std::vector<std::shared_ptr<AcceptedStream>> waited;
  {
    const MutexLock lock(mutex_);
    SHOAL_CHECK(here_.emplace(replica, neighbours).second, "a replica is here twice");
    const auto other = [&](const auto& stream) { return stream->name().to != replica; };
    const auto first = std::stable_partition(waiting_.begin(), waiting_.end(), other);
    waited.assign(first, waiting_.end());
    waiting_.erase(first, waiting_.end());
  }
  for (const auto& stream : waited) neighbours->accept(stream);
}

void PipelineHost::leave(ReplicaId replica) {
  const MutexLock lock(mutex_);
  here_.erase(replica);
}

void PipelineHost::arrived(const std::shared_ptr<AcceptedStream>& stream) {
  std::shared_ptr<Neighbours> neighbours;
  bool full = false;
  {
    const MutexLock lock(mutex_);
    if (const auto it = here_.find(stream->name().to); it != here_.end()) {
      neighbours = it->second;
    } else if (waiting_.size() >= kWaitingMax) {
      full = true;
    } else {
      waiting_.push_back(stream);
    }
  }
  if (neighbours) return neighbours->accept(stream);
  if (full) {
    return stream->refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams wait here"});
  }
  context_.timer->at(Clock::now() + kWaitMax, [this, stream] { expire(stream.get()); });
}

bool PipelineHost::forget(AcceptedStream* stream) {
  const MutexLock lock(mutex_);
  return std::erase_if(waiting_, [&](const auto& each) { return each.get() == stream; }) > 0;
}

void PipelineHost::expire(AcceptedStream* stream) {
  if (!forget(stream)) return;
  stream->refuse({grpc::StatusCode::NOT_FOUND, to_string(stream->name().to) + " is not here"});
}

std::unique_ptr<PipelineService> PipelineService::create(std::shared_ptr<wire::EmulatedLine> line) {
  return std::make_unique<Service>(std::move(line));
}

}  // namespace shoal::swarm
