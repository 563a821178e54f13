// Checkpoints at an agent: written by a trainer, hashed, uploaded, fetched for a trainer that
// loads, and deleted.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const CheckpointId kCheckpoint(4);
const CheckpointPartId kFetch{.checkpoint = kCheckpoint, .reader = JobId(1)};
const Error kGone{Code::kUnavailable, "gone", "", ""};

class CheckpointTest : public AgentFixture {
 protected:
  const std::vector<FileEntry> files_{{"model.safetensors", Bytes(9), std::string(64, 'a')}};

  void command() { hear(ToReplica<WriteCheckpoint>{ReplicaId(1), {kCheckpoint, key(3)}}); }
  void write() {
    serve();
    command();
    trainer_says(0, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), "Ahab"});
  }
  void write_and_hash() {
    write();
    step(CheckpointHashed{{kCheckpoint}, files_});
  }
  CheckpointWritten written() const { return {ReplicaId(1), kCheckpoint, key(3), files_, "Ahab"}; }
};

TEST_F(CheckpointTest, IsWrittenHashedAnnouncedAndUploaded) {
  serve();
  command();
  ASSERT_THAT(told<WriteCheckpointTo>(0), SizeIs(1));
  EXPECT_EQ(told<WriteCheckpointTo>(0)[0].folder, "/data/written/rep_1/ckpt_4");
  trainer_says(0, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), "Ahab"});
  EXPECT_EQ(one<HashCheckpoint>().folder, "/data/written/rep_1/ckpt_4");
  step(CheckpointHashed{{kCheckpoint}, files_});
  EXPECT_THAT(said<CheckpointWritten>(), ElementsAre(written()));
  EXPECT_EQ(one<UploadCheckpoint>().files, files_);
  step(CheckpointUploadDone{{kCheckpoint}});
  EXPECT_THAT(effects_, IsEmpty());
  hear(ForgetCheckpoint{kCheckpoint});
  EXPECT_EQ(one<DeleteCheckpointFolder>().folder, "/data/written/rep_1/ckpt_4");
}

TEST_F(CheckpointTest, WhatTheWriterReportedIsComparedAndAnnounced) {
  serve();
  command();
  const std::vector<FileEntry> reported{
      {"model.safetensors", Bytes(9), std::string(64, 'a'), "weights"}};
  trainer_says(0, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), "", reported, {7, 8}});
  EXPECT_EQ(one<HashCheckpoint>().reported, reported);
  step(CheckpointHashed{{kCheckpoint}, reported});
  ASSERT_THAT(said<CheckpointWritten>(), SizeIs(1));
  EXPECT_EQ(said<CheckpointWritten>()[0].files, reported);
  EXPECT_EQ(said<CheckpointWritten>()[0].anchor, (Digest{7, 8}));
}

TEST_F(CheckpointTest, AFileThatChangedIsNotSentAgain) {
  write_and_hash();
  step(CheckpointUploadFailed{{kCheckpoint}, {Code::kDataLoss, "another file", "state", ""}});
  ASSERT_THAT(said<CheckpointFailed>(), SizeIs(1));
  EXPECT_THAT(said<CheckpointFailed>()[0].detail, HasSubstr("state"));
  EXPECT_EQ(one<DeleteCheckpointFolder>().folder, "/data/written/rep_1/ckpt_4");
  EXPECT_THAT(all<UploadCheckpoint>(), IsEmpty());
}

