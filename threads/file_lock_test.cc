#include "threads/file_lock.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace shoal {
namespace {

class FileLockTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = [] {
    std::string path = testing::TempDir() + "/file_lock_XXXXXX";
    return std::string(::mkdtemp(path.data()));
  }();
  const std::string file_ = folder_ + "/lock";
};

TEST_F(FileLockTest, IsHeldByOneAtATime) {
  auto first = std::make_unique<FileLock>(file_, O_RDWR | O_CREAT);
  EXPECT_TRUE(first->held());
  EXPECT_GE(first->descriptor(), 0);
  const FileLock second(file_, O_RDWR | O_CREAT);
  EXPECT_FALSE(second.held());
  EXPECT_TRUE(second.is_taken());
  first.reset();
  EXPECT_TRUE(FileLock(file_, O_RDWR | O_CREAT).held());
}

TEST_F(FileLockTest, LocksFoldersToo) {
  const FileLock first(folder_, O_RDONLY | O_DIRECTORY);
  EXPECT_TRUE(first.held());
  EXPECT_TRUE(FileLock(folder_, O_RDONLY | O_DIRECTORY).is_taken());
}

TEST_F(FileLockTest, TellsWhatFailedWhereThereIsNothingToLock) {
  const FileLock lock(folder_ + "/none/lock", O_RDWR | O_CREAT);
  EXPECT_FALSE(lock.held());
  EXPECT_FALSE(lock.is_taken());
  EXPECT_EQ(lock.failure(), ENOENT);
  EXPECT_EQ(lock.descriptor(), -1);
}

}  // namespace
}  // namespace shoal
