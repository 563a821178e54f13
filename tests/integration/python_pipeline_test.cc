// A pipeline whose stages a PyTorch program computes (replica.pipeline()), beside the same
// program's whole model.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

constexpr int kSteps = 240;

// The example's model in one piece.
constexpr const char* kWhole = R"(
import pipeline
import shoal
import torch

with shoal.join() as replica:
    sizes = replica.job["model"]
    text, held_out = pipeline.texts_of(replica.data_path, sizes["context"])
    model = pipeline.llama(sizes)
    optimizer = pipeline.optimizer_of(model)
    run = replica.diloco(model, optimizer)
    run.evaluate(held_out, lambda x, y: pipeline.loss_of(model(x), y))
    for x, y in run.batches(text):
        loss = pipeline.loss_of(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        run.step(loss)
)";

// Prints the held-out loss of a checkpoint's model, on the items that the job evaluates.
constexpr const char* kLossOf = R"(
import json, sys
import pipeline, shoal, torch
folder, text = sys.argv[1:]
sizes = json.load(open(folder + "/part-00.json"))["spec"]["model"]
model = pipeline.llama(sizes)
model.load_state_dict(shoal.load_checkpoint(folder))
_, held_out = pipeline.texts_of(text, sizes["context"])
x, y = zip(*[held_out[place * len(held_out) // 8] for place in range(8)])
print(float(pipeline.loss_of(model(torch.stack(x)), torch.stack(y))))
)";

// The example over a dataset of the cluster; each process writes down which sequences it read.
constexpr const char* kOverADataset = R"(
import os
import pipeline
import shoal
import torch

with shoal.join() as replica, open(f"{__file__}.{replica.stage}.{os.getpid()}", "w") as seen:
    dataset = replica.dataset

    class Noted(type(dataset)):
        def __getitem__(self, number):
            x, y = super().__getitem__(number)
            print(number, len(self), bytes(x.tolist()).hex(), file=seen, flush=True)
            return x, y

    dataset.__class__ = Noted
    sizes = replica.job["model"]
    run = replica.pipeline(pipeline.llama(sizes), pipeline.optimizer_of, pipeline.loss_of,
                           example=torch.zeros(1, sizes["context"], dtype=torch.long))
    run.evaluate(dataset.held_out)
    for _ in run.steps(dataset):
        torch.nn.utils.clip_grad_norm_(run.stage.parameters(), 1.0)
        run.optimizer.step()
)";

TinyJob job_of(const std::string& name, const std::string& entry, int stages) {
  TinyJob job;
  job.name = name;
  job.steps = kSteps;
  job.every = 20;
  job.min_replicas = 1;
  job.stages = stages;
  job.more = "[trainer]\nkind = \"python\"\nentry = \"" + entry + "\"\n";
  return job;
}

class PythonPipeline : public testing::Test {
 protected:
  void SetUp() override {
    if (run({SHOAL_PYTHON, "-c", "import torch"}, 60).exit_code != 0) {
      GTEST_SKIP() << SHOAL_PYTHON " has no torch";
    }
    const std::string example = run({"cat", SHOAL_PYTHON_EXAMPLES "/pipeline.py"}, 10).out;
    programs_.write("pipeline.py", example);
    programs_.write("whole.py", kWhole);
    cluster_ = std::make_unique<Cluster>(
        4, std::vector<std::string>{"--trainer-root", programs_.path(), "--python", SHOAL_PYTHON});
    ASSERT_EQ(cluster_->problem(), "");
  }
  // Two replicas of each stage.
  void submit(const TinyJob& job) {
    const Finished done = cluster_->shoal(
        {"job", "submit", cluster_->write_job(job), "--set", "swarm.max_replicas=2"});
    ASSERT_EQ(done.exit_code, 0) << done.err;
  }
  bool completes(const TinyJob& job) {
    return eventually(240, [&] { return cluster_->phase_of(job.name) == "completed"; });
  }
  double loss_of(const TinyJob& job) const {
    return number_at(cluster_->job(job.name), "status/validation_loss", 0);
  }
  std::string logs(const TinyJob& job) const {
    return cluster_->shoal({"logs", "--job", job.name}).out + cluster_->job(job.name).dump(2);
  }
  // Processes of the replicas of one stage that hold its state.
  std::vector<pid_t> programs_of(const TinyJob& job, int stage) const {
    std::vector<pid_t> found;
    const auto topology = cluster_->api().get("/jobs/" + job.name + "/topology");
    if (!topology.ok()) return found;
    const std::string python = std::filesystem::canonical(SHOAL_PYTHON).filename();
    for (const Json& replica : topology->at("replicas")) {
      const std::string state = text_at(replica, "state");
      const bool ready = state != "assigned" && state != "loading";
      if (number_at(replica, "stage", -1) != stage || !ready) continue;
      for (const auto& host : cluster_->state().agents) {
        if (host.name != text_at(replica, "agent_name")) continue;
        for (const pid_t pid : children_of(host.pid, python)) found.push_back(pid);
      }
    }
    return found;
  }
  std::size_t points_of(const TinyJob& job, const std::string& series) const {
    const auto answer = cluster_->api().get("/jobs/" + job.name + "/series/query?name=" + series);
    if (!answer.ok() || answer->at("series").empty()) return 0;
    return answer->at("series").at(0).at("y").size();
  }
  Finished python(const std::string& program, const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {
        "env", "PYTHONPATH=" SHOAL_PYTHON_PATH ":" + programs_.path(), SHOAL_PYTHON, "-c", program};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, 60);
  }
  // Every committed round has one digest for each stage.
  void expect_equal_digests(const TinyJob& job) const {
    for (const Json& round : cluster_->items("/jobs/" + job.name + "/rounds?limit=500")) {
      if (text_at(round, "state") != "committed") continue;
      std::map<double, std::set<std::string>> digests;
      for (const Json& one : round.at("contributions")) {
        if (text_at(one, "state") != "committed") continue;
        digests[number_at(one, "stage", -1)].insert(text_at(one, "digest"));
      }
      EXPECT_EQ(digests.size(), static_cast<std::size_t>(job.stages)) << round.dump(2);
      for (const auto& [stage, found] : digests) EXPECT_EQ(found.size(), 1u) << round.dump(2);
    }
  }

  TempFolder programs_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(PythonPipeline, ItLearnsWhatTheWholeModelLearnsThoughAReplicaIsKilled) {
  const TinyJob cut = job_of("cut", "pipeline.py", 2);
  submit(cut);
  ASSERT_TRUE(eventually(180, [&] { return cluster_->rounds_committed(cut.name) >= 3; }))
      << logs(cut);
  const auto last_stage = programs_of(cut, 1);
  ASSERT_EQ(last_stage.size(), 2u) << logs(cut);
  kill(last_stage.front(), SIGKILL);
  ASSERT_TRUE(completes(cut)) << logs(cut);
  expect_equal_digests(cut);
  for (const char* name : {"log.norm/stage0", "log.norm/stage1"}) {
    EXPECT_GT(points_of(cut, name), 2u) << name;
  }
  const auto events = cluster_->items("/events?limit=500");
  EXPECT_TRUE(std::ranges::any_of(
      events, [](const Json& event) { return text_at(event, "kind") == "replica_failed"; }));

  const TinyJob whole = job_of("whole", "whole.py", 1);
  submit(whole);
  ASSERT_TRUE(completes(whole)) << logs(whole);
  EXPECT_LT(loss_of(whole), 2.0) << "5.5 is what guessing gives";
  // The replicas of a stage see the microbatches of both routers, so it may learn a little more.
  EXPECT_LT(loss_of(cut) / loss_of(whole), 1.02)
      << "cut " << loss_of(cut) << ", whole " << loss_of(whole);
  EXPECT_GT(loss_of(cut) / loss_of(whole), 0.9) << "what is held out may not be trained on";
  std::cout << "validation loss: cut " << loss_of(cut) << ", whole " << loss_of(whole) << "\n";

  const auto stored = cluster_->items("/jobs/cut/checkpoints?order=desc");
  ASSERT_FALSE(stored.empty());
  const std::string folder = cluster_->folder().path("checkpoint");
  ASSERT_EQ(cluster_->shoal({"checkpoint", "download", text_at(stored.front(), "id"), "-o", folder})
                .exit_code,
            0);
  const Finished joined = python(kLossOf, {folder, cluster_->folder().path("text.txt")});
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  EXPECT_NEAR(std::stod(joined.out), loss_of(cut), 0.01) << "activations of the job travel as bf16";
}

TEST_F(PythonPipeline, EachStageReadsEverySequenceOfAnEpochOnce) {
  std::string words;
  for (int word = 0; word < 12'000; ++word) words += std::to_string(word) + " is ";
  const std::string file = cluster_->folder().write("words.txt", words);
  ASSERT_EQ(cluster_->shoal({"dataset", "add", "words", file}).exit_code, 0);
  programs_.write("stored.py", kOverADataset);
  TinyJob job = job_of("stored", "stored.py", 2);
  job.steps = 400;
  job.min_replicas = 2;
  std::string text = run({"cat", cluster_->write_job(job)}, 10).out;
  const std::string train = "train = \"text.txt\"";
  ASSERT_NE(text.find(train), std::string::npos);
  text.replace(text.find(train), train.size(), "dataset = \"words\"");
  const Finished submitted =
      cluster_->shoal({"job", "submit", cluster_->folder().write("stored.toml", text), "--set",
                       "swarm.max_replicas=2"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(completes(job)) << logs(job);
  expect_equal_digests(job);
  const int trained = job.steps * 4 * 2;  // steps, sequences of a batch, replicas of a stage
  for (const std::string stage : {"0", "1"}) {
    std::istringstream lines(
        run({"sh", "-c", "cat " + programs_.path("stored.py") + "." + stage + ".*"}, 10).out);
    std::multiset<int> numbers;
    std::set<std::string> of_first_epoch;
    int number = 0, epoch = 0;
    for (std::string window; lines >> number >> epoch >> window;) {
      numbers.insert(number);
      if (number < epoch) of_first_epoch.insert(window);
    }
    ASSERT_LT(epoch, trained) << "the job reads more than an epoch";
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(trained)) << "stage " << stage;
    EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), numbers.size())
        << "a sequence was read twice by stage " << stage;
    EXPECT_EQ(*numbers.rbegin(), trained - 1);
    EXPECT_EQ(of_first_epoch.size(), static_cast<std::size_t>(epoch)) << "windows that differ";
  }
}

TEST_F(PythonPipeline, WhatDoesNotFitTheJobIsSaidByItsField) {
  TinyJob job = job_of("wide", "pipeline.py", 2);
  const Finished done =
      cluster_->shoal({"job", "submit", cluster_->write_job(job), "--set", "swarm.schedule=2bw"});
  EXPECT_NE(done.exit_code, 0);
  EXPECT_NE(done.err.find("swarm.schedule"), std::string::npos) << done.err;
  std::string text = run({"cat", SHOAL_PYTHON_EXAMPLES "/pipeline.py"}, 10).out;
  const std::string call = "replica.pipeline(llama(sizes), ";
  const std::string three = "replica.pipeline([*llama(sizes).children()][:3], ";
  ASSERT_NE(text.find(call), std::string::npos);
  programs_.write("three.py", text.replace(text.find(call), call.size(), three));
  job = job_of("three", "three.py", 2);
  submit(job);
  EXPECT_TRUE(eventually(90, [&] {
    const auto events = cluster_->items("/events?limit=500");
    return std::ranges::any_of(events, [](const Json& event) {
      return text_at(event, "message").find("set swarm.stages = 3") != std::string::npos;
    });
  })) << logs(job);
  EXPECT_EQ(cluster_->shoal({"job", "cancel", job.name}).exit_code, 0);
}

}  // namespace
}  // namespace shoal::integration
