// Jobs that are trained by a PyTorch program of the user's own (trainer.kind = "python").
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/integration/cluster.h"
#include "threads/landlock.h"

namespace shoal::integration {
namespace {

using cli::number_at;
using cli::text_at;

bool has_torch() { return run({SHOAL_PYTHON, "-c", "import torch"}, 60).exit_code == 0; }

TinyJob python_job(int steps) {
  TinyJob job;
  job.name = "python";
  job.steps = steps;
  job.min_replicas = 1;
  job.more =
      "[checkpoint]\nevery_rounds = 2\n[trainer]\nkind = \"python\"\nentry = \"program.py\"\n";
  return job;
}

// Agents that run one program, the text of a Python file.
class PythonCluster {
 public:
  PythonCluster(int agents, const std::string& program)
      : entry_(programs_.write("program.py", program)),
        flags_{"--trainer-root", programs_.path(), "--python", SHOAL_PYTHON},
        cluster(agents, flags_) {}
  bool restart_agent(std::size_t index) { return cluster.start_agent(index, {}, flags_); }
  const std::string& entry() const { return entry_; }
  std::string logs() const { return cluster.shoal({"logs", "python"}).out; }
  std::vector<std::string> failures() const {
    std::vector<std::string> messages;
    for (const Json& event : cluster.items("/events?limit=500")) {
      if (text_at(event, "kind") == "replica_failed") messages.push_back(text_at(event, "message"));
    }
    return messages;
  }

 private:
  TempFolder programs_;
  std::string entry_;
  std::vector<std::string> flags_;

 public:
  Cluster cluster;
};

std::string example() {
  const Finished text = run({"cat", SHOAL_PYTHON_EXAMPLES "/train.py"}, 10);
  return text.out;
}

// A stage's anchors are compared at every commit: nobody was found to differ.
void expect_trained(const Cluster& cluster, const TinyJob& job) {
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of(job.name) == "completed"; }))
      << cluster.job(job.name).dump(2);
  const auto rounds = cluster.items("/jobs/" + job.name + "/rounds?order=asc");
  ASSERT_EQ(rounds.size(), static_cast<std::size_t>(job.steps / job.every));
  for (const Json& round : rounds) EXPECT_EQ(text_at(round, "state"), "committed");
  EXPECT_LT(number_at(rounds.back(), "train_loss"), number_at(rounds.front(), "train_loss") - 0.5);
}

TEST(Python, TwoAgentsTrainAModelOfTheUsersOwnAndAgree) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(2, example());
  const Cluster& cluster = python.cluster;
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = python_job(60);
  job.min_replicas = 2;
  const Finished submitted = cluster.shoal({"job", "submit", cluster.write_job(job)});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  expect_trained(cluster, job);
  EXPECT_TRUE(python.failures().empty()) << python.failures().front();
  for (const Json& round : cluster.items("/jobs/python/rounds")) {
    ASSERT_EQ(round.at("contributions").size(), 2u) << round.dump(2);
    for (const Json& one : round.at("contributions")) {
      EXPECT_EQ(text_at(one, "digest"), text_at(round, "digest")) << round.dump(2);
    }
  }
  EXPECT_TRUE(
      eventually(20, [&] { return python.logs().find("held-out loss") != std::string::npos; }))
      << "it runs on behind its loop\n"
      << python.logs();
}

TEST(Python, AnAgentIsKilledAndComesBack) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(2, example());
  Cluster& cluster = python.cluster;
  ASSERT_EQ(cluster.problem(), "");
  const TinyJob job = python_job(3000);
  ASSERT_EQ(cluster.shoal({"job", "submit", cluster.write_job(job)}).exit_code, 0);
  const auto with_members = [&](std::size_t members, double after) {
    const auto rounds = cluster.items("/jobs/python/rounds?order=desc");
    return std::any_of(rounds.begin(), rounds.end(), [&](const Json& round) {
      return number_at(round, "round") > after && text_at(round, "state") == "committed" &&
             round.at("contributions").size() == members;
    });
  };
  ASSERT_TRUE(eventually(120, [&] { return with_members(2, 0); })) << python.logs();
  ASSERT_TRUE(cluster.end_agent(0, SIGTERM));
  const double at = cluster.rounds_committed(job.name);
  ASSERT_TRUE(eventually(60, [&] { return with_members(1, at); })) << "the other one trains on";
  ASSERT_TRUE(python.restart_agent(0));
  EXPECT_TRUE(eventually(120, [&] { return with_members(2, at + 1); })) << python.logs();
  EXPECT_EQ(cluster.shoal({"job", "cancel", job.name}).exit_code, 0);
}

