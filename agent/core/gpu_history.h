// What an agent knows of one GPU from what its driver answers over time, as a sample for the
// heartbeats (messages/device.h). Figures move in steps with a dead band, so that an idle GPU has
// nothing new to tell. Counters never go back: one that does keeps its highest value, and the
// sample says so. XIDs are counted here, so they survive a restart of the process that reads them.
// A question that this driver has never answered is no fault: the sample names it and is whole.
// A GPU that does not answer keeps its last values and is asked again after 10 s, doubling up to 10
// minutes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/device_memory.h"
#include "base/flat_map.h"
#include "messages/device.h"

namespace shoal::agent {

struct GpuProcess {
  std::int64_t pid = 0;
  std::int64_t bytes = 0;
};

// A question to the driver, as people read it, and why it was not answered; empty: it was.
struct GpuQuestion {
  std::string name;
  std::string error;
};

// One answer of the driver about one GPU. Groups that it did not answer have their flag false.
struct GpuReading {
  std::int32_t code = 0;  // NVML's, of the question that names the GPU; 0: it answers
  std::string uuid;
  std::string error;  // the first question that failed, and why
  bool has_memory = false, has_load = false, has_climate = false, has_counters = false;
  std::int64_t memory_total = 0, memory_used = 0;
  double busy = 0;  // share of the time, 0 to 1
  double celsius = 0, watts = 0, watts_limit = 0, mhz = 0, mhz_max = 0;
  std::vector<std::string> throttled = {};
  std::int64_t ecc_corrected = 0, ecc_uncorrected = 0, rows_remapped = 0;
  bool remap_pending = false, remap_failed = false;
  std::int64_t pcie_replays = 0, nvlink_errors = 0;
  std::int32_t recovery = 0;  // NVML_GPU_RECOVERY_ACTION_…
  bool listed = false;        // the processes were asked for, and the driver lists them
  std::vector<GpuProcess> processes = {};
  std::vector<GpuQuestion> questions = {};  // all that were asked
};

class GpuHistory {
 public:
  // elsewhere: memory used when no trainer of this agent ran yet.
  GpuHistory(std::string uuid, Bytes elsewhere)
      : memory_(elsewhere), sample_{.uuid = std::move(uuid)} {}

  bool is_due(Instant now) const { return now >= rests_until_; }
  bool wants_list(Instant now) const { return memory_.wants_list(now); }

  // listed: the list of processes was asked for. ours: of this agent's trainers; none: not known.
  void answered(Instant now, const GpuReading& reading, bool listed, std::optional<Bytes> ours);
  // It, or the whole driver, did not answer. lost: its UUID is gone.
  void failed(Instant now, const std::string& error, bool lost);
  // XIDs since they were asked for before.
  void reported(Instant now, const std::vector<std::int32_t>& xids);

  bool answers() const {
    return sample_.answer == DeviceAnswer::kWhole || sample_.answer == DeviceAnswer::kPartial;
  }
  bool is_lost() const { return sample_.answer == DeviceAnswer::kLost; }
  const std::string& uuid() const { return sample_.uuid; }
  std::optional<DeviceSample> sample(Instant now) const;  // none: it was never asked
  std::optional<Bytes> usable_memory() const;             // none: not known

 private:
  void take_counters(const GpuReading& reading, std::string& error);
  std::string failure_in(const GpuReading& reading) const;
  std::string never_answered(const GpuReading& reading) const;

  GpuMemory memory_;
  DeviceSample sample_;
  bool has_memory_ = false;
  std::optional<Instant> answered_at_;
  Instant rests_until_;
  Duration rest_;
  FlatMap<std::int32_t, Instant> xids_at_;  // the last one of each
  std::set<std::string> answered_;          // questions, at least once
};

// Whether the coordinator has to hear of `now` that knows `told`. Ages follow from the time that
// has passed, so they are news only once they have doubled.
bool is_news(DeviceSample told, const DeviceSample& now);

}  // namespace shoal::agent
