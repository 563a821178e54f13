// Asks the driver for the figures of this agent's GPUs from time to time, on a thread of its own,
// through one helper process for all of them (driver_helper.h). A GPU that does not answer in time
// costs itself only: the helper is started again for the others, and that GPU rests
// (gpu_history.h). The thread that decides takes what is known, and never waits for a driver.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "agent/core/gpu_history.h"
#include "agent/core/io.h"
#include "agent/host/driver_helper.h"
#include "threads/mutex.h"

namespace shoal::agent {

class GpuWatch {
 public:
  struct Gpu {
    std::string uuid;
    Bytes elsewhere;  // memory used when no trainer of this agent ran yet
  };

  // adopted: trainers that an earlier start of this agent left. What they hold is this agent's, as
  // is what descends from this process.
  GpuWatch(DriverOptions driver, const std::vector<Gpu>& gpus, std::set<pid_t> adopted,
           Duration every);

  std::vector<DeviceSample> samples() SHOAL_EXCLUDES(mutex_);
  std::vector<MeasuredMemory> memory() SHOAL_EXCLUDES(mutex_);

  // How often each GPU that is due was asked. Waits until that is reached, or the limit has passed.
  int rounds() SHOAL_EXCLUDES(mutex_);
  bool wait_for(int rounds, Duration limit) SHOAL_EXCLUDES(mutex_);

 private:
  void run(const std::stop_token& stop);
  void ask_all(const std::stop_token& stop) SHOAL_EXCLUDES(mutex_);
  void ask(GpuHistory& gpu) SHOAL_EXCLUDES(mutex_);
  void take_xids() SHOAL_EXCLUDES(mutex_);
  Status open();
  Result<std::optional<unsigned>> place_of(const std::string& uuid);
  Result<bool> is_at(const std::string& uuid, unsigned place);
  std::optional<Bytes> own_part(const GpuReading& reading) const;
  void failed(GpuHistory& gpu, const std::string& error, bool lost) SHOAL_EXCLUDES(mutex_);

  const Duration every_;
  const std::set<pid_t> leaders_;  // of own processes
  // Only the thread uses these.
  DriverHelper driver_;
  unsigned count_ = 0;                      // of the driver's list
  std::map<unsigned, std::string> uuids_;   // by place, as this helper said
  std::set<std::string> read_;              // UUIDs that this helper has read
  std::map<std::string, unsigned> places_;  // by UUID, as any helper said
  std::set<unsigned> silent_places_;        // that did not say their UUID

  Mutex mutex_;
  CondVar asked_;
  int rounds_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::vector<GpuHistory> gpus_;  // changed by the thread, under mutex_
  std::jthread thread_;           // last: it uses the others
};

}  // namespace shoal::agent
