// Programs as the agent starts them, with a shell in the place of Python.
#include "agent/host/program_launch.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/confinement.h"
#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kLimit{20};
const std::string kCode = "sha256:" + std::string(64, 'c');

class ProgramLaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status able = can_confine(); !able.ok()) GTEST_SKIP() << able.error().message;
    auto folder = DataFolder::open(path("agent"));
    ASSERT_TRUE(folder.ok()) << to_string(folder.error());
    folder_ = std::move(folder).value();
    options_.python = "sh";
    write("agent/machine.pem", "KEY");
    write("data/corpus.txt", "corpus");
    write("elsewhere/notes.txt", "NOTES");
    use_roots({path("data")});
  }
  std::string path(const std::string& name) const { return root_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  void program(const std::string& script) const {
    write("agent/code/" + std::string(64, 'c') + "/train.py", script);
  }
  void use_roots(const std::vector<std::string>& folders) {
    options_.data_roots = data::DataRoots::parse(folders, "--data-root").value();
  }
  StartTrainer start(const std::string& data = {}) const {
    return {.trainer = {0, 1},
            .identity = {{TrainerKind::kPython, "train.py", kCode}, ReplicaId(7), JobId(3)},
            .data = data};
  }
  // What the program prints, run as the job of `started`.
  std::vector<std::string> run(const StartTrainer& started) {
    ProcessOptions process{"", {}, {}, path("output.log"), {}};
    lines_.clear();
    process.on_line = [this](std::string_view line) { lines_.emplace_back(line); };
    const Status ready = prepare_program(started, options_, *folder_, process);
    EXPECT_TRUE(ready.ok()) << to_string(ready.error());
    std::promise<void> ended;
    auto child = TrainerProcess::start(process, [&](const ProcessExit&) { ended.set_value(); });
    EXPECT_TRUE(child.ok()) << to_string(child.error());
    EXPECT_EQ(ended.get_future().wait_for(kLimit), std::future_status::ready);
    return lines_;
  }

  TestFolder root_;
  std::unique_ptr<DataFolder> folder_;
  HostOptions options_;
  std::vector<std::string> lines_;
};

TEST_F(ProgramLaunchTest, UploadedCodeReadsItsDataAndWritesIntoAFolderOfItsOwn) {
  program("cat " + path("data/corpus.txt") +
          "; echo; pwd; echo $HOME; echo x > mine; ls; ls $TMPDIR");
  const auto lines = run(start());
  EXPECT_THAT(lines, Contains("corpus"));
  EXPECT_THAT(lines, Contains("mine"));
  EXPECT_THAT(lines, Contains("tmp"));
  EXPECT_THAT(lines[1], HasSubstr(path("agent/scratch/0-")));
  EXPECT_EQ(lines[1], lines[2]) << "it is its home, too";
  const auto again = run(start());
  EXPECT_NE(again[1], lines[1]) << "and empty for the next one";
  EXPECT_FALSE(fs::exists(lines[1]));
}

TEST_F(ProgramLaunchTest, UploadedCodeDoesNotReadTheRestOfTheHost) {
  program("cat " + path("elsewhere/notes.txt") + " " + path("agent/machine.pem") + "; echo done");
  const auto lines = run(start());
  EXPECT_THAT(lines, Contains("done"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("NOTES"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("KEY"))));
}

TEST_F(ProgramLaunchTest, UploadedCodeReachesTheCheckpointsOfItsOwnReplicaAndJobOnly) {
  for (const char* name :
       {"written/rep_8/ckpt_1/model", "fetched/job_4/ckpt_1/model", "fetched/job_3/ckpt_1/model"}) {
    write(std::string("agent/") + name, std::string("CONTENT OF ") + name);
  }
  const std::string written = path("agent/written"), fetched = path("agent/fetched");
  program("mkdir -p " + written + "/rep_7/ckpt_1 && echo mine > " + written +
          "/rep_7/ckpt_1/model && cat " + written + "/rep_7/ckpt_1/model; cat " + fetched +
          "/job_3/ckpt_1/model " + fetched + "/job_4/ckpt_1/model " + written +
          "/rep_8/ckpt_1/model; ls " + written + " " + fetched + "; echo x > " + written +
          "/rep_8/ckpt_1/model; rm -r " + written + "/rep_8; mkdir " + written + "/rep_9; mkfifo " +
          written + "/rep_7/fifo; echo x > " + fetched + "/job_3/new; echo done");
  const auto lines = run(start());
  EXPECT_THAT(lines, Contains("done"));
  EXPECT_THAT(lines, Contains("mine"));
  EXPECT_THAT(lines, Contains(HasSubstr("CONTENT OF fetched/job_3/ckpt_1/model")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("CONTENT OF fetched/job_4/ckpt_1/model"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("CONTENT OF written/rep_8/ckpt_1/model"))));
  EXPECT_THAT(lines, Not(Contains("rep_8"))) << "it is not listed";
  EXPECT_EQ(fs::file_size(written + "/rep_8/ckpt_1/model"), 37u) << "as it was written";
  EXPECT_FALSE(fs::exists(written + "/rep_9"));
  EXPECT_FALSE(fs::exists(written + "/rep_7/fifo"));
  EXPECT_FALSE(fs::exists(fetched + "/job_3/new"));
}

// As `shoal up` gives it: the agent itself lies beneath the root.
TEST_F(ProgramLaunchTest, OfTheWholeHostItReadsTheFolderOfItsData) {
  use_roots({"/"});
  write("data/held_out.txt", "held out");
  write("beside_agent.txt", "one file");
  program("cat " + path("data/corpus.txt") + " " + path("data/held_out.txt") + "; cat " +
          path("beside_agent.txt") + " " + path("elsewhere/notes.txt") + "; cat " +
          path("agent/machine.pem") + "; echo done");
  const auto lines = run(start(path("data/corpus.txt")));
  EXPECT_THAT(lines, Contains(HasSubstr("corpus")));
  EXPECT_THAT(lines, Contains(HasSubstr("held out"))) << "what lies beside it";
  EXPECT_THAT(lines, Not(Contains(HasSubstr("one file"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("NOTES"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("KEY"))));
  const auto beside_agent = run(start(path("beside_agent.txt")));
  EXPECT_THAT(beside_agent, Contains(HasSubstr("one file")));
  EXPECT_THAT(beside_agent, Not(Contains(HasSubstr("NOTES")))) << "the agent lies in that folder";
  const auto of_the_key = run(start(path("agent/machine.pem")));
  EXPECT_THAT(of_the_key, Not(Contains(HasSubstr("KEY")))) << "whatever the job names";
}

TEST_F(ProgramLaunchTest, AProgramThatIsNotThereIsNamed) {
  ProcessOptions process;
  const auto refusal = [&](const TrainerSpec& runs) {
    StartTrainer started = start();
    started.identity.runs = runs;
    const Status ready = prepare_program(started, options_, *folder_, process);
    return ready.ok() ? "" : to_string(ready.error());
  };
  EXPECT_THAT(refusal({TrainerKind::kPython, "none.py", kCode}), HasSubstr("none.py"));
  options_.trainer_root = path("data");
  write("elsewhere/out.py", "");
  fs::create_symlink(path("elsewhere/out.py"), path("data/out.py"));
  write("data/in.py", "");
  EXPECT_THAT(refusal({TrainerKind::kPython, "out.py", ""}), HasSubstr("out.py")) << "it leads out";
  EXPECT_EQ(refusal({TrainerKind::kPython, "in.py", ""}), "");
  EXPECT_EQ(process.rules, nullptr) << "the operator's own programs are not confined";
}

}  // namespace
}  // namespace shoal::agent
