#include "data/manifest.h"

#include <gmock/gmock.h>

namespace shoal::data {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  const std::string hash(64, 'a'), other(64, 'b');
  return {Tokenizer::kUint32,
          kChunkBytesMin,
          {{"a.bin", 3 * kChunkBytesMin + 8, hash, other, "", 128'255, 7},
           {"b.bin", 4, other, hash, "https://example.org/b.bin", 0, 0}}};
}

std::string refused(const Manifest& manifest) {
  const auto read = parse_manifest(to_text(manifest));
  return read.ok() ? "" : to_string(read.error());
}

TEST(Manifest, IsReadAsItWasWritten) {
  const auto read = parse_manifest(to_text(example()));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, example());
  EXPECT_EQ(total_tokens(*read), (3 * kChunkBytesMin + 12) / 4);
}

TEST(Manifest, MayNameATokenizer) {
  Manifest manifest = example();
  EXPECT_EQ(to_text(manifest).find("tokenizer"), std::string::npos) << "as older ones are";
  manifest.tokenizer = std::string(64, 'c');
  EXPECT_EQ(*parse_manifest(to_text(manifest)), manifest);
}

TEST(Manifest, TheLastChunkIsShorter) {
  const Shard shard = example().shards[0];
  EXPECT_EQ(chunk_count(shard, kChunkBytesMin), 4);
  EXPECT_EQ(bytes_of_chunk(shard, kChunkBytesMin, 2), kChunkBytesMin);
  EXPECT_EQ(bytes_of_chunk(shard, kChunkBytesMin, 3), 8);
}

TEST(Manifest, ChunksGrowWithTheDatasetBetweenTheirBounds) {
  EXPECT_EQ(chunk_bytes_for(0), kChunkBytesMin);
  EXPECT_EQ(chunk_bytes_for(100'000), kChunkBytesMin) << "some 25 chunks";
  EXPECT_EQ(chunk_bytes_for(std::int64_t{4} << 20), 64 << 10) << "64 chunks";
  EXPECT_EQ(chunk_bytes_for(std::int64_t{16} << 20), 64 << 10) << "256 chunks";
  EXPECT_EQ(chunk_bytes_for((std::int64_t{32} << 20) - 1), 64 << 10);
  EXPECT_EQ(chunk_bytes_for(std::int64_t{32} << 20), 128 << 10);
  EXPECT_EQ(chunk_bytes_for(std::int64_t{1} << 50), kChunkBytesMax);
}

TEST(Manifest, RefusalsNameTheShard) {
  const auto with = [](auto change) {
    Manifest manifest = example();
    change(manifest);
    return refused(manifest);
  };
  EXPECT_THAT(with([](Manifest& m) { m.shards[1].bytes = 0; }), HasSubstr("shard b.bin is empty"));
  EXPECT_THAT(with([](Manifest& m) { m.shards[1].bytes = 6; }),
              HasSubstr("b.bin ends within a token: 6 bytes of 4 each"));
  EXPECT_THAT(with([](Manifest& m) { m.shards[1].name = "a.bin"; }), HasSubstr("is listed twice"));
  EXPECT_THAT(with([](Manifest& m) { m.shards[0].sha256 = "x"; }), HasSubstr("has no SHA-256"));
  EXPECT_THAT(with([](Manifest& m) { m.shards[0].url = "a\nb"; }), HasSubstr("a URL that is none"));
  EXPECT_THAT(with([](Manifest& m) { m.shards[1].max_at = 1; }), HasSubstr("largest token"));
  EXPECT_THAT(with([](Manifest& m) { m.shards.clear(); }), HasSubstr("must list 1 to 100000"));
  EXPECT_THAT(with([](Manifest& m) { m.tokenizer = "x"; }), HasSubstr("a tokenizer that is no"));
  EXPECT_THAT(with([](Manifest& m) { m.chunk_bytes = 100'000; }), HasSubstr("a power of two"));
  EXPECT_THAT(
      with([](Manifest& m) { m.shards[0].bytes = m.shards[1].bytes = std::int64_t{1} << 50; }),
      HasSubstr("more than 1 PiB"));
}

TEST(Manifest, WhatIsNoManifestIsRefused) {
  for (const char* text : {"", "[]", "{}", "{\"format\":2}", "{\"format\":1}",
                           "{\"format\":1,\"tokens\":\"bytes\",\"shards\":[7]}"}) {
    EXPECT_FALSE(parse_manifest(text).ok()) << text;
  }
}

}  // namespace
}  // namespace shoal::data
