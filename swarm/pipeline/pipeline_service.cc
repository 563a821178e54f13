// See pipeline_service.h.
#include "swarm/pipeline/pipeline_service.h"

#include <algorithm>

#include "base/check.h"

namespace shoal::swarm {
namespace {

class Service final : public PipelineService {
 public:
  explicit Service(wire::stream::Peers& peers) : host_(std::make_shared<PipelineHost>(peers)) {
    host_->begin();
  }
  ~Service() override { host_->end(); }
  PipelineHost& host() { return *host_; }

 private:
  const std::shared_ptr<PipelineHost> host_;  // shared with what comes in while it ends
};

}  // namespace

PipelineHost& PipelineHost::of(PipelineService& service) {
  return static_cast<Service&>(service).host();  // the one implementation that there is
}

PipelineHost::PipelineHost(wire::stream::Peers& peers)
    : context_{&peers, std::make_shared<wire::TimerThread>(),
               std::make_shared<wire::TimerThread>()} {}

void PipelineHost::begin() {
  context_.peers->set_accept(kPipelinePurpose,
                             [self = shared_from_this()](auto stream, std::string_view purpose) {
                               return self->accept(std::move(stream), purpose);
                             });
}

void PipelineHost::end() {
  context_.peers->set_accept(kPipelinePurpose, nullptr);
  context_.timer->stop();
  context_.reader->stop();
}

void PipelineHost::enter(ReplicaId replica, const std::shared_ptr<Neighbors>& neighbors) {
  std::vector<std::shared_ptr<Stream>> waited;
  {
    const MutexLock lock(mutex_);
    SHOAL_CHECK(here_.emplace(replica, neighbors).second, "a replica is here twice");
    const auto other = [&](const auto& stream) { return stream->name().to != replica; };
    const auto first = std::stable_partition(waiting_.begin(), waiting_.end(), other);
    waited.assign(first, waiting_.end());
    waiting_.erase(first, waiting_.end());
  }
  for (const auto& stream : waited) neighbors->accept(stream);
}

void PipelineHost::leave(ReplicaId replica) {
  const MutexLock lock(mutex_);
  here_.erase(replica);
}

std::shared_ptr<wire::stream::StreamEvents> PipelineHost::accept(
    std::shared_ptr<wire::stream::Stream> stream, std::string_view purpose) {
  const auto name = parse_purpose(purpose);
  if (!name) return nullptr;
  const wire::stream::PeerReplica from{name->job, name->epoch, name->from};
  if (!context_.peers->is_replica(*stream->pair(), from)) return nullptr;
  const auto taken =
      std::make_shared<Stream>(context_, *name, std::move(stream),
                               [self = shared_from_this()](Stream& gone) { self->forget(gone); });
  if (name->protocol != kPipelineProtocol) {
    taken->refuse({Code::kIncompatible,
                   "protocol " + std::to_string(name->protocol) + " is spoken there, protocol " +
                       std::to_string(kPipelineProtocol) + " here",
                   "", "install one version of Shoal on both hosts"});
  } else {
    arrived(taken);
  }
  return taken;
}

void PipelineHost::arrived(const std::shared_ptr<Stream>& stream) {
  std::shared_ptr<Neighbors> neighbors;
  bool full = false;
  {
    const MutexLock lock(mutex_);
    if (const auto it = here_.find(stream->name().to); it != here_.end()) {
      neighbors = it->second;
    } else if (waiting_.size() >= kWaitingMax) {
      full = true;
    } else {
      waiting_.push_back(stream);
    }
  }
  if (neighbors) return neighbors->accept(stream);
  if (full) return stream->refuse({Code::kResourceExhausted, "too many streams wait here"});
  context_.timer->at(Clock::now() + kWaitMax,
                     [self = shared_from_this(), stream] { self->expire(*stream); });
}

bool PipelineHost::forget(Stream& stream) {
  const MutexLock lock(mutex_);
  return std::erase_if(waiting_, [&](const auto& each) { return each.get() == &stream; }) > 0;
}

void PipelineHost::expire(Stream& stream) {
  if (!forget(stream)) return;
  stream.refuse({Code::kNotFound, to_string(stream.name().to) + " is not here"});
}

std::unique_ptr<PipelineService> PipelineService::create(wire::stream::Peers& peers) {
  return std::make_unique<Service>(peers);
}

}  // namespace shoal::swarm
