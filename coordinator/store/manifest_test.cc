#include "coordinator/store/manifest.h"

#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

CheckpointRecord stored() {
  CheckpointRecord record = RandomRecords(11).checkpoint(5);
  record.state = CheckpointState::kStored;
  record.sample = "\xC3\xA4 \"text\"\n";
  record.returned = {{7, 3}, {20, 1}};
  record.parts = {{.writer = ReplicaId(1),
                   .state = CheckpointState::kStored,
                   .anchor = {1, 2},
                   .momentum = {3, 4},
                   .files = {{"model.safetensors", Bytes(9), std::string(64, 'b')}}}};
  return record;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const auto read = read_manifest(to_manifest(stored()));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, stored());
}

TEST(Manifest, OfWhatWasNotStoredIsNone) {
  CheckpointRecord record = stored();
  record.parts[0].state = CheckpointState::kUploading;
  EXPECT_EQ(read_manifest(to_manifest(record)).error().code, Code::kDataLoss);
  record.parts.clear();
  EXPECT_FALSE(read_manifest(to_manifest(record)).ok());
}

TEST(Manifest, EveryCutAndEveryOtherTypeIsRefused) {
  const std::string whole = to_manifest(stored());
  const std::size_t end = whole.rfind('}');
  for (std::size_t length = 0; length <= end; length += 7) {
    EXPECT_FALSE(read_manifest(whole.substr(0, length)).ok()) << length;
  }
  std::string other = whole;
  other.replace(other.find("\"round\": "), 9, "\"round\": [], \"x\": ");
  EXPECT_FALSE(read_manifest(other).ok());
  std::string newer = whole;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 9");
  EXPECT_EQ(read_manifest(newer).error().code, Code::kIncompatible);
}

}  // namespace
}  // namespace shoal::coordinator
