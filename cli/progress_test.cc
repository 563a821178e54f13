#include "cli/progress.h"

#include <gtest/gtest.h>

#include "cli/terminal.h"

namespace shoal::cli {
namespace {

Json training_job() {
  return Json::parse(R"({
    "id": "job-1", "name": "kjv", "created_at": "2026-01-01T00:00:00Z",
    "spec": {"train": {"steps": 1200}, "sync": {"every": 50}},
    "status": {"phase": "training", "reason": "running",
               "progress": {"inner_step": 620, "rounds_committed": 12, "rounds_total": 24, "tokens": 2457600},
               "train_loss": 1.832, "validation_loss": null, "bytes_sent": 24000000,
               "bytes_ddp": 2900000000}})");
}

TEST(Progress, ReadsTheJobObject) {
  const JobProgress job = read_progress(training_job());
  EXPECT_EQ(job.name, "kjv");
  EXPECT_EQ(job.rounds, 24);
  EXPECT_EQ(job.step, 620);
  EXPECT_NEAR(job.fraction(), 0.5167, 1e-3);
  EXPECT_EQ(job.train_loss, 1.832);
  EXPECT_FALSE(job.validation_loss);
  EXPECT_FALSE(job.finished());
}

TEST(Progress, RoundsThatGoByTimeOrByWhoReportsHaveNoNumber) {
  Json timed = training_job();
  timed["spec"]["sync"]["every"] = "5s";
  timed["status"]["progress"]["rounds_total"] = nullptr;
  EXPECT_EQ(rounds_cell(read_progress(timed)), "12");
  EXPECT_EQ(rounds_cell(read_progress(training_job())), "12/24");
}

TEST(Progress, AnEmptyObjectIsNoCrash) {
  const JobProgress job = read_progress(Json::object());
  EXPECT_EQ(job.fraction(), 0);
  EXPECT_EQ(progress_block(job, SpeedMeter(), 80, false).size(), 2u);
}

TEST(Progress, BarFillsInEighths) {
  EXPECT_EQ(bar(0, 4), "    ");
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.375, 4), "█▌  ");
  EXPECT_EQ(display_width(bar(0.51, 17)), 17u);
}

TEST(Progress, SpeedComesFromWhatWasSeen) {
  SpeedMeter speed;
  EXPECT_FALSE(speed.tokens_per_s());
  speed.add(100, 10, 1000);
  speed.add(105, 20, 2000);
  EXPECT_DOUBLE_EQ(speed.tokens_per_s().value(), 200);
  EXPECT_DOUBLE_EQ(speed.seconds_left(40).value(), 20);
  speed.add(106, 15, 1500);  // back to a checkpoint: start over
  EXPECT_FALSE(speed.seconds_left(40));
}

TEST(Progress, PlainLineSaysItAll) {
  SpeedMeter speed;
  speed.add(0, 600, 2'000'000);
  speed.add(10, 620, 2'131'000);
  EXPECT_EQ(progress_line(read_progress(training_job()), speed),
            "kjv: training · round 12/24 · step 620/1200 · train 1.832 · 13.1k tokens/s · "
            "sent 24.0 MB (data parallel: 2.90 GB) · 4m 50s left");
}

TEST(Progress, WhatIsLeftIsSaidWhileItTrains) {
  SpeedMeter speed;
  speed.add(0, 600, 2'000'000);
  speed.add(10, 620, 2'131'000);
  Json job = training_job();
  for (const char* phase : {"stalled", "finalizing", "completed", "cancelled"}) {
    job["status"]["phase"] = phase;
    EXPECT_EQ(progress_line(read_progress(job), speed).find("left"), std::string::npos) << phase;
  }
  Json pausing = training_job();
  pausing["status"]["reason"] = "pausing";
  EXPECT_EQ(progress_line(read_progress(pausing), speed).find("left"), std::string::npos);
  Json done = training_job();
  done["status"]["progress"]["inner_step"] = 1200;
  EXPECT_EQ(progress_line(read_progress(done), speed).find("left"), std::string::npos);
  SpeedMeter standing;
  standing.add(0, 600, 2'000'000);
  standing.add(10, 600, 2'000'000);
  EXPECT_FALSE(standing.tokens_per_s());
  EXPECT_FALSE(standing.seconds_left(40));
  SpeedMeter short_time;
  short_time.add(0, 600, 2'000'000);
  short_time.add(0.9, 620, 2'131'000);
  EXPECT_FALSE(short_time.tokens_per_s());
}

TEST(Progress, BlockKeepsToTheWidth) {
  for (const int columns : {40, 80, 160}) {
    for (const std::string& line :
         progress_block(read_progress(training_job()), SpeedMeter(), columns, false)) {
      EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << line;
    }
  }
}

TEST(Progress, AWaitingJobSaysWhy) {
  Json job = training_job();
  job["status"]["phase"] = "queued";
  job["status"]["reason"] = "no_device_fits";
  EXPECT_NE(progress_line(read_progress(job), SpeedMeter()).find("no device fits"),
            std::string::npos);
}

TEST(Progress, WhatATrainingJobCannotDoIsSaidInAWord) {
  Json job = training_job();
  const auto line = [&] { return progress_line(read_progress(job), SpeedMeter()); };
  EXPECT_EQ(line().find("running"), std::string::npos);
  job["status"]["reason"] = "checkpoint_failing";
  job["status"]["detail"] = "the checkpoint needs many bytes";
  EXPECT_NE(line().find("checkpoint failing"), std::string::npos) << line();
  EXPECT_EQ(line().find("many bytes"), std::string::npos) << line();
}

}  // namespace
}  // namespace shoal::cli
