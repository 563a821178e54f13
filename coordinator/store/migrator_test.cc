// Migrations: a fresh folder, a step with its backup, and every file that must be refused
// untouched.
#include "coordinator/store/migrator.h"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/json_fields.h"
#include "coordinator/store/sqlite_reader.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Migration kFirst{1, "first",
                           "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);"};
constexpr Migration kSecond{2, "second", "ALTER TABLE a ADD COLUMN y INTEGER;"};
constexpr Migration kFourth{4, "fourth", "ALTER TABLE a ADD COLUMN z INTEGER;"};
constexpr Migration kBroken{2, "broken", "INSERT INTO a VALUES (8); CREATE TABLE a (x INTEGER);"};

// A database of the version before pipelines, with a row in every table that 0002 changes.
constexpr const char* kRowsOfVersionOne = R"SQL(
  INSERT INTO jobs (id, spec, phase, desired, reason, detail, created_at_ns, updated_at_ns,
      started_at_ns, finished_at_ns, lineage, committed_round, committed_at_ns, committed_step,
      committed_tokens, anchor, momentum, value_count, next_sequence, returned, train_loss,
      validation_loss, validation_round, bytes_sent, failures_in_row)
    VALUES (3, ?1, 'training', 'run', 'running', '', 1, 2, 3, 0, 1, 7, 5, 350, 9000,
      '0000000000000001000000000000000b', '0000000000000002000000000000000c', 1000, 44, '[]', 2.5,
      NULL, -1, 77, 0);
  )SQL";
constexpr const char* kMoreRowsOfVersionOne = R"SQL(
  INSERT INTO rounds VALUES (3, 1, 7, 'committed', 4, 1, 'time_spent', 300, 350, 10, 11, 12, 13,
      '0000000000000003000000000000000d', '0000000000000001000000000000000b', '', 640, 2.5, 0, 0, 0,
      2);
  INSERT INTO contributions VALUES (3, 1, 7, 21, 5, 'committed', 'none', '[[0,4]]', 3, 1, 7, 640, 50,
      2.5, 0.5, 0.25, 0, 8.5, 20, 21, 22, 640, 1, 0, 0, 1000, '', '', 9, 8, 0.5, -1, 0);
  INSERT INTO checkpoints VALUES (9, 3, 1, 7, 'stored', 0, 21, 350, 9000,
      '0000000000000001000000000000000b', '0000000000000002000000000000000c', 40, '[[4,2]]',
      '[{"path":"model.safetensors","size":12,"sha256":"ab"}]', '', 30, 31);
  )SQL";

class MigratorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Database> open() {
    auto database =
        Database::open(folder_.path() + "/state.db", OpenMode::kReadWrite, Durability::kFull);
    SHOAL_CHECK(database.ok());
    return std::move(database).value();
  }
  Status migrate_to(std::vector<Migration> migrations) {
    return migrate(*open(), migrations, folder_.path() + "/state.pre");
  }
  // A database of version one with its rows, then the migrations up to `last`.
  void migrate_old_rows_to(std::size_t last) {
    const auto all = embedded_migrations();
    ASSERT_TRUE(migrate_to({all[0]}).ok());
    {
      const auto database = open();
      auto row = database->prepare(kRowsOfVersionOne);
      ASSERT_TRUE(row.ok()) << to_string(row.error());
      row->bind(1, std::string_view(to_json(old_spec_)));
      ASSERT_TRUE(row->run().ok());
      const Status more = database->exec(kMoreRowsOfVersionOne);
      ASSERT_TRUE(more.ok()) << to_string(more.error());
    }
    const Status migrated = migrate_to({all.begin(), all.begin() + last});
    ASSERT_TRUE(migrated.ok()) << to_string(migrated.error());
  }

  TemporaryFolder folder_;
  JobSpec old_spec_ = [] {
    JobSpec spec;
    spec.name = "old";
    spec.data.train = "/data/a.txt";
    spec.model.layers = 6;
    return with_derived_fields(spec);
  }();
};

// Applied in this order; a number may be left out, none is there twice.
TEST_F(MigratorTest, EmbeddedMigrationsAreNumberedUpwards) {
  int before = 0;
  for (const Migration& migration : embedded_migrations()) {
    EXPECT_GT(migration.version, before);
    before = migration.version;
  }
  EXPECT_GE(before, 1);
}