TEST_F(CheckpointTest, ARepeatedCommandIsANoOpWhileWriting) {
  write();
  command();
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(CheckpointTest, ARepeatedCommandUploadsAStoredOneAgain) {
  write_and_hash();
  step(CheckpointUploadDone{{kCheckpoint}});
  command();
  EXPECT_THAT(said<CheckpointWritten>(), SizeIs(1));
  EXPECT_THAT(all<UploadCheckpoint>(), SizeIs(1));
}

TEST_F(CheckpointTest, AnUploadThatStandsStillIsGivenUp) {
  write_and_hash();
  const Instant begun = now_;
  while (said<CheckpointFailed>().empty()) {
    step(CheckpointUploadFailed{{kCheckpoint}, kGone});
    while (said<CheckpointFailed>().empty() && all<UploadCheckpoint>().empty() && wake()) {
    }
  }
  EXPECT_EQ(now_ - begun, test_options().transfer_limit);
  EXPECT_THAT(said<CheckpointFailed>()[0].detail,
              HasSubstr("made no progress beyond 0 B for 60 s"));
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
}

// A line that is up for two seconds in a minute: slow, but it comes further each time.
TEST_F(CheckpointTest, AnUploadThatMovesIsGoneOnWithHoweverOftenItBreaks) {
  write_and_hash();
  for (std::int64_t megabytes = 1; megabytes <= 200; ++megabytes) {
    advance(seconds(55));
    step(CheckpointUploadMoved{{kCheckpoint}, Bytes(megabytes << 20)});
    step(CheckpointUploadFailed{{kCheckpoint}, kGone});
    ASSERT_THAT(said<CheckpointFailed>(), IsEmpty());
    while (all<UploadCheckpoint>().empty() && wake()) {
    }
  }
  step(CheckpointUploadDone{{kCheckpoint}});
  EXPECT_THAT(said<CheckpointFailed>(), IsEmpty());
}

TEST_F(CheckpointTest, ABusyCoordinatorIsWaitedFor) {
  write_and_hash();
  for (int asked = 0; asked < 500; ++asked) {
    step(CheckpointUploadFailed{{kCheckpoint}, {Code::kConflict, "too many transfers", "", ""}});
    ASSERT_THAT(said<CheckpointFailed>(), IsEmpty());
    while (all<UploadCheckpoint>().empty() && wake()) {
    }
  }
}

// A new link, a new clock: what failed before says nothing about the coordinator that is there now.
TEST_F(CheckpointTest, TheClockOfAnUploadBeginsAnewWithAWelcome) {
  write_and_hash();
  const auto fail = [&] { step(CheckpointUploadFailed{{kCheckpoint}, kGone}); };
  fail();
  for (int links = 0; links < 8; ++links) {
    reconnect();
    advance(seconds(3));
    connect({ReplicaId(1)});
    ASSERT_THAT(all<UploadCheckpoint>(), SizeIs(1));
    fail();
    EXPECT_THAT(said<CheckpointFailed>(), IsEmpty());
  }
}

TEST_F(CheckpointTest, AFurtherStageHasAFolderOfItsOwn) {
  boot();
  connect();
  attach(0);
  attach(1);
  for (const StageIndex stage : {0, 1}) {
    Assign message = assign(static_cast<std::uint64_t>(1 + stage), stage);
    message.stage = stage;
    hear(message);
    trainer_says(stage, loaded(static_cast<std::uint64_t>(1 + stage)));
  }
  hear(ToReplica<WriteCheckpoint>{ReplicaId(1), {kCheckpoint, key(3)}});
  EXPECT_EQ(told<WriteCheckpointTo>(0).at(0).folder, "/data/written/rep_1/ckpt_4");
  hear(ToReplica<WriteCheckpoint>{ReplicaId(2), {kCheckpoint, key(3)}});
  EXPECT_EQ(told<WriteCheckpointTo>(1).at(0).folder, "/data/written/rep_2/ckpt_4.1");
  trainer_says(1, CheckpointReady{ReplicaId(2), kCheckpoint, key(3), ""});
  EXPECT_EQ(one<HashCheckpoint>().part, (CheckpointPartId{kCheckpoint, 1}));
  hear(ForgetCheckpoint{kCheckpoint});
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(2));
}

// The first writer was released; another replica of the stage, on this host too, is asked for the
// same files.
TEST_F(CheckpointTest, AnotherWriterTakesTheFilesOver) {
  write_and_hash();
  hear(assign(2, 1));
  trainer_says(1, loaded(2));
  hear(ToReplica<WriteCheckpoint>{ReplicaId(2), {kCheckpoint, key(3)}});
  ASSERT_THAT(said<CheckpointWritten>(), SizeIs(1));
  EXPECT_EQ(said<CheckpointWritten>()[0].replica, ReplicaId(2));
  EXPECT_THAT(all<UploadCheckpoint>(), IsEmpty()) << "it is on its way";
}

// In groups each replica has an anchor of its own.
TEST_F(CheckpointTest, InGroupsAnotherWriterWritesItsOwnFiles) {
  write_and_hash();
  auto other = assign(2, 1);
  other.spec.sync.topology = Topology::kMoshpit;
  hear(other);
  trainer_says(1, loaded(2));
  hear(ToReplica<WriteCheckpoint>{ReplicaId(2), {kCheckpoint, key(3)}});
  EXPECT_THAT(said<CheckpointWritten>(), IsEmpty());
  EXPECT_EQ(one<DeleteCheckpointFolder>().folder, "/data/written/rep_1/ckpt_4");
  EXPECT_EQ(told<WriteCheckpointTo>(1).at(0).folder, "/data/written/rep_2/ckpt_4");
}

