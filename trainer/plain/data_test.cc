// The order covers every window once per epoch; the tail is held out; bad files are named.
#include "trainer/plain/data.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include <gmock/gmock.h>

namespace shoal::trainer {
namespace {

using testing::HasSubstr;

class DataTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    const auto path = std::filesystem::path(testing::TempDir()) / ("shoal_data_test_" + name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  JobSpec spec_of(const std::string& path, std::int64_t context, double val_fraction) {
    JobSpec spec;
    spec.model.context = context;
    spec.data.train = path;
    spec.data.val_fraction = val_fraction;
    return spec;
  }
  std::string counting(int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(i));
    return text;
  }
};

TEST_F(DataTest, OrderReadsEveryWindowOncePerEpoch) {
  const SequenceOrder order(1000, 10, 7);
  ASSERT_EQ(order.windows(), 99);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> starts;
    for (std::int64_t i = 0; i < order.windows(); ++i) {
      starts.insert(order.start_of(epoch * order.windows() + i));
    }
    ASSERT_EQ(starts.size(), 99U);
    const std::int64_t phase = *starts.begin();
    EXPECT_LT(phase, 10);
    std::int64_t expected = phase;
    for (const std::int64_t start : starts) {
      EXPECT_EQ(start, expected);
      expected += 10;
    }
    EXPECT_LE(*starts.rbegin() + 11, 1000);
  }
}

TEST_F(DataTest, OrderIsAFunctionOfSeedAndIndexAndChangesBetweenEpochs) {
  const SequenceOrder a(1000, 10, 7), b(1000, 10, 7), other(1000, 10, 8);
  std::vector<std::int64_t> first, again, second, different;
  for (std::int64_t i = 0; i < 99; ++i) {
    first.push_back(a.start_of(i));
    again.push_back(b.start_of(i));
    second.push_back(a.start_of(99 + i));
    different.push_back(other.start_of(i));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, second);
  EXPECT_NE(first, different);
}

TEST_F(DataTest, BytesAreTokensAndTheTailIsHeldOut) {
  const auto data = FileDataset::open(spec_of(write("bytes", counting(200)), 10, 0.2),
                                      data::DataRoots::whole_host());
  ASSERT_TRUE(data.ok()) << to_string(data.error());
  const FileDataset& d = *data.value();
  EXPECT_EQ(d.training_tokens(), 160);
  EXPECT_EQ(d.validation_tokens(), 40);
  std::vector<std::int64_t> tokens(11);
  for (std::int64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(d.training_sequence(i, tokens).ok());
    for (int k = 1; k < 11; ++k) EXPECT_EQ(tokens[k], tokens[0] + k);
    EXPECT_LT(tokens[10], 160);
  }
  EXPECT_EQ(d.validation_sequences(100), 3);  // (40 - 1) / 10
  EXPECT_EQ(d.validation_sequences(2), 2);
  ASSERT_TRUE(d.validation_sequence(2, 3, tokens).ok());
  EXPECT_EQ(tokens[0], 180);
  ASSERT_TRUE(d.validation_sequence(1, 2, tokens).ok());  // evenly spaced: windows 0 and 1 of 3
  EXPECT_EQ(tokens[0], 170);
}

TEST_F(DataTest, Uint16IsLittleEndian) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    bytes.push_back(static_cast<char>(i & 255));
    bytes.push_back(static_cast<char>(1));
  }
  JobSpec spec = spec_of(write("uint16", bytes), 4, 0.1);
  spec.data.tokenizer = Tokenizer::kUint16;
  spec.model.vocab = 512;
  const auto data = FileDataset::open(spec, data::DataRoots::whole_host());
  ASSERT_TRUE(data.ok()) << to_string(data.error());
  std::vector<std::int64_t> tokens(5);
  ASSERT_TRUE((*data)->validation_sequence(0, 1, tokens).ok());
  EXPECT_THAT(tokens, testing::ElementsAre(256 + 90, 256 + 91, 256 + 92, 256 + 93, 256 + 94));
}

