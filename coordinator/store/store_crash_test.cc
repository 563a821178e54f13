// Kills a writing process at random moments and looks at what is left: everything it was told is
// durable must be there, every batch as a whole or not at all, and the file must be sound.
#include <chrono>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/store/sqlite.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

constexpr int kKills = 20;
constexpr std::int64_t kBatchSize = 5;

// Runs in the child: batches of kBatchSize events from `first` on, each acknowledged through the
// pipe.
[[noreturn]] void write_until_killed(const std::string& folder, std::int64_t first, int acks) {
  auto store = Store::open(folder);
  if (!store) ::_exit(3);
  for (std::int64_t seq = first;; seq += kBatchSize) {
    std::vector<Record> batch;
    for (std::int64_t i = 0; i < kBatchSize; ++i) {
      batch.push_back(EventRecord{.seq = seq + i, .kind = "crash_test", .message = "m"});
    }
    const std::int64_t last = seq + kBatchSize - 1;
    (*store)->write(std::move(batch), [acks, last](Status status) {
      if (!status.ok() || ::write(acks, &last, sizeof(last)) != sizeof(last)) ::_exit(4);
    });
  }
}

// Reads acknowledgements for `time`, kills the child, drains the pipe; the newest acknowledged
// number.
std::int64_t run_and_kill(const std::string& folder, std::int64_t first,
                          std::chrono::microseconds time) {
  int pipe_ends[2];
  SHOAL_CHECK(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  SHOAL_CHECK(child >= 0);
  if (child == 0) {
    ::close(pipe_ends[0]);
    write_until_killed(folder, first, pipe_ends[1]);
  }
  ::close(pipe_ends[1]);
  std::int64_t acked = 0, value = 0;
  const auto end = std::chrono::steady_clock::now() + time;
  bool killed = false;
  while (::read(pipe_ends[0], &value, sizeof(value)) == sizeof(value)) {
    acked = value;
    if (!killed && std::chrono::steady_clock::now() >= end) killed = ::kill(child, SIGKILL) == 0;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself with " << WEXITSTATUS(status);
  ::close(pipe_ends[0]);
  return acked;
}

TEST(StoreCrash, WhatWasAcknowledgedSurvivesAndNoBatchIsTorn) {
  TemporaryFolder folder;
  Prng prng(2024);
  std::int64_t stored = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::int64_t first = stored + 1;
    const std::int64_t acked =
        run_and_kill(folder.path(), first, std::chrono::microseconds(prng.range(100, 60'000)));
    const auto database =
        Database::open(folder.path() + "/state.db", OpenMode::kReadWrite, Durability::kFull);
    ASSERT_TRUE(database.ok());
    stored = *(*database)->integer("SELECT coalesce(max(seq), 0) FROM events");
    EXPECT_GE(stored, acked) << "kill " << kill;
    EXPECT_EQ(stored % kBatchSize, 0) << "kill " << kill;
    EXPECT_EQ(*(*database)->integer("SELECT count(*) FROM events"), stored);
    auto check = (*database)->prepare("PRAGMA integrity_check");
    ASSERT_TRUE(check.ok() && *check->step());
    EXPECT_EQ(check->text(0), "ok");
  }
  EXPECT_GT(stored, 0);
}

}  // namespace
}  // namespace shoal::coordinator