TEST_F(CheckpointTest, OnlyWhoServesCanWrite) {
  boot();
  connect();
  attach(0);
  hear(assign(1));
  command();
  EXPECT_THAT(effects_, IsEmpty()) << "it still loads";
  hear(ToReplica<WriteCheckpoint>{ReplicaId(9), {kCheckpoint, key(3)}});
  EXPECT_THAT(effects_, IsEmpty()) << "nobody";
  EXPECT_EQ(agent_.view().messages_dropped, 2);
}

TEST_F(CheckpointTest, NewsOfFilesThatNobodyWantsIsDropped) {
  boot();
  connect();
  const std::vector<Input> news = {CheckpointFetched{kFetch},
                                   CheckpointFetchFailed{kFetch, kGone},
                                   CheckpointHashed{{kCheckpoint}, files_},
                                   CheckpointHashFailed{{kCheckpoint}, kGone},
                                   CheckpointUploadDone{{kCheckpoint}},
                                   CheckpointUploadFailed{{kCheckpoint}, kGone},
                                   CheckpointFetchMoved{kFetch},
                                   CheckpointUploadMoved{{kCheckpoint}}};
  for (const Input& input : news) {
    step(input);
    EXPECT_THAT(effects_, IsEmpty());
  }
  EXPECT_EQ(agent_.view().messages_dropped, static_cast<std::int64_t>(news.size()));
}

TEST_F(CheckpointTest, AnUploadWaitsForTheLink) {
  write_and_hash();
  const auto open = reconnect();
  step(CheckpointUploadFailed{{kCheckpoint}, kGone});
  step(LinkUp{open.link});
  advance(seconds(1));  // its back-off ends while nobody is welcome
  EXPECT_THAT(all<UploadCheckpoint>(), IsEmpty());
  connect({ReplicaId(1)});
  EXPECT_THAT(said<CheckpointWritten>(), ElementsAre(written()));
  EXPECT_THAT(all<UploadCheckpoint>(), SizeIs(1));
}

TEST_F(CheckpointTest, HashedDuringALostLinkIsAnnouncedLater) {
  write();
  reconnect();
  step(CheckpointHashed{{kCheckpoint}, files_});
  EXPECT_THAT(all<SendCoordinator>(), IsEmpty());
  connect({ReplicaId(1)});
  EXPECT_THAT(said<CheckpointWritten>(), ElementsAre(written()));
}

TEST_F(CheckpointTest, AnUploadOutlivesItsReplica) {
  write_and_hash();
  hear(Release{ReplicaId(1), ReleaseReason::kCompleted});
  EXPECT_THAT(all<DeleteCheckpointFolder>(), IsEmpty());
  step(CheckpointUploadDone{{kCheckpoint}});
  hear(ForgetCheckpoint{kCheckpoint});
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
}

TEST_F(CheckpointTest, AnUnfinishedOneGoesWithItsTrainer) {
  serve();
  command();
  step(TrainerExited{{0, 1}, {0, 9, ""}});
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
  step(CheckpointHashed{{kCheckpoint}, files_});
  EXPECT_THAT(effects_, IsEmpty());
}

TEST_F(CheckpointTest, FailuresOfTrainerAndHashAreTold) {
  serve();
  command();
  trainer_says(0, CheckpointFailed{ReplicaId(1), kCheckpoint, "disk full"});
  EXPECT_THAT(said<CheckpointFailed>(), SizeIs(1));
  command();
  trainer_says(0, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), "Ahab"});
  step(CheckpointHashFailed{{kCheckpoint}, {Code::kDataLoss, "cannot read", "", ""}});
  ASSERT_THAT(said<CheckpointFailed>(), SizeIs(1));
  EXPECT_THAT(said<CheckpointFailed>()[0].detail, HasSubstr("cannot read"));
}

TEST_F(CheckpointTest, AFolderThatNobodyWantsAnyMoreIsDeleted) {
  serve();
  command();
  hear(ForgetCheckpoint{kCheckpoint});
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
  trainer_says(0, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), "Ahab"});
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
}

