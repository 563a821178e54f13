// The inside of PipelineService (stage_runtime.h): which replicas are here, and the streams that
// wait for one that is not here yet. A stream waits for kWaitMax, kWaitingMax of them at most; then
// it is refused by name, and its sender dials again. A stream whose dialing end has not shown to
// be the replica that it speaks for is refused before a byte of it is taken.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "swarm/pipeline/neighbors.h"
#include "swarm/pipeline/stage_runtime.h"
#include "threads/mutex.h"

namespace shoal::swarm {

class PipelineHost : public std::enable_shared_from_this<PipelineHost> {
 public:
  static constexpr std::size_t kWaitingMax = 256;
  static constexpr auto kWaitMax = std::chrono::seconds(5);

  static PipelineHost& of(PipelineService& service);

  explicit PipelineHost(wire::stream::Peers& peers);

  const StreamContext& context() const { return context_; }
  void enter(ReplicaId replica, const std::shared_ptr<Neighbors>& neighbors);
  void leave(ReplicaId replica);

  void begin();  // takes what peers dial
  void end();    // and no more of it; nothing waits any more

 private:
  std::shared_ptr<wire::stream::StreamEvents> accept(std::shared_ptr<wire::stream::Stream> stream,
                                                     std::string_view purpose);
  void arrived(const std::shared_ptr<Stream>& stream) SHOAL_EXCLUDES(mutex_);
  bool forget(Stream& stream) SHOAL_EXCLUDES(mutex_);
  void expire(Stream& stream) SHOAL_EXCLUDES(mutex_);

  const StreamContext context_;
  Mutex mutex_;
  std::map<ReplicaId, std::shared_ptr<Neighbors>> here_ SHOAL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Stream>> waiting_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::swarm