// The example's model over a dataset of the cluster; writes down which sequences it trained. Its
// optimizer has as many steps behind it as the job.
std::string over_a_dataset() {
  const std::string text = example();
  return text.substr(0, text.find("if __name__")) + R"(
import os

if __name__ == "__main__":
    with shoal.join() as replica, open(f"{__file__}.{os.getpid()}", "w") as seen:
        model = GPT()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        loss_of = lambda x, y: F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        run = replica.diloco(model, optimizer)
        run.evaluate(replica.dataset.held_out, loss_of)
        for x, y in run.batches(replica.dataset):
            assert x[0, 1:].tolist() == y[0, :-1].tolist() and run.epoch == 0
            for row in x:
                print(bytes(row.tolist()).hex(), file=seen, flush=True)
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
            assert optimizer.state[next(model.parameters())]["step"] == run.step_number + 1
            optimizer.zero_grad()
            run.step(loss)
)";
}

// A dataset of words, none of them twice, and the job over it.
Finished submit_over_words(const Cluster& cluster, const TinyJob& job) {
  std::vector<std::string> command{"dataset", "add", "words"};
  for (int shard = 0; shard < 3; ++shard) {
    std::string words;
    for (int word = 0; word < 4'000; ++word) words += std::to_string(shard * 4'000 + word) + " is ";
    command.push_back(cluster.folder().write("words-" + std::to_string(shard) + ".txt", words));
  }
  if (Finished added = cluster.shoal(command); added.exit_code != 0) return added;
  std::string text = run({"cat", cluster.write_job(job)}, 10).out;
  const std::string file = "train = \"text.txt\"";
  text.replace(text.find(file), file.size(), "dataset = \"words\"");
  return cluster.shoal({"job", "submit", cluster.folder().write("words.toml", text)});
}

// Steps of a batch of 4 on two replicas, none of its sequences a second time.
void expect_each_once(const PythonCluster& python, std::size_t steps) {
  std::istringstream lines(run({"sh", "-c", "cat " + python.entry() + ".*"}, 10).out);
  std::multiset<std::string> seen;
  for (std::string line; std::getline(lines, line);) seen.insert(line);
  const std::set<std::string> different(seen.begin(), seen.end());
  EXPECT_EQ(seen.size(), steps * 4 * 2);
  EXPECT_EQ(different.size(), seen.size()) << "a sequence was trained twice";
}

TEST(Python, ADatasetOfTheClusterIsTrainedOnEachSequenceOnce) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(2, over_a_dataset());
  const Cluster& cluster = python.cluster;
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = python_job(60);
  job.min_replicas = 2;
  const Finished submitted = submit_over_words(cluster, job);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  expect_trained(cluster, job);
  EXPECT_TRUE(python.failures().empty()) << python.failures().front();
  EXPECT_GT(number_at(cluster.job(job.name), "status/validation_loss"), 0);
  expect_each_once(python, 60);
}

