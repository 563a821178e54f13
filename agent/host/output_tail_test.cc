#include "agent/host/output_tail.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OutputTailTest : public testing::Test {
 protected:
  OutputTailTest() : writer_(OutputTail::make(path_)) {}
  ~OutputTailTest() override { close(writer_); }

  void write(const std::string& text) {
    ASSERT_EQ(::write(writer_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  LineSplitter lines() {
    return LineSplitter([this](std::string_view line) { lines_.emplace_back(line); });
  }
  std::vector<std::string> taken() { return std::exchange(lines_, {}); }

  TestFolder folder_;
  const std::string path_ = folder_.path() + "/trainer-0.log";
  int writer_;
  std::vector<std::string> lines_;
};

TEST_F(OutputTailTest, LinesComeAsTheyAreComplete) {
  OutputTail tail(path_, lines());
  write("first\nsec");
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("first"));
  write("ond\nlast");
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("second"));
  tail.finish();
  EXPECT_THAT(taken(), ElementsAre("last"));
  EXPECT_EQ(tail.last_line(), "last");
}

// The last line travels in a message, which is UTF-8. The log has the bytes as they were printed.
TEST_F(OutputTailTest, WhatIsNotUtf8IsReplacedInTheLastLine) {
  OutputTail tail(path_, lines());
  write("caf\xe9: no such file\n");
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("caf\xe9: no such file"));
  EXPECT_EQ(tail.last_line(), "caf\xEF\xBF\xBD: no such file");
}

// Its state is given now and then while it runs, and at its end if that is another one.
TEST_F(OutputTailTest, OfAProgressBarTheNewestStateIsGiven) {
  OutputTail tail(path_, lines());
  for (int i = 1; i <= 2 * OutputTail::kProgressEvery; ++i) {
    write("\r" + std::to_string(i) + "/60 |" + std::string(100, '#') + "|");
    tail.read();
  }
  const std::string rest = "/60 |" + std::string(100, '#') + "|";
  EXPECT_THAT(taken(), ElementsAre("25" + rest, "50" + rest));
  tail.read();
  EXPECT_THAT(taken(), IsEmpty());
  write("info: round_trained round=1\n\r60/60 |done|\nnext\n");
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("info: round_trained round=1", "60/60 |done|", "next"));
}

// Progress bars repaint one line, and its bound is within a character.
TEST_F(OutputTailTest, ALongLastLineIsCutBetweenCharacters) {
  OutputTail tail(path_, lines());
  std::string bar = "\r";
  while (bar.size() < 3 * kLogTextMax) bar += "█";
  write(bar);
  tail.finish();
  EXPECT_EQ(tail.last_line(), bar.substr(1, 510)) << "512 is within a block";
}

TEST_F(OutputTailTest, OfAFloodTheEndStaysAndALineSaysHowMuchIsMissing) {
  std::vector<Bytes> lost;
  OutputTail tail(path_, lines(), OutputTail::kFileMax,
                  [&](Bytes bytes) { lost.push_back(bytes); });
  const std::string line(99, 'x');
  std::string megabyte;
  while (megabyte.size() < 1'000'000) megabyte += line + "\n";
  write("first\n");
  tail.read();
  for (int i = 0; i < 100; ++i) {
    write(megabyte);
    tail.read();
  }
  write("Traceback\nValueError: odd\n");
  tail.finish();
  const auto taken = this->taken();
  std::size_t bytes = 0;
  for (const std::string& each : taken) bytes += each.size();
  EXPECT_LT(bytes, 6'000'000u);
  EXPECT_EQ(taken.front(), "first");
  EXPECT_EQ(taken[taken.size() - 2], "Traceback");
  EXPECT_EQ(tail.last_line(), "ValueError: odd");
  const auto told = std::count_if(taken.begin(), taken.end(), [](const std::string& each) {
    return each.find("bytes of output were left out") != std::string::npos;
  });
  EXPECT_GE(told, 1);
  EXPECT_LE(told, 3);
  EXPECT_EQ(std::ssize(lost), told) << "each line is reported";
  Bytes sum;
  for (const Bytes each : lost) sum += each;
  EXPECT_GT(sum, Bytes(90'000'000));
  EXPECT_LT(std::filesystem::file_size(path_), 17u << 20) << "of the 100 MB";
}

// They come while the flood before them is read, when the file is far too long.
TEST_F(OutputTailTest, LastWordsAfterAFloodAreKept) {
  bool written = false;
  OutputTail tail(path_, LineSplitter([&](std::string_view) {
                    if (!std::exchange(written, true)) write("ValueError: odd\n");
                  }));
  for (int i = 0; i < 20; ++i) write(std::string(999'999, 'x') + "\n");
  tail.read();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 2 << 20) << "the flood takes no room any longer";
  tail.finish();
  EXPECT_EQ(tail.last_line(), "ValueError: odd");
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
}

TEST_F(OutputTailTest, WhatIsSaidOfAFloodIsNotItsLastLine) {
  OutputTail tail(path_, lines());
  for (int i = 0; i < 3; ++i) write(std::string(999'999, 'x') + "\n");
  write("ValueError: odd\n");
  tail.read();
  tail.finish();
  EXPECT_THAT(taken().back(), testing::HasSubstr("bytes of output were left out"));
  EXPECT_EQ(tail.last_line(), "ValueError: odd");
}

TEST_F(OutputTailTest, AWriterWithoutEndDoesNotHoldUpItsReader) {
  OutputTail tail(path_,
                  LineSplitter([this](std::string_view) { write(std::string(50, 'y') + "\n"); }));
  write("begin\n");
  tail.read();
  SUCCEED() << "it came back";
}

TEST_F(OutputTailTest, TheNextReaderGoesOnAfterTheLastWholeLine) {
  {
    OutputTail tail(path_, lines());
    write("first\nhalf");
    tail.read();
  }
  write(" a line\n");
  taken();
  OutputTail tail(path_, lines());
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("half a line"));
}

TEST_F(OutputTailTest, AReadFileIsEmptiedAndFollowedOn) {
  OutputTail tail(path_, lines(), 16);
  write("short\n");
  tail.read();
  EXPECT_EQ(std::filesystem::file_size(path_), 6u);
  write("and a longer line\n");
  tail.read();
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
  write("next\n");
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("short", "and a longer line", "next"));
}

TEST_F(OutputTailTest, AMarkThatCannotBeBeginsAnew) {
  write("first\n");
  for (const std::string& mark : {std::string("99999999999999999999"), std::string("x"),
                                  std::string("00000000000000000700"), std::string()}) {
    std::filesystem::remove(path_ + ".read");
    std::FILE* file = std::fopen((path_ + ".read").c_str(), "w");
    std::fputs(mark.c_str(), file);
    std::fclose(file);
    OutputTail tail(path_, lines());
    tail.read();
    EXPECT_THAT(taken(), ElementsAre("first")) << mark;
  }
}

TEST_F(OutputTailTest, ANewProcessBeginsAnEmptyFile) {
  {
    OutputTail tail(path_, lines());
    write("of the one before\n");
    tail.read();
    taken();
  }
  close(writer_);
  writer_ = OutputTail::make(path_);
  OutputTail tail(path_, lines());
  tail.read();
  EXPECT_THAT(taken(), IsEmpty());
  write("own\n");
  tail.read();
  EXPECT_THAT(taken(), ElementsAre("own"));
}

}  // namespace
}  // namespace shoal::agent
