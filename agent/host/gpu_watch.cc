#include "agent/host/gpu_watch.h"

#include <algorithm>
#include <chrono>

#include <unistd.h>

#include "agent/host/process_table.h"
#include "threads/clock.h"
#include "threads/sleep.h"

namespace shoal::agent {
namespace {

std::set<pid_t> with_this_process(std::set<pid_t> processes) {
  processes.insert(getpid());
  return processes;
}

bool is_gone(int code) { return code == kNvmlGpuLost || code == kNvmlNotFound; }

}  // namespace

GpuWatch::GpuWatch(DriverOptions driver, const std::vector<Gpu>& gpus, std::set<pid_t> adopted,
                   Duration every)
    : every_(every), leaders_(with_this_process(std::move(adopted))), driver_(std::move(driver)) {
  for (const Gpu& gpu : gpus) gpus_.emplace_back(gpu.uuid, gpu.elsewhere);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::vector<DeviceSample> GpuWatch::samples() {
  const MutexLock guard(mutex_);
  std::vector<DeviceSample> all;
  for (const GpuHistory& gpu : gpus_) {
    if (auto sample = gpu.sample(steady_now())) all.push_back(*std::move(sample));
  }
  return all;
}

std::vector<MeasuredMemory> GpuWatch::memory() {
  const MutexLock guard(mutex_);
  std::vector<MeasuredMemory> all;
  for (const GpuHistory& gpu : gpus_) {
    if (const auto memory = gpu.usable_memory()) all.push_back({gpu.uuid(), *memory});
  }
  return all;
}

int GpuWatch::rounds() {
  const MutexLock guard(mutex_);
  return rounds_;
}

bool GpuWatch::wait_for(int rounds, Duration limit) {
  MutexLock guard(mutex_);
  return asked_.wait_for(mutex_, std::chrono::nanoseconds(limit.ns),
                         [this, rounds]() SHOAL_REQUIRES(mutex_) { return rounds_ >= rounds; });
}

// ---- the thread

void GpuWatch::run(const std::stop_token& stop) {
  driver_.stop_with(stop);
  do {
    ask_all(stop);
  } while (sleep_unless_stopped(every_, stop));
  driver_.end();
}

// Those that answered last come first, because one that does not may end the helper, and with it
// the XIDs that it has collected.
void GpuWatch::ask_all(const std::stop_token& stop) {
  take_xids();
  std::vector<GpuHistory*> due;
  for (GpuHistory& gpu : gpus_) {
    if (gpu.is_due(steady_now())) due.push_back(&gpu);
  }
  std::ranges::stable_partition(due, [](const GpuHistory* gpu) { return gpu->answers(); });
  for (auto gpu = due.begin(); gpu != due.end() && !stop.stop_requested(); ++gpu) {
    if ((*gpu)->is_lost()) driver_.end();  // a driver finds a GPU again only when it starts anew
    const Status opened = open();
    if (!opened.ok()) {
      for (; gpu != due.end(); ++gpu) failed(**gpu, opened.error().message, false);
      break;
    }
    ask(**gpu);
  }
  for (GpuHistory& gpu : gpus_) {  // a helper collects the XIDs of GPUs that it has read
    if (gpu.answers() && !read_.contains(gpu.uuid()) && !stop.stop_requested() && open().ok())
      ask(gpu);
  }
  const MutexLock guard(mutex_);
  ++rounds_;
  asked_.notify_all();
}

void GpuWatch::failed(GpuHistory& gpu, const std::string& error, bool lost) {
  const MutexLock guard(mutex_);
  gpu.failed(steady_now(), error, lost);
}

void GpuWatch::take_xids() {
  for (GpuHistory& gpu : gpus_) {
    if (!driver_.is_open() || !read_.contains(gpu.uuid())) continue;
    const auto xids = driver_.xids(places_.at(gpu.uuid()));
    if (!xids.ok()) return failed(gpu, xids.error().message, false);
    const MutexLock guard(mutex_);
    gpu.reported(steady_now(), *xids);
  }
}

void GpuWatch::ask(GpuHistory& gpu) {
  const auto place = place_of(gpu.uuid());
  if (!place.ok()) return failed(gpu, place.error().message, false);
  if (!*place) return failed(gpu, "the driver no longer lists it", true);
  const bool list = gpu.wants_list(steady_now());
  const auto reading = driver_.read(**place, list);
  if (!reading.ok()) return failed(gpu, reading.error().message, false);
  if (reading->code != 0) return failed(gpu, reading->error, is_gone(reading->code));
  read_.insert(gpu.uuid());
  const auto ours = own_part(*reading);
  const MutexLock guard(mutex_);
  gpu.answered(steady_now(), *reading, list, ours);
}

Status GpuWatch::open() {
  if (driver_.is_open()) return {};
  const auto count = driver_.open();
  if (!count.ok()) return count.error();
  if (!*count) return Error{Code::kUnavailable, "its driver is gone", "", ""};
  uuids_.clear();
  read_.clear();
  if (count_ != **count) places_.clear();  // the driver numbers them anew
  count_ = **count;
  return {};
}

// Where the driver has a GPU; none: it does not list it. The place where it was comes first. A
// place that did not say its UUID comes last, because it may hang again.
Result<std::optional<unsigned>> GpuWatch::place_of(const std::string& uuid) {
  std::vector<unsigned> order;
  for (const bool silent : {false, true}) {
    for (unsigned place = 0; place < count_; ++place) {
      if (silent_places_.contains(place) == silent) order.push_back(place);
    }
  }
  if (const auto known = places_.find(uuid); known != places_.end()) {
    const unsigned place = known->second;
    const auto here = is_at(uuid, place);
    if (here.ok() && *here) return std::optional(place);
    places_.erase(uuid);                  // the next time all places are asked
    if (!here.ok()) return here.error();  // this GPU itself does not answer
  }
  std::optional<Error> silent;
  for (const unsigned place : order) {
    const auto here = is_at(uuid, place);
    if (here.ok() && *here) return std::optional(place);
    if (!here.ok()) silent = here.error();
  }
  if (silent) return *silent;
  return std::optional<unsigned>();
}

// An Error: this place does not say whose it is.
Result<bool> GpuWatch::is_at(const std::string& uuid, unsigned place) {
  if (Status opened = open(); !opened.ok()) return opened.error();
  if (place >= count_) return false;
  if (const auto known = uuids_.find(place); known != uuids_.end()) return known->second == uuid;
  const auto found = driver_.find(place);
  silent_places_.insert(place);
  if (!found.ok()) return found.error();
  const bool other = found->code == kNvmlNoPermission || is_gone(found->code);
  if (found->code != 0 && !other) return Error{Code::kUnavailable, found->error, "", ""};
  silent_places_.erase(place);
  if (other) return false;
  uuids_[place] = found->uuid;
  places_[found->uuid] = place;
  return found->uuid == uuid;
}

// None: the list was not read, or names no process, as in a container.
std::optional<Bytes> GpuWatch::own_part(const GpuReading& reading) const {
  if (!reading.listed || reading.processes.empty()) return std::nullopt;
  std::set<std::int64_t> own;
  for (const ProcessEntry& process : begun_by(leaders_, all_processes()))
    own.insert(process.id.pid);
  Bytes sum;
  for (const GpuProcess& process : reading.processes) {
    if (own.contains(process.pid)) sum += Bytes(process.bytes);
  }
  return sum;
}

}  // namespace shoal::agent
