#include "data/data_roots.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shoal::data {
namespace {

namespace fs = std::filesystem;

class DataRootsTest : public testing::Test {
 protected:
  DataRootsTest() {
    std::string pattern = (fs::temp_directory_path() / "data_roots_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    fs::create_directories(folder_ + "/texts/deep");
    write("texts/text", "inside");
    write("texts/deep/text", "deep inside");
    write("secret", "outside");
  }
  ~DataRootsTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string root() const { return folder_ + "/texts"; }

  DataRoots roots(std::vector<std::string> texts) const {
    return DataRoots::parse(texts, "--data-root").value();
  }

  // The content of the file, or the error as people see it.
  static std::string read(const DataRoots& roots, const std::string& path) {
    const auto fd = roots.open(path);
    if (!fd) return to_string(fd.error());
    std::string text(64, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(*fd, text.data(), 64))));
    ::close(*fd);
    return text;
  }

  std::string folder_;
};

TEST_F(DataRootsTest, OpensByNameAndByAbsolutePath) {
  const DataRoots both = roots({"texts=" + root()});
  EXPECT_EQ(read(both, "texts:text"), "inside");
  EXPECT_EQ(read(both, "texts:deep/../text"), "inside");
  EXPECT_EQ(read(both, root() + "/deep/text"), "deep inside");
  EXPECT_EQ(read(DataRoots::whole_host(), folder_ + "/secret"), "outside");
}

TEST_F(DataRootsTest, NothingLeadsOutOfARoot) {
  fs::create_symlink("../secret", root() + "/relative_link");
  fs::create_symlink(folder_ + "/secret", root() + "/absolute_link");
  fs::create_directory_symlink("..", root() + "/up");
  const DataRoots one = roots({"texts=" + root()});
  for (const std::string path : {"texts:../secret", "texts:relative_link", "texts:absolute_link",
                                 "texts:up/secret", "texts:/etc/passwd"}) {
    const auto fd = one.open(path);
    ASSERT_FALSE(fd.ok()) << path;
    EXPECT_NE(fd.error().message.find("leads out of its data root"), std::string::npos)
        << to_string(fd.error());
  }
  const std::string told = read(one, folder_ + "/secret");
  EXPECT_NE(told.find("lies beneath no data root"), std::string::npos) << told;
  EXPECT_NE(told.find("texts (" + root() + ")"), std::string::npos) << told;
  EXPECT_EQ(told.find("outside"), std::string::npos);
}

TEST_F(DataRootsTest, PathsThatOnlyBeginLikeARoot) {
  fs::create_directories(folder_ + "/texts2");
  write("texts2/text", "another");
  EXPECT_NE(read(roots({root()}), folder_ + "/texts2/text").find("beneath no data root"),
            std::string::npos);
  EXPECT_NE(read(roots({root()}), root() + "/../secret").find("beneath no data root"),
            std::string::npos);
}

TEST_F(DataRootsTest, TheNarrowerRootCounts) {
  fs::create_symlink("../text", root() + "/deep/link");
  EXPECT_EQ(read(roots({root()}), root() + "/deep/link"), "inside");
  EXPECT_NE(read(roots({root(), root() + "/deep"}), root() + "/deep/link").find("leads out"),
            std::string::npos);
}

TEST_F(DataRootsTest, SaysWhatIsWrongWithAPath) {
  const DataRoots one = roots({"texts=" + root()});
  EXPECT_NE(read(one, "books:text").find("no data root named books"), std::string::npos);
  EXPECT_NE(read(one, "text").find("is a relative path"), std::string::npos);
  EXPECT_NE(read(one, "texts:").find("names no file"), std::string::npos);
  EXPECT_NE(read(one, "texts:nowhere").find("No such file"), std::string::npos);
  EXPECT_NE(read(DataRoots(), root() + "/text").find("of this host are: none"), std::string::npos);
}

TEST_F(DataRootsTest, APipeDoesNotHoldItUp) {
  ASSERT_EQ(::mkfifo((root() + "/pipe").c_str(), 0600), 0);
  const auto fd = roots({root()}).open(root() + "/pipe");  // the caller refuses what is no file
  ASSERT_TRUE(fd.ok());
  ::close(*fd);
}

TEST_F(DataRootsTest, RefusesRootsByNameAndRemedy) {
  const auto refusal = [&](std::vector<std::string> texts) {
    const auto read = DataRoots::parse(texts, "--data-root");
    return read.ok() ? "" : to_string(read.error());
  };
  EXPECT_NE(refusal({"Text=" + root()}).find("is not a valid name for a root"), std::string::npos);
  EXPECT_NE(refusal({"relative"}).find("must be an absolute path"), std::string::npos);
  EXPECT_NE(refusal({"a=" + root(), "b=" + root() + "/"}).find("is given twice"),
            std::string::npos);
  EXPECT_NE(refusal({"a=" + root(), "a=" + folder_}).find("'a' is given twice"), std::string::npos);
  EXPECT_NE(refusal({folder_ + "/nowhere"}).find("there is no folder"), std::string::npos);
  EXPECT_NE(refusal({root() + "/text"}).find("there is no folder"), std::string::npos);
}

TEST_F(DataRootsTest, TravelsAsText) {
  const DataRoots both = roots({"texts=" + root(), folder_});
  EXPECT_EQ(DataRoots::from_text(both.to_text(), "SHOAL_DATA_ROOTS").value(), both);
  EXPECT_EQ(DataRoots::from_text("", "SHOAL_DATA_ROOTS").value(), DataRoots());
  EXPECT_FALSE(DataRoots::from_text("relative", "SHOAL_DATA_ROOTS").ok());
}

}  // namespace
}  // namespace shoal::data