TEST_F(DataTest, Uint32IsLittleEndian) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    bytes.push_back(static_cast<char>(i & 255));
    bytes += std::string({'\xf4', '\x01', '\x00'});
  }
  JobSpec spec = spec_of(write("uint32", bytes), 4, 0.1);
  spec.data.tokenizer = Tokenizer::kUint32;
  spec.model.vocab = 128'256;
  const auto data = FileDataset::open(spec, data::DataRoots::whole_host());
  ASSERT_TRUE(data.ok()) << to_string(data.error());
  std::vector<std::int64_t> tokens(5);
  ASSERT_TRUE((*data)->validation_sequence(0, 1, tokens).ok());
  EXPECT_THAT(tokens, testing::ElementsAre(128'090, 128'091, 128'092, 128'093, 128'094));
}

TEST_F(DataTest, MissingFileNamesItsPath) {
  const auto data =
      FileDataset::open(spec_of("/nowhere/text.txt", 10, 0.1), data::DataRoots::whole_host());
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().code, Code::kNotFound);
  EXPECT_THAT(data.error().message, HasSubstr("/nowhere/text.txt"));
}

TEST_F(DataTest, TooShortForTrainingOrForTheTail) {
  const auto train = FileDataset::open(spec_of(write("short", counting(20)), 10, 0.1),
                                       data::DataRoots::whole_host());
  ASSERT_FALSE(train.ok());
  EXPECT_THAT(train.error().message, HasSubstr("too short"));
  const auto tail = FileDataset::open(spec_of(write("short_tail", counting(100)), 10, 0.05),
                                      data::DataRoots::whole_host());
  ASSERT_FALSE(tail.ok());
  EXPECT_THAT(tail.error().message, HasSubstr("5 are held out"));
}

TEST_F(DataTest, TokenOutsideOfTheVocabularyIsNamedWithItsPosition) {
  JobSpec spec = spec_of(write("vocab", counting(150)), 10, 0.1);
  spec.model.vocab = 128;
  const auto data = FileDataset::open(spec, data::DataRoots::whole_host());
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().code, Code::kValidation);
  EXPECT_THAT(data.error().message, HasSubstr("position 128 is not below model.vocab (128)"));
}

TEST_F(DataTest, TheDigestIsOfTheContentAndNotOfThePath) {
  const auto digest = [&](const std::string& name, const std::string& bytes) {
    return FileDataset::open(spec_of(write(name, bytes), 10, 0.1), data::DataRoots::whole_host())
        .value()
        ->digest();
  };
  std::string changed = counting(500);
  changed[321] ^= 1;
  EXPECT_EQ(digest("one", counting(500)), digest("same", counting(500)));
  EXPECT_NE(digest("one", counting(500)), digest("changed", changed));
  EXPECT_NE(digest("one", counting(500)), digest("longer", counting(501)));
}

// Long files are sampled: both ends, and everything when samples cover it.
TEST_F(DataTest, AFileThatIsCutOrChangedWhileItIsReadIsNamed) {
  const std::string path = write("live", counting(200));
  const auto data =
      std::move(FileDataset::open(spec_of(path, 10, 0.2), data::DataRoots::whole_host()).value());
  std::vector<std::int64_t> row(11);
  const auto touched = [&](const std::string& bytes) {
    const auto later = std::filesystem::last_write_time(path) + std::chrono::seconds(1);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
    std::filesystem::last_write_time(path, later);
    return data->training_sequence(0, row);
  };
  EXPECT_TRUE(touched(counting(200)).ok()) << "written again as it was";
  std::string other = counting(200);
  other[100] ^= 1;
  EXPECT_EQ(touched(other).error().code, Code::kValidation);
  EXPECT_TRUE(touched(counting(200)).ok());
  std::filesystem::resize_file(path, 150);
  const Status cut = data->training_sequence(0, row);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, Code::kNotFound);
  EXPECT_NE(cut.error().message.find("150 of 200 bytes"), std::string::npos);
}

TEST_F(DataTest, ALongFileIsSampled) {
  std::vector<std::byte> bytes(3 * kSampleBytes + 17);
  const Digest before = digest_of_content(bytes, 0);
  EXPECT_NE(before, digest_of_content(bytes));
  for (const std::size_t at : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    bytes[at] = std::byte{1};
    EXPECT_NE(digest_of_content(bytes, 0), before) << at;
    bytes[at] = std::byte{0};
  }
  EXPECT_EQ(digest_of_content(bytes, 0), before);
}

}  // namespace
}  // namespace shoal::trainer