TEST_F(MigratorTest, WhatWasOneValueBecomesThatOfTheOnlyStage) {
  migrate_old_rows_to(embedded_migrations().size());
  const auto snapshot = read_snapshot(*open());
  ASSERT_TRUE(snapshot.ok()) << to_string(snapshot.error());
  const Digest anchor{1, 11}, momentum{2, 12}, average{3, 13};
  const JobRecord& job = snapshot->jobs.at(0);
  EXPECT_EQ(job.spec, old_spec_);
  EXPECT_EQ(job.view, 0);
  EXPECT_EQ(job.stages, (std::vector<JobStage>{{{0, 8}, 1000, anchor, momentum}}));
  const RoundRecord& round = snapshot->rounds.at(0);
  EXPECT_EQ(round.tokens, Tokens(640));
  EXPECT_EQ(round.job_tokens, Tokens(9000));
  EXPECT_EQ(round.reduces, (std::vector<Reduce>{{4, Instant{13}, average, anchor, Digest{}, {}}}));
  const ContributionRecord& contribution = snapshot->contributions.at(0);
  EXPECT_EQ(contribution.stage, 0);
  EXPECT_EQ(contribution.report.drawn, Tokens(640));
  const CheckpointRecord& checkpoint = snapshot->checkpoints.at(0);
  EXPECT_EQ(checkpoint.parts,
            (std::vector<CheckpointPart>{{ReplicaId(21),
                                          CheckpointState::kStored,
                                          anchor,
                                          momentum,
                                          {{"model.safetensors", Bytes(12), "ab"}}}}));
  EXPECT_EQ(checkpoint.returned, (std::vector<DataLease>{{4, 2}}));
}

TEST_F(MigratorTest, ReducersAreNoLongerRejected) {
  const auto all = embedded_migrations();
  migrate_old_rows_to(13);
  ASSERT_TRUE(
      open()->exec("UPDATE contributions SET state = 'rejected', reject_reason = 'reducer'").ok());
  ASSERT_TRUE(migrate_to({all.begin(), all.end()}).ok());
  const auto snapshot = read_snapshot(*open());
  ASSERT_TRUE(snapshot.ok()) << to_string(snapshot.error());
  const ContributionRecord& contribution = snapshot->contributions.at(0);
  EXPECT_TRUE(contribution.reducer);
  EXPECT_EQ(contribution.state, ContributionState::kServed);
  EXPECT_EQ(contribution.reject_reason, RejectReason::kNone);
}

TEST_F(MigratorTest, WhoIsLateOrHasNothingIsNoLongerRejected) {
  const auto all = embedded_migrations();
  const auto state_of = [&](const char* algorithm, const char* reason) {
    for (const char* file : {"/state.db", "/state.db-wal", "/state.db-shm"}) {
      std::filesystem::remove(folder_.path() + file);
    }
    migrate_old_rows_to(14);
    const std::string sql =
        "UPDATE jobs SET spec = json_set(spec, '$.sync.algorithm', '" + std::string(algorithm) +
        "'); UPDATE contributions SET state = 'rejected', reject_reason = '" + reason + "'";
    EXPECT_TRUE(open()->exec(sql).ok());
    EXPECT_TRUE(migrate_to({all.begin(), all.end()}).ok());
    return read_snapshot(*open())->contributions.at(0).state;
  };
  EXPECT_EQ(state_of("async", "not_reported"), ContributionState::kLate);
  EXPECT_EQ(state_of("diloco", "not_reported"), ContributionState::kRejected);
  EXPECT_EQ(state_of("diloco", "joiner"), ContributionState::kFollowed);
  EXPECT_EQ(state_of("diloco", "no_tokens"), ContributionState::kFollowed);
  EXPECT_EQ(state_of("diloco", "outlier"), ContributionState::kRejected);
}