TEST_F(CheckpointTest, ReplicasWaitForOneFetch) {
  boot();
  connect();
  attach(0);
  attach(1);
  hear(assign_from_checkpoint(1, 0, 4));
  EXPECT_EQ(one<FetchCheckpoint>().folder, "/data/fetched/job_1/ckpt_4");
  EXPECT_THAT(all<SendTrainer>(), IsEmpty());
  hear(assign_from_checkpoint(2, 1, 4));
  EXPECT_THAT(effects_, IsEmpty());
  step(CheckpointFetched{kFetch});
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].checkpoint_folder, "/data/fetched/job_1/ckpt_4");
  EXPECT_THAT(told<LoadReplica>(1), SizeIs(1));
  trainer_says(0, loaded(1));
  EXPECT_THAT(all<DeleteCheckpointFolder>(), IsEmpty()) << "replica 2 still reads it";
  trainer_says(1, loaded(2));
  EXPECT_EQ(one<DeleteCheckpointFolder>().folder, "/data/fetched/job_1/ckpt_4");
}

TEST_F(CheckpointTest, AStageOfAnotherCutFetchesThePartsThatHaveItsUnits) {
  boot();
  connect();
  attach(0);
  const CheckpointPartId parts{
      .checkpoint = kCheckpoint, .stage = 1, .reader = JobId(1), .parts = 2};
  Assign assigned = assign_from_checkpoint(1, 0, 4);
  assigned.checkpoint_first = 1;
  assigned.checkpoint_parts = 2;
  hear(assigned);
  EXPECT_EQ(one<FetchCheckpoint>().part, parts);
  EXPECT_EQ(one<FetchCheckpoint>().folder, "/data/fetched/job_1/ckpt_4.1+2");
  step(CheckpointFetched{parts});
  ASSERT_THAT(told<LoadReplica>(0), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(0)[0].checkpoint_folder, "/data/fetched/job_1/ckpt_4.1+2");
  EXPECT_EQ(told<LoadReplica>(0)[0].assign.checkpoint_parts, 2);
}

// A confined program reaches the folder of its own job only.
TEST_F(CheckpointTest, EachJobFetchesFilesOfItsOwn) {
  boot();
  connect();
  attach(0);
  attach(1);
  hear(assign_from_checkpoint(1, 0, 4));
  Assign other = assign_from_checkpoint(2, 1, 4);
  other.job = JobId(2);
  hear(other);
  EXPECT_EQ(one<FetchCheckpoint>().folder, "/data/fetched/job_2/ckpt_4");
  step(CheckpointFetched{one<FetchCheckpoint>().part});
  EXPECT_THAT(told<LoadReplica>(0), IsEmpty()) << "its own files are on their way";
  ASSERT_THAT(told<LoadReplica>(1), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(1)[0].checkpoint_folder, "/data/fetched/job_2/ckpt_4");
}

TEST_F(CheckpointTest, ATrainerSpeaksOfTheCheckpointOfItsOwnReplicaOnly) {
  serve();
  hear(assign(2, 1));
  trainer_says(1, loaded(2));
  command();
  trainer_says(1, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), ""});
  EXPECT_THAT(effects_, IsEmpty()) << "its writer has not written it yet";
  trainer_says(1, CheckpointFailed{ReplicaId(1), kCheckpoint, "the disk is full"});
  EXPECT_THAT(effects_, IsEmpty());
  trainer_says(0, CheckpointReady{ReplicaId(1), kCheckpoint, key(3), ""});
  EXPECT_THAT(all<HashCheckpoint>(), SizeIs(1));
}

// One replica begins with the weights of what another one continues, which has more files.
TEST_F(CheckpointTest, WhoBeginsAndWhoContinuesDoNotShareAFolder) {
  boot();
  connect();
  attach(0);
  attach(1);
  const CheckpointPartId whole{.checkpoint = kCheckpoint, .reader = JobId(1)},
      weights{.checkpoint = kCheckpoint, .weights = true, .reader = JobId(1)};
  Assign begins = assign_from_checkpoint(1, 0, 4);
  begins.source.key = key(0);
  hear(begins);
  EXPECT_EQ(one<FetchCheckpoint>().part, weights);
  EXPECT_EQ(one<FetchCheckpoint>().folder, "/data/fetched/job_1/ckpt_4.weights");
  step(CheckpointFetched{weights});
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
  hear(assign_from_checkpoint(2, 1, 4));
  EXPECT_EQ(one<FetchCheckpoint>().part, whole) << "what is here lacks the momentum";
  EXPECT_THAT(told<LoadReplica>(1), IsEmpty());
  step(CheckpointFetched{whole});
  ASSERT_THAT(told<LoadReplica>(1), SizeIs(1));
  EXPECT_EQ(told<LoadReplica>(1)[0].checkpoint_folder, "/data/fetched/job_1/ckpt_4");
  trainer_says(1, loaded(2));
  EXPECT_EQ(one<DeleteCheckpointFolder>().folder, "/data/fetched/job_1/ckpt_4");
  trainer_says(0, loaded(1));
  EXPECT_EQ(one<DeleteCheckpointFolder>().folder, "/data/fetched/job_1/ckpt_4.weights");
}

