#include "agent/host/data_cache.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "agent/host/folder_test_util.h"
#include "base/sha256.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

class DataCacheTest : public ::testing::Test {
 protected:
  void open(std::int64_t limit) {
    cache_ = std::move(DataCache::open(folder_.path() + "/cache", Bytes(limit))).value();
  }
  std::string put(const std::string& content) {
    cache_->put(sha256_of(content), content);
    return sha256_of(content);
  }
  std::string path_of(const std::string& sha256) const {
    return folder_.path() + "/cache/" + sha256.substr(0, 2) + "/" + sha256;
  }
  std::int64_t bytes_on_disk() const {
    std::int64_t sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() + "/cache")) {
      if (entry.is_regular_file()) sum += static_cast<std::int64_t>(entry.file_size());
    }
    return sum;
  }

  TestFolder folder_;
  std::unique_ptr<DataCache> cache_;
};

TEST_F(DataCacheTest, KeepsWhatItWasGivenOverAStart) {
  open(100);
  const std::string sha256 = put("content");
  EXPECT_EQ(cache_->get(sha256), "content");
  EXPECT_FALSE(cache_->get(sha256_of("other")));
  open(100);
  EXPECT_EQ(cache_->get(sha256), "content");
  EXPECT_EQ(cache_->used(), Bytes(7));
}

TEST_F(DataCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  open(10);
  const std::string one = put("1111"), two = put("2222");
  EXPECT_TRUE(cache_->get(one));
  const std::string three = put("3333");
  EXPECT_TRUE(cache_->get(one));
  EXPECT_FALSE(cache_->get(two));
  EXPECT_TRUE(cache_->get(three));
  EXPECT_EQ(cache_->used(), Bytes(8));
  EXPECT_EQ(bytes_on_disk(), 8);
}

TEST_F(DataCacheTest, IsNeverLargerThanItsLimit) {
  open(100);
  for (int i = 0; i < 200; ++i) {
    put(std::string(static_cast<std::size_t>(1 + i % 37), static_cast<char>('a' + i % 26)) +
        std::to_string(i));
    ASSERT_LE(bytes_on_disk(), 100) << i;
    ASSERT_EQ(cache_->used().n, bytes_on_disk()) << i;
  }
  put(std::string(101, 'x'));
  EXPECT_LE(bytes_on_disk(), 100) << "too large for it";
  open(20);
  EXPECT_LE(bytes_on_disk(), 20) << "a smaller limit at the next start";
  open(0);
  EXPECT_EQ(bytes_on_disk(), 0);
  put("x");
  EXPECT_EQ(bytes_on_disk(), 0);
}

TEST_F(DataCacheTest, ACutAndAFlippedFileAreNone) {
  open(1'000);
  const std::string cut = put("is cut short"), flipped = put("has a flipped bit");
  fs::resize_file(path_of(cut), 5);
  std::fstream(path_of(flipped), std::ios::in | std::ios::out | std::ios::binary).put('H');
  EXPECT_FALSE(cache_->get(cut));
  EXPECT_FALSE(cache_->get(flipped));
  EXPECT_EQ(cache_->damaged(), 2);
  EXPECT_EQ(bytes_on_disk(), 0);
  put("is cut short");
  EXPECT_EQ(cache_->get(cut), "is cut short");
}

TEST_F(DataCacheTest, AFileThatIsGoneIsNone) {
  open(1'000);
  const std::string sha256 = put("content");
  fs::remove(path_of(sha256));
  EXPECT_FALSE(cache_->get(sha256));
  EXPECT_EQ(cache_->used(), Bytes(0));
}

TEST_F(DataCacheTest, StrangeFilesOfItsFolderGo) {
  open(1'000);
  std::ofstream(folder_.path() + "/cache/half.new") << "x";
  open(1'000);
  EXPECT_EQ(bytes_on_disk(), 0);
}

}  // namespace
}  // namespace shoal::agent
