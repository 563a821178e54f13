// Metrics of one agent's process, as native types of prometheus-cpp in a registry of their own:
// its trainers, its session with the coordinator, and the bytes that it moves. They follow from the
// inputs and effects of the agent's core, which knows nothing of Prometheus. metrics_page.h answers
// scrapes; docs/metrics.md lists all metrics.
//
// observe() and measured() belong to the core's thread; the other methods are thread-safe.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "agent/core/io.h"
#include "base/units.h"

namespace shoal::agent {

class HostMeters {
 public:
  explicit HostMeters(const std::string& version);

  // Each input of the core, and each effect, in order.
  void observe(const Input& input);
  void observe(const Effect& effect);

  // Resident memory, trainers by slot. A trainer that is missing has ended.
  void measured(Bytes agent, const std::map<std::int32_t, Bytes>& trainers);

  void dataset_read(Bytes fetched);  // from the coordinator, an object store or a URL
  void output_left_out(Bytes lost);  // of one flood of a trainer's output

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  void note(const Booted& input);
  void note(const LinkDown& input);
  void note(const CoordinatorSaid& input);
  void note(const TrainerExited& input);
  void note(const CheckpointFetchMoved& input);
  void note(const CheckpointFetched& input) { fetches_.erase(input.part); }
  void note(const CheckpointFetchFailed& input) { fetches_.erase(input.part); }
  void note(const CheckpointUploadMoved& input);
  void note(const CheckpointUploadDone& input) { uploads_.erase(input.part); }
  void note(const CheckpointUploadFailed& input) { uploads_.erase(input.part); }
  void note(const CodeFetchMoved& input);
  void note(const CodeFetched& input) { codes_.erase(input.code); }
  void note(const CodeFetchFailed& input) { codes_.erase(input.code); }
  void note(const OpenLink& effect);
  void note(const CloseLink& effect);
  void note(const SendCoordinator& effect);
  void note(const StartTrainer& effect);
  template <typename Other>
  void note(const Other&) {}
  void show_running();

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Gauge& trainers_;
  prometheus::Counter& started_;
  prometheus::Family<prometheus::Counter>& ended_;
  prometheus::Gauge& agent_resident_;
  prometheus::Family<prometheus::Gauge>& trainer_resident_;
  prometheus::Gauge& session_up_;
  prometheus::Counter &sessions_, &session_losses_, &session_failures_, &heartbeats_;
  prometheus::Counter &checkpoints_down_, &code_down_, &datasets_down_, &checkpoints_up_;
  prometheus::Counter &floods_, &left_out_;

  LinkId link_;  // the newest one
  std::set<TrainerId> running_;
  std::map<std::int32_t, prometheus::Gauge*> resident_;  // by slot
  // Transfers in progress, and how far each is. Bytes that an earlier one left do not count.
  std::map<CheckpointPartId, Bytes> fetches_, uploads_;
  std::map<std::string, Bytes> codes_;
};

}  // namespace shoal::agent