TEST(Python, AnotherJobContinuesWhereTheFirstOneEnded) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(2, over_a_dataset());
  const Cluster& cluster = python.cluster;
  ASSERT_EQ(cluster.problem(), "");
  TinyJob job = python_job(30);
  job.min_replicas = 2;
  const Finished submitted = submit_over_words(cluster, job);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of("python") == "completed"; }))
      << cluster.job("python").dump(2) << python.logs();
  const Finished more =
      cluster.shoal({"job", "restart", "python", "--name", "more", "--set", "train.steps=60"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  ASSERT_TRUE(eventually(240, [&] { return cluster.phase_of("more") == "completed"; }))
      << cluster.job("more").dump(2) << cluster.shoal({"logs", "more"}).out;
  EXPECT_TRUE(python.failures().empty()) << python.failures().front();
  std::vector<double> rounds;
  for (const Json& round : cluster.items("/jobs/more/rounds?order=asc")) {
    rounds.push_back(number_at(round, "round"));
  }
  EXPECT_EQ(rounds, (std::vector<double>{4, 5, 6}));
  expect_each_once(python, 60);
}

// ---- code that is uploaded with the job; where nothing would confine it, no agent runs it

constexpr const char* kNoLandlock = "this kernel has no Landlock";

// Agents of `shoal up`, which run what its admin submits, and a folder of code.
class CodeCluster {
 public:
  explicit CodeCluster(int agents) : cluster(agents, {"--python", SHOAL_PYTHON}) {}
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(code_.path(name)).parent_path());
    code_.write(name, text);
  }
  std::vector<std::string> submission(TinyJob job, const std::string& entry = "train.py") const {
    job.more =
        "[checkpoint]\nevery_rounds = 2\n[trainer]\nkind = \"python\"\nentry = \"" + entry + "\"\n";
    return {"job", "submit", cluster.write_job(job), "--code", code_.path()};
  }
  Finished submit(const TinyJob& job, const std::string& entry = "train.py") const {
    return cluster.shoal(submission(job, entry));
  }
  std::string logs() const { return cluster.shoal({"logs", "python"}).out; }
  // A failure of a replica with this in its message.
  bool fails_with(const std::string& message) const {
    return eventually(90, [&] {
      const auto events = cluster.items("/events?limit=500");
      return std::any_of(events.begin(), events.end(), [&](const Json& event) {
        return text_at(event, "kind") == "replica_failed" &&
               text_at(event, "message").find(message) != std::string::npos;
      });
    });
  }
  Cluster cluster;

 private:
  TempFolder code_;
};

// What the example does, with its model in a module beside it.
TEST(UploadedCode, ModulesOfAFolderTrainAndAgree) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  CodeCluster code(2);
  ASSERT_EQ(code.cluster.problem(), "");
  code.write("train.py", "from lib import program\n\nprogram.main()\n");
  code.write("lib/__init__.py", "");
  std::string program = example();
  const auto last = program.find("if __name__");
  ASSERT_NE(last, std::string::npos);
  program = program.substr(0, last) + "def main():\n    " +
            program.substr(program.find('\n', last) + 1 + 4);
  code.write("lib/program.py", program);
  code.write(".git/config", "secret");
  TinyJob job = python_job(60);
  job.min_replicas = 2;
  const Finished submitted = code.submit(job);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  expect_trained(code.cluster, job);
  const std::string name = text_at(code.cluster.job("python"), "spec/trainer/code");
  EXPECT_EQ(name.substr(0, 7), "sha256:");
  EXPECT_EQ(code.submit(job).exit_code, 0) << "the same code is not sent again";
}

// Also what it reads after a pause, which the agent fetches, and what it writes.
TEST(UploadedCode, RunsAsAUserOfItsOwnWhereTheAgentIsRoot) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run programs as another user";
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  ::setenv("SHOAL_PROGRAM_USER", "nobody", 1);  // of the agents that `shoal up` starts
  CodeCluster code(1);
  ::unsetenv("SHOAL_PROGRAM_USER");
  const Cluster& cluster = code.cluster;
  ASSERT_EQ(cluster.problem(), "");
  // What leads to the agent's folder is the operator's; `shoal up` keeps it to its own user, which
  // the agent says.
  std::ostringstream log;
  log << std::ifstream(cluster.folder().path("up/logs/agent-1.log")).rdbuf();
  EXPECT_NE(log.str().find("--program-user: "), std::string::npos) << log.str();
  for (const char* folder : {"", "up"}) {
    std::filesystem::permissions(cluster.folder().path(folder), std::filesystem::perms::others_exec,
                                 std::filesystem::perm_options::add);
  }
  code.write("train.py",
             "import os\n"
             "print('I am', os.getuid(), os.getgroups(), flush=True)\n" +
                 example());
  const TinyJob job = python_job(400);
  const Finished submitted = code.submit(job);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(eventually(120, [&] { return cluster.rounds_committed(job.name) >= 3; }))
      << code.logs();
  ASSERT_EQ(cluster.shoal({"job", "pause", job.name}).exit_code, 0);
  ASSERT_TRUE(eventually(60, [&] { return cluster.phase_of(job.name) == "paused"; }));
  ASSERT_EQ(cluster.shoal({"job", "resume", job.name}).exit_code, 0);
  expect_trained(cluster, job);
  const std::string uid = run({"id", "-u", "nobody"}, 10).out;
  const std::string who = "I am " + uid.substr(0, uid.find('\n')) + " []";
  const Finished said = cluster.shoal({"logs", job.name, "--grep", "I am"});
  EXPECT_NE(said.out.find(who), std::string::npos) << said.out << said.err << code.logs();
}

