// Nothing is performed before what it waits for is durable, and everything in its order.
#include "coordinator/service/delivery.h"

#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using ::testing::ElementsAre;

// Takes writes and commits them when the test says so.
class ManualStore final : public Store {
 public:
  Result<Snapshot> load() override { return Snapshot{}; }
  void write(std::vector<Record>, std::function<void(Status)> done) override {
    const MutexLock guard(mutex_);
    waiting_.push_back(std::move(done));
  }
  Result<MachineTables> load_machines() override { return MachineTables{}; }
  void write_machines(std::vector<MachineRow>, std::function<void(Status)> done) override {
    write({}, std::move(done));
  }
  Result<PeopleTables> load_people() override { return PeopleTables{}; }
  Result<FileTables> load_files() override { return FileTables{}; }
  void write_files(std::vector<FileRow>, std::function<void(Status)> done) override { done({}); }
  void write_people(std::vector<PeopleRow>, std::function<void(Status)> done) override {
    write({}, std::move(done));
  }
  void append(std::vector<SeriesPoint>) override {}
  void forget_after(JobId, RoundNumber) override {}
  void append_devices(DeviceLog) override {}
  void forget_devices(AgentId) override {}
  std::unique_ptr<Reader> reader() override { return nullptr; }
  StoreStats stats() const override { return {}; }
  const std::string& folder() const override { return folder_; }

  void commit_one(Status status = {}) {
    std::function<void(Status)> done;
    {
      const MutexLock guard(mutex_);
      SHOAL_CHECK(!waiting_.empty());
      done = std::move(waiting_.front());
      waiting_.pop_front();
    }
    done(status);
  }

 private:
  Mutex mutex_;
  std::deque<std::function<void(Status)>> waiting_ SHOAL_GUARDED_BY(mutex_);
  std::string folder_;
};

Effect send(std::uint64_t n) { return Send{{n}, Release{}}; }
Effect persist() { return Persist{EventRecord{}}; }

class DeliveryTest : public ::testing::Test {
 protected:
  std::vector<std::uint64_t> performed() {
    const MutexLock guard(mutex_);
    return performed_;
  }
  Delivery::Hooks hooks() {
    return {.perform =
                [this](Delivery::Group group) {
                  const MutexLock guard(mutex_);
                  for (const Effect& effect : group.effects) {
                    performed_.push_back(std::get<Send>(effect).connection.n);
                  }
                },
            .failed = [this](const Error& error) { failure_.set_value(error); }};
  }

  Mutex mutex_;
  std::vector<std::uint64_t> performed_ SHOAL_GUARDED_BY(mutex_);
  std::promise<Error> failure_;
  ManualStore store_;
  Delivery delivery_{store_, hooks()};
};

TEST_F(DeliveryTest, ASendWaitsForTheRecordsBeforeIt) {
  delivery_.push({persist(), persist(), send(1)});
  EXPECT_FALSE(delivery_.drain(milliseconds(20)));
  EXPECT_THAT(performed(), ElementsAre());
  store_.commit_one();
  EXPECT_TRUE(delivery_.drain(seconds(10)));
  EXPECT_THAT(performed(), ElementsAre(1));
}

TEST_F(DeliveryTest, ASendWithoutRecordsDoesNotOvertake) {
  delivery_.push({send(1)});
  EXPECT_TRUE(delivery_.drain(seconds(10)));
  delivery_.push({persist(), send(2)});
  delivery_.push({send(3)});
  delivery_.push({send(4), persist(), send(5)});
  EXPECT_THAT(performed(), ElementsAre(1));
  store_.commit_one();
  store_.commit_one();
  EXPECT_TRUE(delivery_.drain(seconds(10)));
  EXPECT_THAT(performed(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(DeliveryTest, AfterAFailedWriteNothingIsPerformed) {
  delivery_.push({persist(), send(1)});
  delivery_.push({persist(), send(2)});
  store_.commit_one(Error{.code = Code::kResourceExhausted, .message = "disk full"});
  EXPECT_EQ(failure_.get_future().get().code, Code::kResourceExhausted);
  store_.commit_one(Error{.code = Code::kResourceExhausted, .message = "disk full"});
  delivery_.push({send(3)});
  EXPECT_TRUE(delivery_.drain(seconds(10)));
  EXPECT_THAT(performed(), ElementsAre());
}

}  // namespace
}  // namespace shoal::coordinator