TEST_F(MigratorTest, WhatHadAnotherNameIsCarriedOver) {
  const auto all = embedded_migrations();
  const auto names = std::ranges::find(all, 26, &Migration::version);
  ASSERT_NE(names, all.end());
  migrate_old_rows_to(static_cast<std::size_t>(names - all.begin()));
  const Status old = open()->exec(R"SQL(
    UPDATE jobs SET phase = 'sealing', committed_round = 6;
    UPDATE rounds SET state = 'sealed';
    UPDATE contributions SET state = 'rejected', reject_reason = 'left_out', left_out = 1,
      report_stood_s = 1.5;
    INSERT INTO replicas (id, job, agent, incarnation, device, stage, state, failure, detail, source,
        address, lineage, held_round, anchor, created_at_ns, updated_at_ns)
      VALUES (21, 3, 5, 1, 0, 0, 'loading', 'donor_lost', '',
        '{"kind":"peer","job":3,"lineage":1,"round":6,"donor_address":"h:1","donor":7,'
        || '"checkpoint":0,"anchor":"","momentum":""}', '', 1, -1, '', 1, 1);
    INSERT INTO events VALUES (1, 1, 'info', 'round_sealed', 3, 0, 0, 7, 'round 7 sealed');
  )SQL");
  ASSERT_TRUE(old.ok()) << to_string(old.error());
  ASSERT_TRUE(migrate_to({all.begin(), all.end()}).ok());
  const auto snapshot = read_snapshot(*open());
  ASSERT_TRUE(snapshot.ok()) << to_string(snapshot.error());
  EXPECT_EQ(snapshot->jobs.at(0).phase, JobPhase::kFinalizing);
  EXPECT_EQ(snapshot->jobs.at(0).epoch, 1);
  EXPECT_EQ(snapshot->rounds.at(0).state, RoundState::kFrozen);
  EXPECT_EQ(snapshot->rounds.at(0).frozen_at, Instant{11});
  const ContributionRecord& contribution = snapshot->contributions.at(0);
  EXPECT_TRUE(contribution.excluded);
  EXPECT_EQ(contribution.reject_reason, RejectReason::kExcluded);
  EXPECT_EQ(contribution.report.stall_s, 1.5);
  const ReplicaRecord& replica = snapshot->replicas.at(0);
  EXPECT_EQ(replica.failure, ReplicaFailure::kSourceLost);
  EXPECT_EQ(replica.source.key, (RoundKey{JobId(3), 1, 6}));
  EXPECT_EQ(replica.source.replica, ReplicaId(7));
  EXPECT_EQ(replica.source.address, "h:1");
  EXPECT_EQ(*open()->integer("SELECT count(*) FROM events WHERE kind = 'round_frozen'"), 1);
}

TEST_F(MigratorTest, ASecondRunChangesNothing) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  EXPECT_EQ(*open()->integer("SELECT count(*) FROM a"), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/state.pre-0001.db"));
}

TEST_F(MigratorTest, AnExistingDatabaseIsBackedUpBeforeItChanges) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  ASSERT_TRUE(migrate_to({kFirst, kSecond, kFourth}).ok());
  EXPECT_EQ(*open()->integer("PRAGMA user_version"), 4);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/state.pre-0004.db")) << "one is enough";
  const auto backup =
      Database::open(folder_.path() + "/state.pre-0002.db", OpenMode::kReadOnly, Durability::kFull);
  ASSERT_TRUE(backup.ok());
  EXPECT_EQ(*(*backup)->integer("PRAGMA user_version"), 1);
  EXPECT_EQ(*(*backup)->integer("SELECT x FROM a"), 7);
}

// Numbers may be left out.
TEST_F(MigratorTest, TheBackupDoesNotNeedTheNextNumber) {
  ASSERT_TRUE(migrate_to({kFirst, kSecond}).ok());
  ASSERT_TRUE(migrate_to({kFirst, kSecond, kFourth}).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/state.pre-0004.db"));
}

TEST_F(MigratorTest, AFailedMigrationIsUndoneAsAWhole) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  const Status failed = migrate_to({kFirst, kBroken});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, HasSubstr("broken"));
  EXPECT_EQ(*open()->integer("SELECT count(*) FROM a"), 1);
  EXPECT_EQ(*open()->integer("PRAGMA user_version"), 1);
  EXPECT_TRUE(migrate_to({kFirst, kSecond}).ok());
}

TEST_F(MigratorTest, ANewerDatabaseIsRefusedNamingBothVersions) {
  ASSERT_TRUE(migrate_to({kFirst, kSecond}).ok());
  const Status refused = migrate_to({kFirst});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
  EXPECT_THAT(refused.error().message, HasSubstr("schema version 2"));
  EXPECT_THAT(refused.error().message, HasSubstr("up to 1"));
  EXPECT_FALSE(refused.error().remedy.empty());
  EXPECT_EQ(*open()->integer("SELECT x FROM a"), 7);
}

TEST_F(MigratorTest, AnEditedMigrationIsRefused) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  const Status refused =
      migrate_to({{1, "first", "CREATE TABLE a (x INTEGER, z INTEGER) STRICT;"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
}

TEST_F(MigratorTest, ADatabaseOfAnotherProgramIsRefused) {
  ASSERT_TRUE(open()->exec("CREATE TABLE bookmarks (url TEXT)").ok());
  const Status refused = migrate_to({kFirst});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
}

}  // namespace
}  // namespace shoal::coordinator