class FetchTest : public CheckpointTest {
 protected:
  FetchTest() {
    boot();
    connect();
    attach(0);
    attach(1);
    hear(assign_from_checkpoint(1, 0, 4));
  }
  void fail(const Error& error) { step(CheckpointFetchFailed{kFetch, error}); }
  void go_on() {
    while (all<FetchCheckpoint>().empty() && said<ReplicaFailed>().empty() && wake()) {
    }
  }
};

TEST_F(FetchTest, DamagedFilesAreNotFetchedAgain) {
  fail({Code::kDataLoss, "SHA-256 is another", "", ""});
  EXPECT_THAT(said<ReplicaFailed>(), SizeIs(1));
}

TEST_F(FetchTest, WhatIsNotThereFailsItsReplicasAtOnce) {
  fail({Code::kNotFound, "there is no such checkpoint", "", ""});
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kDigestMismatch);
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
}

TEST_F(FetchTest, ABrokenOneGoesOnUntilNothingMoves) {
  const Instant begun = now_;
  for (fail(kGone), go_on(); said<ReplicaFailed>().empty(); go_on()) fail(kGone);
  EXPECT_EQ(now_ - begun, test_options().transfer_limit);
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kSourceLost);
}

TEST_F(FetchTest, OneThatMovesIsGoneOnWithHoweverLongItTakes) {
  for (std::int64_t megabytes = 1; megabytes <= 200; ++megabytes) {
    advance(seconds(55));
    step(CheckpointFetchMoved{kFetch, Bytes(megabytes << 20), Bytes(200 << 20)});
    EXPECT_THAT(said<LoadProgress>(),
                ElementsAre(LoadProgress{ReplicaId(1), Bytes(megabytes << 20), Bytes(200 << 20)}));
    fail(kGone);
    ASSERT_THAT(said<ReplicaFailed>(), IsEmpty());
    go_on();
  }
  step(CheckpointFetched{kFetch});
  EXPECT_THAT(told<LoadReplica>(0), SizeIs(1));
}

// One after the other: the second one has all its time when its turn comes.
TEST_F(FetchTest, OneThatWaitsForItsTurnIsNotLate) {
  hear(assign_from_checkpoint(2, 1, 5));
  const CheckpointPartId second{.checkpoint = CheckpointId(5), .reader = JobId(1)};
  for (std::int64_t done = 1; done <= 100; ++done) {
    advance(seconds(50));
    step(CheckpointFetchMoved{kFetch, Bytes(done), Bytes(100)});
    EXPECT_THAT(said<LoadProgress>(),
                ElementsAre(LoadProgress{ReplicaId(1), Bytes(done), Bytes(100)},
                            LoadProgress{ReplicaId(2), Bytes(done), Bytes()}));
  }
  step(CheckpointFetched{kFetch});
  step(CheckpointFetchMoved{second});
  step(CheckpointFetchFailed{second, kGone});
  EXPECT_THAT(said<ReplicaFailed>(), IsEmpty());
}

TEST_F(FetchTest, FilesThatAreNotThoseAnnouncedAreToldFromABadLine) {
  fail({Code::kDataLoss, "another sha256", "", ""});
  ASSERT_THAT(said<ReplicaFailed>(), SizeIs(1));
  EXPECT_EQ(said<ReplicaFailed>()[0].failure, ReplicaFailure::kDigestMismatch);
}

// The driver ends what stands still; if it does not, the core does.
TEST_F(FetchTest, ASilentDriverIsNotWaitedForForEver) {
  step(CheckpointFetchMoved{kFetch});
  std::vector<ReplicaFailed> failures;
  while (failures.empty() && wake()) failures = said<ReplicaFailed>();
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_THAT(failures[0].detail, HasSubstr("nothing moved"));
}

TEST_F(CheckpointTest, AReleasedReplicaNeedsItsFetchNoMore) {
  boot();
  connect();
  attach(0);
  hear(assign_from_checkpoint(1, 0, 4));
  hear(Release{ReplicaId(1), ReleaseReason::kCancelled});
  EXPECT_THAT(told<Release>(0), IsEmpty()) << "its trainer never heard of it";
  EXPECT_THAT(all<DeleteCheckpointFolder>(), SizeIs(1));
}

}  // namespace
}  // namespace shoal::agent
