#include "tokenizer/corpus/byte_source.h"

#include <gmock/gmock.h>

#include "tokenizer/corpus/corpus_test_util.h"

namespace shoal::corpus {
namespace {

using testing::HasSubstr;

class ByteSourceTest : public CorpusTest {
 protected:
  // Reads `room` bytes at a time.
  Result<std::string> content(const std::string& file, std::size_t room = 1000) const {
    auto source = ByteSource::open(write("file", file));
    if (!source) return source.error();
    std::string all, block(room, '\0');
    for (;;) {
      const auto got = source->read(block.data(), block.size());
      if (!got) return got.error();
      if (*got == 0) break;
      all += block.substr(0, *got);
    }
    EXPECT_EQ(source->position(), static_cast<std::int64_t>(file.size()));
    return all;
  }
  std::string refused(const std::string& file) const {
    const auto all = content(file);
    EXPECT_FALSE(all.ok());
    if (all.ok()) return "";
    EXPECT_EQ(all.error().code, Code::kDataLoss);
    return all.error().message.substr(all.error().message.find("file "));
  }
  static std::string long_text() {
    std::string text;
    for (std::int64_t i = 0; text.size() < 2'000'000; ++i) text += std::to_string(i * i) + "\n";
    return text;
  }
};

TEST_F(ByteSourceTest, APlainFileIsReadAsItIs) {
  const std::string text = long_text();
  EXPECT_EQ(content(text).value(), text);
  EXPECT_EQ(content("x").value(), "x");
  EXPECT_EQ(content("").value(), "");
}

TEST_F(ByteSourceTest, CompressedFilesAreReadWhateverTheyAreCalled) {
  const std::string text = long_text();
  for (const std::size_t room : {std::size_t{1} << 20, std::size_t{777}}) {
    EXPECT_EQ(content(gzip_of(text), room).value(), text);
    EXPECT_EQ(content(zstd_of(text), room).value(), text);
  }
  EXPECT_EQ(content(gzip_of("")).value(), "");
  EXPECT_EQ(content(zstd_of("")).value(), "");
}

// As pigz, bgzip, `cat a.gz b.gz` and zstd with several threads write them.
TEST_F(ByteSourceTest, StreamsInARowAreOneText) {
  EXPECT_EQ(content(gzip_of("one ") + gzip_of("") + gzip_of("two")).value(), "one two");
  EXPECT_EQ(content(zstd_of("one ") + zstd_of("two")).value(), "one two");
  EXPECT_EQ(content(gzip_of("padded") + std::string(1000, '\0')).value(), "padded");
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(content(skippable + zstd_of("text")).value(), "text");
}

TEST_F(ByteSourceTest, ATruncatedFileIsNamedWhereverItEnds) {
  const std::string text = long_text().substr(0, 20'000);
  const std::string gzip = gzip_of(text), zstd = zstd_of(text);
  for (const std::size_t size :
       {std::size_t{2}, std::size_t{9}, gzip.size() / 2, gzip.size() - 1}) {
    EXPECT_EQ(refused(gzip.substr(0, size)), "file is truncated: its gzip data ends in the middle");
  }
  for (const std::size_t size :
       {std::size_t{4}, std::size_t{9}, zstd.size() / 2, zstd.size() - 1}) {
    EXPECT_EQ(refused(zstd.substr(0, size)), "file is truncated: its zstd data ends in the middle");
  }
  EXPECT_THAT(refused(gzip + gzip.substr(0, 30)), HasSubstr("is truncated"));
}

TEST_F(ByteSourceTest, ADamagedFileIsNamed) {
  std::string gzip = gzip_of(long_text().substr(0, 20'000));
  gzip[gzip.size() - 6] = static_cast<char>(gzip[gzip.size() - 6] ^ 1);  // of the checksum
  EXPECT_EQ(refused(gzip), "file is damaged (gzip: incorrect data check)");
  EXPECT_EQ(refused(gzip_of("text") + "more"),
            "file is damaged (gzip: other bytes follow the compressed text)");
  EXPECT_THAT(refused(zstd_of("text") + "more text"), HasSubstr("file is damaged (zstd: "));
}

TEST_F(ByteSourceTest, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(ByteSource::open((folder_ / "none").string()).error().code, Code::kNotFound);
}

TEST(OtherFormat, IsToldByItsFirstBytes) {
  const auto told = [](std::string_view head, std::string_view tail = "") {
    const auto other = other_format(head, tail);
    return other ? other->message : "";
  };
  EXPECT_EQ(told("PAR1\x15\x04"), "is a Parquet file") << "truncated";
  EXPECT_EQ(told("PAR1Lowercase", "PAR1"), "is a Parquet file");
  EXPECT_EQ(told("PAR1 is a word.\n", "rd.\n"), "");
  EXPECT_EQ(told("BZh91AY&SYxx"), "is compressed with bzip2");
  EXPECT_EQ(told(std::string("\xFD"
                             "7zXZ\0",
                             6)),
            "is compressed with xz");
  EXPECT_EQ(told(std::string(257, 'x') + "ustar"), "is a tar archive");
  EXPECT_EQ(told(std::string("\xFF\xFE\0\0", 4)), "is UTF-32, not UTF-8");
  EXPECT_EQ(told("\xFE\xFF"), "is UTF-16, not UTF-8");
  EXPECT_EQ(told(""), "");
  EXPECT_EQ(told("{\"text\": 1}"), "");
}

}  // namespace
}  // namespace shoal::corpus
