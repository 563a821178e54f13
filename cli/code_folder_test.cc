#include "cli/code_folder.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CodeFolder : public testing::Test {
 protected:
  ~CodeFolder() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text = "x") const {
    const fs::path file = fs::path(root_) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::vector<std::string> files() const {
    auto found = code_files(root_);
    EXPECT_TRUE(found.ok()) << to_string(found.error());
    return found.ok() ? *found : std::vector<std::string>();
  }
  std::string refused(const std::string& folder) const {
    const auto found = code_files(folder);
    return found.ok() ? "" : to_string(found.error());
  }

  const std::string root_ = [] {
    std::string name = testing::TempDir() + "code_XXXXXX";
    return std::string(::mkdtemp(name.data()));
  }();
};

TEST_F(CodeFolder, LeavesOutWhatIsNoCode) {
  write("train.py");
  write("model/block.py");
  write("model/__pycache__/block.pyc");
  write("old.pyc");
  write(".git/config");
  write(".venv/bin/python3");
  EXPECT_THAT(files(), ElementsAre("model/block.py", "train.py"));
  EXPECT_THAT(code_files(root_ + "/").value(), ElementsAre("model/block.py", "train.py"));
}

TEST_F(CodeFolder, LeavesOutWhatTheIgnoreFileNames) {
  write("train.py");
  write("data/corpus.txt");
  write("runs/1/log.txt");
  write("src/runs.py");
  write("src/log.txt");
  write("notes.txt");
  write(".shoalignore", "# large\n*.txt\n/data\n\nruns/\n");
  EXPECT_THAT(files(), ElementsAre("src/runs.py", "train.py"));
  write(".shoalignore", "src/*.txt\n");
  EXPECT_THAT(files(), ElementsAre("data/corpus.txt", "notes.txt", "runs/1/log.txt", "src/runs.py",
                                   "train.py"));
}

TEST_F(CodeFolder, LinksAreNamed) {
  write("train.py");
  fs::create_symlink("/etc/passwd", root_ + "/secrets");
  EXPECT_THAT(refused(root_), HasSubstr("secrets"));
  EXPECT_THAT(refused(root_), HasSubstr(".shoalignore"));
  write(".shoalignore", "secrets\n");
  EXPECT_THAT(files(), ElementsAre("train.py"));
}

TEST_F(CodeFolder, AFolderWithoutFilesIsRefused) {
  EXPECT_THAT(refused(root_), HasSubstr("holds no files"));
  EXPECT_THAT(refused(root_ + "/none"), HasSubstr("is not a folder"));
  EXPECT_THAT(refused(root_ + "/none"), HasSubstr("--code"));
}

}  // namespace
}  // namespace shoal::cli
