// For tests: communicators between threads of this process that behave as NCCL's do. One is there
// when all ranks began theirs; a sum is done when all began it, and those who wait are never told
// of the dead; what is being added is lost until then. Sums are taken in the order of the ranks. A
// hook is called whenever a rank begins or polls something, so that a test can strike at any
// moment.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "swarm/cuda/communicator.h"
#include "threads/mutex.h"

namespace shoal::swarm {

// Where the ranks of all communicators meet. Thread-safe.
class HostMeeting {
 public:
  std::uint64_t open() {
    const MutexLock lock(mutex_);
    return ++last_;
  }
  void arrive(std::uint64_t id, int size) {
    const MutexLock lock(mutex_);
    Place& place = places_[id];
    place.size = size;
    ++place.arrived;
  }
  bool all_here(std::uint64_t id) {
    const MutexLock lock(mutex_);
    return places_[id].arrived == places_[id].size;
  }
  void give(std::uint64_t id, int turn, int rank, std::vector<float> values) {
    const MutexLock lock(mutex_);
    places_[id].turns[turn][rank] = std::move(values);
  }
  // Empty: not everybody gave.
  std::vector<float> sum(std::uint64_t id, int turn) {
    const MutexLock lock(mutex_);
    const auto& given = places_[id].turns[turn];
    if (static_cast<int>(given.size()) < places_[id].size) return {};
    std::vector<float> total = given.begin()->second;
    for (auto next = std::next(given.begin()); next != given.end(); ++next) {
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += next->second[i];
    }
    return total;
  }

 private:
  struct Place {
    int size = 0, arrived = 0;
    std::map<int, std::map<int, std::vector<float>>> turns;  // by turn, by rank
  };
  Mutex mutex_;
  std::uint64_t last_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Place> places_ SHOAL_GUARDED_BY(mutex_);
};

enum class HostMoment { kBegin, kWaitForAll, kBeginAdd, kWaitForSum };

// Called whenever a rank comes to such a moment: true, the library fails there.
using HostHook = std::function<bool(HostMoment)>;

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(HostMeeting& meeting, const HostHook& hook, std::uint64_t id, int rank, int size)
      : meeting_(meeting), hook_(hook), id_(id), rank_(rank) {
    meeting_.arrive(id_, size);
  }
  GroupProgress poll() override {
    const bool forming = values_ == nullptr;
    if (hook_(forming ? HostMoment::kWaitForAll : HostMoment::kWaitForSum)) {
      return GroupProgress::kFailed;
    }
    if (forming) return done(meeting_.all_here(id_));
    const std::vector<float> sum = meeting_.sum(id_, turn_);
    if (!sum.empty()) std::memcpy(values_, sum.data(), sum.size() * sizeof(float));
    return done(!sum.empty());
  }
  Status begin_add(float* values, std::size_t count) override {
    if (hook_(HostMoment::kBeginAdd)) return Error{Code::kInternal, trouble(), "", ""};
    meeting_.give(id_, ++turn_, rank_, {values, values + count});
    values_ = values;
    std::fill_n(values, count, NAN);
    return {};
  }
  std::string trouble() const override { return "the test wants it so"; }

 private:
  static GroupProgress done(bool yes) {
    return yes ? GroupProgress::kDone : GroupProgress::kWaiting;
  }
  HostMeeting& meeting_;
  const HostHook hook_;
  const std::uint64_t id_;
  const int rank_;
  int turn_ = 0;
  float* values_ = nullptr;
};

class HostLibrary final : public CommunicatorLibrary {
 public:
  explicit HostLibrary(
      HostMeeting& meeting, HostHook hook = [](HostMoment) { return false; })
      : meeting_(meeting), hook_(std::move(hook)) {}
  std::int32_t version() const override { return 1; }
  std::string name() const override { return "the host"; }
  Result<CommunicatorId> make_id() override {
    CommunicatorId id{};
    const std::uint64_t number = meeting_.open();
    std::memcpy(id.data(), &number, sizeof number);
    return id;
  }
  Result<std::unique_ptr<Communicator>> begin(const CommunicatorId& id, int rank,
                                              int size) override {
    if (hook_(HostMoment::kBegin)) return Error{Code::kInternal, "the test wants it so", "", ""};
    std::uint64_t number = 0;
    std::memcpy(&number, id.data(), sizeof number);
    return std::unique_ptr<Communicator>(
        std::make_unique<HostCommunicator>(meeting_, hook_, number, rank, size));
  }

 private:
  HostMeeting& meeting_;
  const HostHook hook_;
};

}  // namespace shoal::swarm