// Behind a job: its checkpoint and its code are there, and it is said what can be done with them.
TEST(UploadedCode, WhatAJobLeavesIsUsedAndRemoved) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  CodeCluster code(1);
  const Cluster& cluster = code.cluster;
  ASSERT_EQ(cluster.problem(), "");
  code.write("train.py", example());
  const Finished submitted = code.submit(python_job(40));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string sha256 = text_at(cluster.job("python"), "spec/trainer/code").substr(7);
  const Finished kept = cluster.shoal({"file", "rm", sha256});
  EXPECT_NE(kept.exit_code, 0);
  EXPECT_NE(kept.err.find("is used by job python"), std::string::npos) << kept.err;
  expect_trained(cluster, python_job(40));
  const std::string folder = cluster.folder().path("checkpoint"),
                    out = cluster.folder().path("out");
  const Finished downloaded = cluster.shoal({"checkpoint", "download", "python", "-o", folder});
  ASSERT_EQ(downloaded.exit_code, 0) << downloaded.err;
  EXPECT_NE(downloaded.err.find("shoal.load_checkpoint("), std::string::npos) << downloaded.err;
  EXPECT_EQ(downloaded.err.find("shoal generate"), std::string::npos) << downloaded.err;
  if (has_binary("shoal-trainer")) {
    const Finished exported = cluster.shoal({"checkpoint", "export", folder, "-o", out});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    const Finished names = run({"env", "PYTHONPATH=" SHOAL_PYTHON_PATH, SHOAL_PYTHON, "-c",
                                "import sys; from shoal import files\n"
                                "there, _ = files.read_tensors(sys.argv[1])\n"
                                "print(there['blocks.0.norm1.weight'].dtype)",
                                out + "/model.safetensors"},
                               60);
    EXPECT_EQ(names.out, "torch.bfloat16\n") << names.err;
  }
  EXPECT_EQ(cluster.shoal({"file", "rm", sha256.substr(0, 12)}).exit_code, 0);
  EXPECT_EQ(cluster.shoal({"file", "ls"}).out.find(sha256.substr(0, 12)), std::string::npos);
}

TEST(UploadedCode, IsConfined) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  CodeCluster code(1);
  ASSERT_EQ(code.cluster.problem(), "");
  const std::string folder = code.cluster.agent_folder(0);
  code.write("train.py",
             "import glob, os\n"
             "def attempt(what, call):\n"
             "    try:\n"
             "        call()\n"
             "        print('could', what, flush=True)\n"
             "    except OSError as problem:\n"
             "        print('could not', what, type(problem).__name__, flush=True)\n"
             "folder = '" +
                 folder +
                 "'\n"
                 "attempt('read the key', lambda: open(folder + '/machine.pem').read())\n"
                 "attempt('read the id', lambda: open(folder + '/agent_id').read())\n"
                 "attempt('list it', lambda: os.listdir(folder))\n"
                 "attempt('write to its code', lambda: open(__file__, 'a'))\n"
                 "attempt('write to /tmp', lambda: open('/tmp/shoal-confined', 'w'))\n"
                 "attempt('write to its folder', lambda: open('mine', 'w').write('x'))\n"
                 "attempt('read its code', lambda: open(__file__).read())\n"
                 "attempt('read the agent', lambda: open('/proc/%d/environ' % "
                 "os.getppid()).read())\n"
                 "print('tokens', [n for n in os.environ if 'TOKEN' in n], flush=True)\n"
                 "raise SystemExit('the end of it')\n");
  const Finished submitted = code.submit(python_job(10));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  EXPECT_TRUE(code.fails_with("the end of it")) << code.logs();
  const std::string logs = code.logs();
  for (const char* forbidden : {"read the key", "read the id", "list it", "write to its code",
                                "write to /tmp", "read the agent"}) {
    EXPECT_NE(logs.find(std::string("could not ") + forbidden + " PermissionError"),
              std::string::npos)
        << forbidden << "\n"
        << logs;
  }
  EXPECT_NE(logs.find("could write to its folder"), std::string::npos) << logs;
  EXPECT_NE(logs.find("could read its code"), std::string::npos) << logs;
  EXPECT_NE(logs.find("tokens []"), std::string::npos) << logs;
}

