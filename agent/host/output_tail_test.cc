#include "agent/host/output_tail.h"

#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
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
