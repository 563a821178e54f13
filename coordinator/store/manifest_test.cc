#include "coordinator/store/manifest.h"

#include <cctype>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "coordinator/store/json_fields.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

CheckpointRecord stored() {
  CheckpointRecord record = RandomRecords(11).checkpoint(5);
  record.state = CheckpointState::kStored;
  record.key = {JobId(3), 1, 40};
  record.step = Steps(2000), record.tokens = Tokens(128'000), record.next_sequence = 8000;
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
  newer.replace(newer.find("\"version\": 3"), 12, "\"version\": 9");
  EXPECT_EQ(read_manifest(newer).error().code, Code::kIncompatible);
}

// One in every byte that says something; a blank that becomes another one says nothing.
TEST(Manifest, NoFlippedBitIsTakenForWhatWasWritten) {
  const std::string whole = to_manifest(stored());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (std::isspace(static_cast<unsigned char>(whole[at])) != 0) continue;
    for (const int bit : {0, 3, 6}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto read = read_manifest(damaged);
      EXPECT_TRUE(!read.ok() || *read == stored()) << "bit " << bit << " of byte " << at;
    }
  }
}

TEST(Manifest, ASampleThatIsNoTextIsReadAsItWasShown) {
  CheckpointRecord record = stored();
  record.sample = "a\xFFz";
  const auto read = read_manifest(to_manifest(record));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->sample, "a\xEF\xBF\xBDz");
}

// As version 1 wrote it.
std::string without_digest(const CheckpointRecord& record) {
  std::string text = to_manifest(record);
  text.replace(text.find("\"version\": 3"), 12, "\"version\": 1");
  const std::size_t digest = text.rfind(",\n  \"digest\"");
  return text.substr(0, digest) + "\n}\n";
}

TEST(Manifest, ReadsTheEpochOfARestoredBackup) {
  CheckpointRecord record = stored();
  record.key.epoch = std::int64_t{1'795'912'573} << 21;  // of November 2026
  const auto read = read_manifest(to_manifest(record));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->key.epoch, record.key.epoch);
  record.key.epoch = -1;
  EXPECT_FALSE(read_manifest(to_manifest(record)).ok());
}

// Version 2 had the digest, and files without roles.
TEST(Manifest, ReadsVersion2) {
  Json json = Json::parse(to_manifest(stored()));
  json["version"] = 2;
  json.erase("digest");
  for (Json& part : json["parts"])
    for (Json& file : part["files"]) file.erase("role");
  json["digest"] = sha256_of(json.dump());
  const auto read = read_manifest(json.dump(2));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, stored());
  json["digest"] = sha256_of("another text");
  EXPECT_EQ(read_manifest(json.dump(2)).error().code, Code::kDataLoss);
}

TEST(Manifest, TheOldNameOfTheEpochIsRead) {
  std::string old = without_digest(stored());
  old.replace(old.find("\"epoch\""), 7, "\"lineage\"");
  const auto read = read_manifest(old);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, stored());
}

TEST(Manifest, OneOfTheFirstVersionIsReadUnlessItsNumbersAreAbsurd) {
  const auto read = read_manifest(without_digest(stored()));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, stored());
  std::string stripped = without_digest(stored());
  stripped.replace(stripped.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_FALSE(read_manifest(stripped).ok()) << "the second version has a digest";
  for (const std::int64_t absurd : {std::int64_t{-4}, std::int64_t{1} << 62}) {
    CheckpointRecord record = stored();
    record.key.round = absurd;
    EXPECT_FALSE(read_manifest(without_digest(record)).ok());
    record = stored();
    record.step = Steps(absurd);
    EXPECT_FALSE(read_manifest(without_digest(record)).ok());
  }
}

}  // namespace
}  // namespace shoal::coordinator
