// See many_agents.h.
#include "bench/agents/many_agents.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <variant>

#include "agent/core/gpu_history.h"
#include "agent/host/coordinator_link.h"
#include "agent/host/membership.h"
#include "base/prng.h"
#include "threads/clock.h"
#include "threads/mutex.h"

namespace shoal::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::string uid_of(int number) {
  const std::string digits = std::to_string(number);
  return std::string(32 - digits.size(), '0') + digits;
}

std::string gpu_of(int number, int index) {
  return "GPU-" + std::to_string(number) + "-" + std::to_string(index);
}

std::vector<Device> devices_of(int number, int gpus) {
  if (gpus == 0) return {{0, DeviceKind::kCpu, "none", mebibytes(1), 1, false}};
  std::vector<Device> devices;
  for (int i = 0; i < gpus; ++i) {
    devices.push_back({i, DeviceKind::kCuda, "GPU", mebibytes(80'000), 1, true, gpu_of(number, i),
                       mebibytes(81'920)});
  }
  return devices;
}

constexpr std::int64_t kHeartbeatsASample = 5;  // of 2 s each

// The GPUs of an agent while they train: what their drivers read is never the same twice, and what
// of it is told is decided as by an agent.
class TrainingGpus {
 public:
  TrainingGpus(int number, int gpus)
      : prng_(static_cast<std::uint64_t>(number)), told_(static_cast<std::size_t>(gpus)) {
    for (int i = 0; i < gpus; ++i) gpus_.emplace_back(gpu_of(number, i), mebibytes(500));
  }

  std::vector<DeviceSample> news(Instant now) {
    std::vector<DeviceSample> news;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      gpus_[i].answered(now, reading(), false, std::nullopt);
      DeviceSample sample = *gpus_[i].sample(now);
      if (!agent::is_news(told_[i], sample)) continue;
      told_[i] = sample;
      news.push_back(std::move(sample));
    }
    return news;
  }

 private:
  agent::GpuReading reading() {
    agent::GpuReading reading;
    reading.has_memory = reading.has_load = reading.has_climate = reading.has_counters = true;
    reading.memory_total = mebibytes(81'920).count();
    reading.memory_used = mebibytes(40'000).count();
    reading.busy = 0.96 + 0.02 * prng_.normal();
    reading.celsius = 65 + prng_.normal();
    reading.watts = 620 + 15 * prng_.normal();
    reading.watts_limit = 700;
    reading.mhz = 1700 + 20 * prng_.normal();
    reading.mhz_max = 1980;
    return reading;
  }

  Prng prng_;
  std::vector<agent::GpuHistory> gpus_;
  std::vector<DeviceSample> told_;
};

Hello hello_of(int number, int gpus) {
  Hello hello{.uid = uid_of(number), .name = "many-" + std::to_string(number)};
  hello.version = SHOAL_VERSION;
  hello.host = "127.0.0.1";
  hello.devices = devices_of(number, gpus);
  return hello;
}

// One agent. What it hears comes from gRPC's threads.
struct Member {
  TrainingGpus gpus{0, 0};
  std::shared_ptr<agent::Membership> membership;
  Mutex mutex;
  CondVar heard;
  Duration heartbeat_every SHOAL_GUARDED_BY(mutex);  // zero: not welcomed yet
  std::string ended SHOAL_GUARDED_BY(mutex);         // why; empty: the session stands
  std::int64_t sequence = 0;                         // the sender's
  Clock::time_point due;                             // the sender's
  std::unique_ptr<agent::CoordinatorLink> link;

  void hear(const agent::Input& input) {
    const MutexLock guard(mutex);
    if (const auto* said = std::get_if<agent::CoordinatorSaid>(&input)) {
      if (const auto* welcome = std::get_if<Welcome>(&said->message)) {
        heartbeat_every = welcome->heartbeat_every;
      } else if (const auto* refused = std::get_if<Refused>(&said->message)) {
        ended = refused->error.message;
      }
    } else if (const auto* down = std::get_if<agent::LinkDown>(&input)) {
      ended = down->error.message;
    }
    heard.notify_all();
  }

  Status wait_for_welcome(Duration limit) {
    const MutexLock guard(mutex);
    heard.wait_for(mutex, std::chrono::nanoseconds(limit.ns), [this]() SHOAL_REQUIRES(mutex) {
      return heartbeat_every.ns > 0 || !ended.empty();
    });
    if (!ended.empty()) return Error{Code::kUnavailable, ended, "", ""};
    if (heartbeat_every.ns > 0) return {};
    return Error{Code::kDeadlineExceeded, "an agent was not welcomed", "", ""};
  }

  Duration interval() {
    const MutexLock guard(mutex);
    return heartbeat_every;
  }
  bool is_lost() {
    const MutexLock guard(mutex);
    return !ended.empty();
  }
};

class Joined final : public ManyAgents {
 public:
  ~Joined() override {
    sender_ = {};
    for (auto& member : members_) member->link.reset();
  }

  Status add(const ManyAgentsOptions& options, int number, JoinTimes& times) {
    auto member = std::make_unique<Member>();
    member->gpus = TrainingGpus(number, options.gpus);
    const std::string folder = options.folder + "/" + std::to_string(number);
    std::filesystem::create_directories(folder);
    const Hello hello = hello_of(number, options.gpus);
    const auto begin = Clock::now();
    auto opened = agent::Membership::open({.folder = folder,
                                           .uid = hello.uid,
                                           .name = hello.name,
                                           .join_token = options.join_token,
                                           .enrol = options.enrol,
                                           .coordinator = options.coordinator});
    if (!opened.ok()) return opened.error();
    member->membership = std::move(opened).value();
    if (Status joined = member->membership->ensure(); !joined.ok()) return joined;
    times.enrol_ms.push_back(ms_since(begin));
    return open_session(options, std::move(member), hello, times);
  }

  // Before the first one joins: an agent that is silent while others join loses its session.
  void begin_sending() {
    sender_ = std::jthread([this](const std::stop_token& stop) { send_until(stop); });
  }

  std::int64_t sent() const override { return sent_; }
  int lost() const override {
    const MutexLock guard(mutex_);
    return static_cast<int>(
        std::ranges::count_if(members_, [](const auto& member) { return member->is_lost(); }));
  }

 private:
  Status open_session(const ManyAgentsOptions& options, std::unique_ptr<Member> member,
                      const Hello& hello, JoinTimes& times) {
    const auto begin = Clock::now();
    Member* hearer = member.get();
    const agent::CoordinatorEndpoint endpoint{
        options.coordinator, [joined = member->membership] { return joined->credentials(); }};
    member->link = std::make_unique<agent::CoordinatorLink>(
        endpoint, agent::LinkId{1}, hello,
        [hearer](const agent::Input& input) { hearer->hear(input); },
        [](const std::vector<AgentId>&) {});  // it has no trainers that would have to know
    Status welcomed = member->wait_for_welcome(options.welcome_limit);
    if (welcomed.ok()) {
      times.welcome_ms.push_back(ms_since(begin));
      member->due = Clock::now();
      const MutexLock guard(mutex_);
      members_.push_back(std::move(member));
    }
    return welcomed;
  }

  // Agents keep the distances in which they came, so heartbeats come evenly.
  void send_until(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      send_due();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void send_due() {
    const MutexLock guard(mutex_);
    const auto now = Clock::now();
    for (auto& member : members_) {
      if (now < member->due) continue;
      Heartbeat heartbeat{++member->sequence, mebibytes(100)};
      if (member->sequence % kHeartbeatsASample == 0) {
        heartbeat.samples = member->gpus.news(steady_now());
      }
      member->link->send(std::move(heartbeat));
      member->due += std::chrono::nanoseconds(member->interval().ns);
      ++sent_;
    }
  }

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Member>> members_ SHOAL_GUARDED_BY(mutex_);
  std::atomic<std::int64_t> sent_{0};
  std::jthread sender_;
};

}  // namespace

Result<std::unique_ptr<ManyAgents>> ManyAgents::join(const ManyAgentsOptions& options,
                                                     JoinTimes& times) {
  auto joined = std::make_unique<Joined>();
  joined->begin_sending();
  for (int number = 0; number < options.agents; ++number) {
    Status added = joined->add(options, number, times);
    if (!added.ok()) {
      Error error = added.error();
      error.message = "agent " + std::to_string(number) + ": " + error.message;
      return error;
    }
  }
  return std::unique_ptr<ManyAgents>(std::move(joined));
}

}  // namespace shoal::bench
