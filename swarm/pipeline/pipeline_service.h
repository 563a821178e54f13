// The inside of PipelineService (stage_runtime.h): which replicas are here, and the streams that
// wait for one that is not here yet. A stream waits for kWaitMax, kWaitingMax of them at most; then
// it is refused by name, and its sender dials again.
#pragma once

#include <map>
#include <vector>

#include "swarm/pipeline/neighbours.h"
#include "swarm/pipeline/stage_runtime.h"
#include "threads/mutex.h"
#include "wire/emulated_line.h"

namespace shoal::swarm {

class PipelineHost : public PipelineService, public StreamKeeper {
 public:
  static constexpr std::size_t kWaitingMax = 256;
  static constexpr auto kWaitMax = std::chrono::seconds(5);

  // The one implementation that there is.
  static PipelineHost& of(PipelineService& service) { return static_cast<PipelineHost&>(service); }

  explicit PipelineHost(std::shared_ptr<wire::EmulatedLine> line)
      : context_{std::make_shared<wire::TimerThread>(), std::move(line)} {}
  ~PipelineHost() override { context_.timer->stop(); }

  const StreamContext& context() const { return context_; }
  void enter(ReplicaId replica, const std::shared_ptr<Neighbours>& neighbours);
  void leave(ReplicaId replica);

  void arrived(const std::shared_ptr<AcceptedStream>& stream);  // from the service
  bool forget(AcceptedStream* stream) SHOAL_EXCLUDES(mutex_) override;

 private:
  void expire(AcceptedStream* stream) SHOAL_EXCLUDES(mutex_);

  StreamContext context_;
  Mutex mutex_;
  std::map<ReplicaId, std::shared_ptr<Neighbours>> here_ SHOAL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<AcceptedStream>> waiting_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::swarm