TEST(UploadedCode, AnOwnerWhomNoAgentAllowsIsRefusedByName) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  CodeCluster code(1);
  ASSERT_EQ(code.cluster.problem(), "");
  code.write("train.py", "pass\n");
  const Finished token = code.cluster.shoal(
      {"token", "create", "--name", "eve", "--scope", "submitter", "--ttl", "1h", "--json"});
  ASSERT_EQ(token.exit_code, 0) << token.err;
  std::vector<std::string> command = code.submission(python_job(10));
  command.insert(command.begin(), binary("shoal"));
  command.insert(command.end(), {"--addr", code.cluster.state().addresses.http});
  ::setenv("SHOAL_TOKEN", text_at(Json::parse(token.out), "token").c_str(), 1);
  const Finished submitted = run(command, 60);
  ::unsetenv("SHOAL_TOKEN");
  EXPECT_NE(submitted.exit_code, 0);
  EXPECT_NE(submitted.err.find("code of eve"), std::string::npos) << submitted.err;
  EXPECT_NE(submitted.err.find("--allow-code-from eve"), std::string::npos) << submitted.err;
}

TEST(UploadedCode, WhatIsWrongWithItIsSaidInItsOwnWords) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  CodeCluster code(1);
  ASSERT_EQ(code.cluster.problem(), "");
  const std::string never = "sha256:" + std::string(64, '0');
  const Finished unknown = code.cluster.shoal(
      {"job", "submit", code.cluster.write_job(python_job(10)), "--set", "trainer.code=" + never});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_NE(unknown.err.find("was not uploaded"), std::string::npos) << unknown.err;
  code.write("train.py", "pass\n");
  const Finished entry = code.submit(python_job(10), "main.py");
  EXPECT_NE(entry.exit_code, 0);
  EXPECT_NE(entry.err.find("main.py, is not a file in"), std::string::npos) << entry.err;
}

// It prints 100 MB, leaves a child behind that has a session of its own, and ends as if all were
// well.
TEST(UploadedCode, AFloodOfOutputAndChildrenLeftBehindHarmNobody) {
  if (landlock_version() == 0) GTEST_SKIP() << kNoLandlock;
  CodeCluster code(1);
  ASSERT_EQ(code.cluster.problem(), "");
  code.write("train.py",
             "import os, sys, time\n"
             "if os.fork() == 0:\n"
             "    os.setsid()\n"
             "    os.execlp('sleep', 'sleep', '601')\n"
             "line = 'x' * 999 + '\\n'\n"
             "for _ in range(100):\n"
             "    sys.stdout.write(line * 1000)\n"
             "sys.stdout.flush()\n"
             "print('this is my last line', flush=True)\n");
  const Finished submitted = code.submit(python_job(10));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  EXPECT_TRUE(code.fails_with("ended before its job")) << code.logs();
  const std::string logs = code.cluster.shoal({"logs", "python", "--grep", "left out"}).out;
  EXPECT_NE(logs.find("bytes of output were left out"), std::string::npos);
  EXPECT_TRUE(code.fails_with("this is my last line"));
  std::uintmax_t bytes = 0;
  const std::string folder = code.cluster.agent_folder(0) + "/logs";
  for (const auto& file : std::filesystem::directory_iterator(folder)) bytes += file.file_size();
  EXPECT_LT(bytes, 64u << 20);
  const auto no_child = [] {
    return run({"sh", "-c", "! grep -lsa '^sleep.601' /proc/[0-9]*/cmdline"}, 10).exit_code == 0;
  };
  EXPECT_TRUE(eventually(20, no_child)) << "what it left behind ends with it";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The child continues as if it were the program; the program itself trains to its end.
TEST(Python, AForkedChildIsToldThatItMayNot) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  PythonCluster python(1, replaced(example(), "        run.step(loss)\n",
                                   "        import os\n"
                                   "        if run.step_number == 3:\n"
                                   "            os.fork()\n"
                                   "        run.step(loss)\n"));
  ASSERT_EQ(python.cluster.problem(), "");
  const TinyJob job = python_job(40);
  ASSERT_EQ(python.cluster.shoal({"job", "submit", python.cluster.write_job(job)}).exit_code, 0);
  expect_trained(python.cluster, job);
  EXPECT_TRUE(python.failures().empty()) << python.failures().front();
  EXPECT_NE(python.logs().find("forked from the one that joined"), std::string::npos)
      << python.logs();
}

