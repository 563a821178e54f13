// What another process may put in place of a file: none of it is read, and none of it blocks.
#include "transfer/regular_file.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "transfer/files.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

class RegularFileTest : public testing::Test {
 protected:
  RegularFileTest() {
    fs::create_directories(folder_ + "/state");
    std::ofstream(folder_ + "/state/outer.bin") << "outer";
    std::ofstream(root_ + "/secret") << "secret";
  }
  ~RegularFileTest() override { fs::remove_all(root_); }

  void refuses(const std::string& path, const std::string& what) {
    const auto file = RegularFile::open(folder_, path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.error().code, Code::kDataLoss) << path;
    EXPECT_EQ(file.error().field, path);
    EXPECT_NE(file.error().message.find(what), std::string::npos) << file.error().message;
  }

  static std::string fresh() {
    std::string path = "/tmp/shoal-test-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    return path;
  }
  const std::string root_ = fresh();
  const std::string folder_ = root_ + "/folder";
};

TEST_F(RegularFileTest, ReadsAFileInASubfolder) {
  const auto file = RegularFile::open(folder_, "state/outer.bin");
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  EXPECT_EQ(file->size(), Bytes(5));
  std::array<std::byte, 3> bytes{};
  ASSERT_TRUE(file->read(2, bytes).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 3), "ter");
  EXPECT_EQ(file->read(3, bytes).error().code, Code::kDataLoss) << "beyond its end";
}

TEST_F(RegularFileTest, RefusesEverythingElse) {
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  fs::create_symlink("state/outer.bin", folder_ + "/link");
  fs::create_symlink("state", folder_ + "/linked_folder");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  (folder_ + "/socket").copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  refuses("fifo", "a FIFO");
  refuses("link", "a link");
  refuses("linked_folder/outer.bin", "a link");
  refuses("socket", "a socket");
  refuses("state", "a folder");
  refuses("gone", "missing");
  refuses("../secret", "a link, or behind one");
  refuses("/etc/hostname", "a link, or behind one");
  ::close(listener);
}

TEST_F(RegularFileTest, FilesInARowAreReadTheSameWay) {
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  const auto take = [](std::span<const std::byte>) { return true; };
  const Status read = read_files(folder_, {{"fifo", Bytes(3), ""}}, Bytes(), take);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().field, "fifo");
}

}  // namespace
}  // namespace shoal
