// Nothing is forgotten, nothing is given out twice, and the number of runs stays small.
#include "coordinator/core/decisions/data_ledger.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/round/lease_runs.h"

namespace shoal::coordinator {
namespace {

using outer_opt::append;
using outer_opt::take_first;
using Runs = std::vector<DataLease>;

struct Ledger {
  std::int64_t next = 0;
  Runs returned;
  Runs lease(std::int64_t count, std::size_t runs_max = kLeaseRunsMax) {
    return coordinator::lease({next, returned}, count, runs_max);
  }
  void give_back(const Runs& runs) { coordinator::give_back({next, returned}, runs); }
};

TEST(DataLedger, GivesReturnedSequencesFirstAndMergesThem) {
  Ledger ledger;
  const Runs a = ledger.lease(10), b = ledger.lease(10), c = ledger.lease(10);
  EXPECT_EQ(c, (Runs{{20, 10}}));
  ledger.give_back(c);
  ledger.give_back(a);
  EXPECT_EQ(ledger.returned, (Runs{{0, 10}, {20, 10}}));
  EXPECT_EQ(ledger.lease(15), (Runs{{0, 10}, {20, 5}}));
  ledger.give_back(b);
  EXPECT_EQ(ledger.returned, (Runs{{10, 10}, {25, 5}}));
  EXPECT_TRUE(ledger.lease(0).empty());
  EXPECT_EQ(ledger.lease(20), (Runs{{10, 10}, {25, 10}})) << "what is new follows on";
  EXPECT_TRUE(ledger.returned.empty());
  EXPECT_EQ(ledger.next, 35);
}

TEST(DataLedger, RunsThatDoNotTouchStayApart) {
  Ledger ledger{100, {}};
  ledger.give_back({{0, 10}, {40, 10}, {20, 10}, {60, 0}});
  EXPECT_EQ(ledger.returned, (Runs{{0, 10}, {20, 10}, {40, 10}}));
}

TEST(DataLedger, ALeaseHasNoMoreRunsThanItMay) {
  Ledger ledger{100, {}};
  ledger.give_back({{0, 5}, {20, 5}, {40, 5}});
  EXPECT_EQ(ledger.lease(12, 2), (Runs{{0, 5}, {100, 7}}));
  EXPECT_EQ(ledger.lease(12, 1), (Runs{{107, 12}}));
  EXPECT_EQ(ledger.returned, (Runs{{20, 5}, {40, 5}}));
}

TEST(DataLedger, OfManyRunsTheShortestGoFirst) {
  Ledger ledger{100'000, {}};
  const auto many = static_cast<std::int64_t>(kReturnedUsual) + 1;
  for (std::int64_t i = 0; i < many; ++i) ledger.give_back({{20 * i, i % 100 == 7 ? 3 : 10}});
  EXPECT_EQ(ledger.lease(10), (Runs{{140, 3}, {2140, 3}, {4140, 3}, {0, 1}}));
  EXPECT_EQ(ledger.lease(12), (Runs{{1, 9}, {20, 3}})) << "few enough: in their order again";
}

// Four replicas of a job on datasets, in rounds of 30 sequences each and units of 100.
struct PlacedJob {
  static constexpr std::int64_t kUnit = 100, kRound = 30;
  void round(const std::set<std::size_t>& live) {
    for (const std::size_t i : live) {
      LeasePlace place{kUnit, ends.at(i), {}};
      for (const std::size_t other : live) {
        if (other != i) place.others.push_back(ends.at(other));
      }
      const Runs runs = lease_at({ledger.next, ledger.returned}, kRound, kLeaseRunsMax, place);
      EXPECT_EQ(count_sequences(runs), kRound);
      for (const DataLease& run : runs) {
        for (std::int64_t k = run.first; k < run.first + run.count; ++k) {
          EXPECT_TRUE(trained.insert(k).second) << k << " is given out twice";
          units.insert({i, k / kUnit});
        }
      }
      ends[i] = runs.back().first + runs.back().count;
    }
  }
  Ledger ledger;
  std::map<std::size_t, std::int64_t> ends{{0, -1}, {1, -1}, {2, -1}, {3, -1}};
  std::set<std::int64_t> trained;
  std::set<std::pair<std::size_t, std::int64_t>> units;  // that each replica reads
};

TEST(DataLedger, AReplicaStaysInItsRunAndNoOtherReadsIt) {
  PlacedJob job;
  for (int round = 0; round < 100; ++round) job.round({0, 1, 2, 3});
  EXPECT_EQ(job.trained.size(), 4u * 100 * 30);
  std::set<std::int64_t> read;
  for (const auto& [replica, unit] : job.units) read.insert(unit);
  EXPECT_EQ(job.units.size(), read.size()) << "no unit is read by two";
  EXPECT_LE(job.ledger.returned.size(), 4u) << "one remainder each";
}

TEST(DataLedger, WhatAReplicaThatWentHadIsTakenBeforeAnythingNew) {
  PlacedJob job;
  job.round({0, 1, 2, 3});
  const std::int64_t next = job.ledger.next;
  EXPECT_EQ(next, 4 * PlacedJob::kUnit);
  for (int round = 0; round < 2; ++round) job.round({0, 1});
  job.round({0, 1});
  EXPECT_EQ(job.ledger.next, next) << "replicas 2 and 3 have left 140";
  for (int round = 0; round < 50; ++round) job.round({0, 1});
  EXPECT_EQ(static_cast<std::int64_t>(job.trained.size()) + count_sequences(job.ledger.returned),
            job.ledger.next)
      << "everything is trained or waits";
}

TEST(DataLedger, ALeaseMayBeLongerThanAUnit) {
  Ledger ledger;
  const LeasePlace place{10, -1, {}};
  EXPECT_EQ(lease_at({ledger.next, ledger.returned}, 25, 8, place), (Runs{{0, 25}}));
  EXPECT_EQ(ledger.returned, (Runs{{25, 5}}));
  EXPECT_EQ(lease_at({ledger.next, ledger.returned}, 25, 8, {10, -1, {25}}), (Runs{{30, 25}}));
  EXPECT_EQ(lease_at({ledger.next, ledger.returned}, 25, 8, {10, 25, {55}}),
            (Runs{{25, 5}, {60, 20}}));
}

TEST(DataLedger, ARemainderThatWasMergedWithAnotherIsFoundByNobodyInParticular) {
  Ledger ledger{100, {}};
  ledger.give_back({{40, 60}});
  EXPECT_EQ(lease_at({ledger.next, ledger.returned}, 20, 8, {50, 70, {}}), (Runs{{40, 20}}));
}

// A job of rounds by time: everybody is leased what the fastest could train, and most of it comes
// back. Members are lost with all that they had, and some rounds are given up.
struct TimedJob {
  TimedJob(std::uint64_t seed, std::size_t members) : prng(seed), leases(members) {
    for (std::size_t i = 0; i < members; ++i) speeds.push_back(0.02 + prng.unit());
  }
  void round() {
    for (Runs& runs : leases) runs = ledger.lease(kLease);
    check();
    most = std::max(most, ledger.returned.size());
    for (std::size_t i = 0; i < leases.size(); ++i) end(i);
    most = std::max(most, ledger.returned.size());
    check();
  }
  void end(std::size_t i) {
    const bool lost = prng.chance(0.02);
    const double share = lost ? 0 : speeds[i] * (0.8 + 0.2 * prng.unit()) / 1.5;
    const auto steps = static_cast<std::int64_t>(share * static_cast<double>(kLease / kBatch));
    done.next = ledger.next;
    for (const DataLease& run : take_first(leases[i], steps * kBatch)) done.give_back({run});
    ledger.give_back(leases[i]);
    leases[i].clear();
  }
  // [0, next) is done, returned and leased, each sequence once: give_back() refuses a second one.
  void check() {
    Ledger all = done;
    all.next = ledger.next;
    all.give_back(ledger.returned);
    for (const Runs& runs : leases) {
      ASSERT_LE(runs.size(), kLeaseRunsMax);
      all.give_back(runs);
    }
    ASSERT_EQ(all.returned, (Runs{{0, ledger.next}}));
  }
  static constexpr std::int64_t kBatch = 8, kLease = 100 * kBatch;
  Prng prng;
  std::vector<double> speeds;
  std::vector<Runs> leases;
  Ledger ledger, done;
  std::size_t most = 0;
};

TEST(DataLedger, EverySequenceIsDoneReturnedOrLeasedInRoundsByTime) {
  for (const std::size_t members : {1, 2, 7, 40, 300}) {
    TimedJob job(members, members);
    for (int i = 0; i < (members > 100 ? 50 : 300); ++i) {
      job.round();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_LE(job.most, kReturnedUsual + 4 * members) << members << " members";
    const std::int64_t done = count_sequences(job.done.returned);
    EXPECT_GT(done, 9 * job.ledger.next / 10) << members << " members: what comes back is trained";
  }
}

TEST(ShareBatch, FollowsSpeedInWholeMicrobatches) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(share_batch(16, 4, {1}), (Counts{16}));
  EXPECT_EQ(share_batch(32, 4, {1, 1}), (Counts{16, 16}));
  EXPECT_EQ(share_batch(32, 4, {3, 1}), (Counts{24, 8}));
  EXPECT_EQ(share_batch(12, 4, {1, 1}), (Counts{8, 4})) << "of equals the first draws the odd one";
  EXPECT_EQ(share_batch(16, 4, {}), Counts{}) << "nobody draws";
  EXPECT_EQ(share_batch(12, 1, {5, 2, 1}), (Counts{8, 3, 1}));  // ends at 1.6, 1.5 and 1
}

TEST(ShareBatch, GivesTheSlowestOneMicrobatchAndTheUnknownTheMean) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(share_batch(16, 2, {1000, 1}), (Counts{14, 2}));
  EXPECT_EQ(share_batch(16, 8, {1000, 1}), (Counts{8, 8}));
  EXPECT_EQ(share_batch(18, 1, {0, 2, 4}), share_batch(18, 1, {3, 2, 4}));
  EXPECT_EQ(share_batch(12, 2, {0, 0}), (Counts{6, 6}));
}

}  // namespace
}  // namespace shoal::coordinator