// Replicas of one job whose models differ: in their sizes, or in their values alone.
TEST(Python, ModelsThatDifferBetweenAgentsAreNotTrained) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  const std::string first =
      "import os\n"
      "def is_first():\n"
      "    try:\n"
      "        os.close(os.open(__file__ + '.first', os.O_CREAT | os.O_EXCL))\n"
      "        return True\n"
      "    except FileExistsError:\n"
      "        return False\n";
  const std::string model = "    model = GPT().to(device)\n";
  const std::pair<std::string, std::string> programs[] = {
      {"    global WIDTH\n    WIDTH = 32 if is_first() else 64\n" + model, "has shape ["},
      {"    torch.manual_seed(os.getpid())\n" + model, "seed every generator"}};
  for (const auto& [lines, message] : programs) {
    PythonCluster python(
        2, replaced(replaced(example(), "import shoal\n", "import shoal\n" + first), model, lines));
    ASSERT_EQ(python.cluster.problem(), "");
    TinyJob job = python_job(40);
    job.min_replicas = 2;
    ASSERT_EQ(python.cluster.shoal({"job", "submit", python.cluster.write_job(job)}).exit_code, 0);
    EXPECT_TRUE(eventually(90,
                           [&, &message = message] {
                             const auto failures = python.failures();
                             return std::ranges::any_of(failures, [&](const auto& one) {
                               return one.find(message) != std::string::npos;
                             });
                           }))
        << message << "\n"
        << python.logs();
  }
}

// What a program does wrong reaches its user as a sentence.
TEST(Python, MistakesOfAProgramAreToldInItsOwnWords) {
  if (!has_torch()) GTEST_SKIP() << SHOAL_PYTHON " has no torch";
  const std::string good = example();
  const std::string step = "        run.step(loss)\n";
  ASSERT_NE(good.find(step), std::string::npos);
  const auto with = [&](const std::string& line) {
    std::string text = good;
    return text.replace(text.find(step), step.size(), line);
  };
  const std::pair<std::string, std::string> programs[] = {
      {with("        raise ValueError('this batch is odd')\n"), "ValueError: this batch is odd"},
      {with(""), "run.step(loss) was not called"},
      {with("        run.step(loss)\n        break\n"), "the program ended before its job"},
      {replaced(with("        import time\n        time.sleep(600)\n"), "shoal.join()",
                "shoal.join(order_limit_s=4)"),
       "did not end its inner step within 4 s"},
      {"import nowhere\n", "No module named 'nowhere'"}};
  for (const auto& [text, message] : programs) {
    PythonCluster python(1, text);
    ASSERT_EQ(python.cluster.problem(), "");
    const TinyJob job = python_job(60);
    ASSERT_EQ(python.cluster.shoal({"job", "submit", python.cluster.write_job(job)}).exit_code, 0);
    EXPECT_TRUE(eventually(60,
                           [&] {
                             const auto failures = python.failures();
                             return std::any_of(failures.begin(), failures.end(),
                                                [&, &message = message](const auto& one) {
                                                  return one.find(message) != std::string::npos;
                                                });
                           }))
        << message << "\n"
        << python.logs();
    if (text.find("sleep") != std::string::npos) continue;  // nothing was raised
    EXPECT_TRUE(eventually(20, [&] {
      return python.logs().find("Traceback") != std::string::npos;
    })) << message;
  }
}

}  // namespace
}  // namespace shoal::integration
