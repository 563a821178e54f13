#include "agent/host/journal.h"

#include <fstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "agent/host/line_splitter.h"

namespace shoal::agent {
namespace {

constexpr Instant kNow = from_unix_ms(1'800'000'000'123);

class JournalTest : public testing::Test {
 protected:
  Journal open(JournalLimits limits = {}) {
    return Journal(
        folder_.path() + "/agent.log", [] { return kNow; }, limits);
  }
  static std::vector<std::string> texts(const LogPage& page) {
    std::vector<std::string> list;
    for (const LogLine& line : page.lines) list.push_back(line.text);
    return list;
  }
  static void add_numbers(Journal& journal, int first, int last) {
    for (int i = first; i <= last; ++i)
      journal.add(LogLevel::kInfo, "agent", {}, std::to_string(i));
  }
  using Texts = std::vector<std::string>;

  TestFolder folder_;
};

TEST_F(JournalTest, ALineComesBackAsItWasWritten) {
  const LogLine line{kNow, LogLevel::kWarning, "trainer-0", ReplicaId(12), "a  b \xff"};
  EXPECT_EQ(format_line(line), "2027-01-15T08:00:00.123000000Z warning trainer-0 rep_12 a  b \xff");
  EXPECT_EQ(parse_line(format_line(line)), line);
  const LogLine bare{{1}, LogLevel::kDebug, "agent", {}, ""};
  EXPECT_EQ(parse_line(format_line(bare)), bare);
  for (const char* bad : {"", "x", "2027-01-15T08:00:00.123000000Z loud agent - x",
                          "2027-01-15T08:00:00.123Zx info agent - x"})
    EXPECT_EQ(parse_line(bad), std::nullopt) << bad;
}

TEST_F(JournalTest, TheLastLinesAreReadOldestFirst) {
  Journal journal = open();
  add_numbers(journal, 1, 5);
  EXPECT_EQ(texts(journal.read({.limit = 2})), (Texts{"4", "5"}));
  EXPECT_EQ(texts(journal.read({.limit = 9})), (Texts{"1", "2", "3", "4", "5"}));
  EXPECT_EQ(texts(journal.read({.limit = 9, .text = "3"})), Texts{"3"});
}

TEST_F(JournalTest, ReadingGoesOnAfterALineAcrossRotationAndRestart) {
  const JournalLimits small{.file_bytes = 200, .files_kept = 2};
  Instant after;
  {
    Journal journal = open(small);
    add_numbers(journal, 1, 4);
    after = journal.read({.limit = 3}).lines.front().at;  // of line 2
    add_numbers(journal, 5, 7);
  }
  Journal journal = open(small);
  add_numbers(journal, 8, 9);
  EXPECT_EQ(texts(journal.read({.limit = 100, .after = after})),
            (Texts{"3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(texts(journal.read({.limit = 2, .after = after})), (Texts{"3", "4"}));
}

TEST_F(JournalTest, EachLineIsLaterThanTheOneBeforeEvenWhenTheClockStands) {
  Journal journal = open();
  add_numbers(journal, 1, 2);
  const auto lines = journal.read({}).lines;
  EXPECT_EQ(lines.at(0).at, kNow);
  EXPECT_EQ(lines.at(1).at, kNow + nanoseconds(1));
}

TEST_F(JournalTest, AnAnswerIsBoundedInBytes) {
  Journal journal = open();
  for (int i = 0; i < 300; ++i) journal.add(LogLevel::kInfo, "agent", {}, std::string(5000, 'x'));
  const LogPage page = journal.read({.limit = kLogLinesMax});
  EXPECT_EQ(page.lines.size(), kLogPageBytesMax / kLogTextMax);
  EXPECT_EQ(page.lines.front().text.size(), kLogTextMax);
}

TEST_F(JournalTest, WhatAKillLeftOfALineIsPassedOver) {
  open().add(LogLevel::kInfo, "agent", {}, "whole");
  std::ofstream(folder_.path() + "/agent.log", std::ios::app) << "2027-01-15T08:00:0";
  Journal journal = open();
  journal.add(LogLevel::kInfo, "agent", {}, "again");
  EXPECT_EQ(texts(journal.read({})), (Texts{"whole", "again"}));
}

TEST_F(JournalTest, AWholeLineIsFollowedByTheNext) {
  open().add(LogLevel::kInfo, "agent", {}, "before");
  open().add(LogLevel::kInfo, "agent", {}, "after");
  std::ifstream file(folder_.path() + "/agent.log");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) EXPECT_NE(line, "");
  EXPECT_EQ(lines, 2);
}

TEST(LineSplitter, CutsLinesAndRemembersTheLast) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); });
  splitter.add("first\nsec");
  splitter.add("ond\n\nnot ended");
  EXPECT_EQ(splitter.last_line(), "second");
  splitter.finish();
  splitter.add(std::string(2 * kLogTextMax, 'x') + "\n");
  EXPECT_EQ(lines, (std::vector<std::string>{"first", "second", "not ended",
                                             std::string(kLogTextMax, 'x')}));
  EXPECT_EQ(splitter.last_line(), std::string(512, 'x'));
  splitter.add("no space left\ninfo: round_open round=3\n");
  EXPECT_EQ(splitter.last_line(), "no space left") << "news does not tell why it died";
  splitter.add("info: a\ninfo: b\ninfo: c\n");
  EXPECT_EQ(splitter.last_line(), "") << "it lived on";
}

TEST(LineSplitter, OfALineThatIsPaintedAnewTheLastPaintingCounts) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); });
  const auto taken = [&] { return std::exchange(lines, {}); };
  using Lines = std::vector<std::string>;
  splitter.add("\r 10%|#  |\r 20%|## |");
  EXPECT_EQ(taken(), Lines{}) << "it has no end";
  splitter.show_progress();
  splitter.show_progress();
  EXPECT_EQ(taken(), Lines{" 20%|## |"}) << "once";
  splitter.add("\r 30%|###|info: round_trained round=1\n");
  EXPECT_EQ(taken(), (Lines{" 30%|###|", "info: round_trained round=1"}));
  splitter.add("\r 40%|");
  splitter.show_progress();
  splitter.add("\n");
  EXPECT_EQ(taken(), Lines{" 40%|"}) << "not a second time at its end";
  EXPECT_EQ(splitter.last_line(), " 40%|");
  // With the return after the state, as some bars have it; wiped at the end.
  splitter.add("50%\r60%\r");
  splitter.show_progress();
  splitter.add("   \r\nplain\n");
  EXPECT_EQ(taken(), (Lines{"60%", "plain"}));
  splitter.show_progress();
  splitter.add("no bar");
  splitter.show_progress();
  splitter.finish();
  EXPECT_EQ(taken(), Lines{"no bar"});
}

// The ends of lines of Windows paint nothing.
TEST(LineSplitter, ACarriageReturnBeforeALineFeedBelongsToIt) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); });
  splitter.add("one\r\ntwo\r");
  splitter.add("\nthree\r\r\n\r\nfour\r");
  splitter.show_progress();
  splitter.add("\n");
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three", "four"}));
}

// The level, and the line as it is kept.
std::pair<LogLevel, std::string> leveled(std::string_view line) {
  const LogLevel level = take_level(line);
  return {level, std::string(line)};
}

TEST(Journal, LevelsAreNamedOrGuessedFromWords) {
  EXPECT_EQ(leveled("shoal-trainer: WARNING: slow").first, LogLevel::kWarning);
  EXPECT_EQ(leveled("terminate called after").first, LogLevel::kError);
  EXPECT_EQ(leveled("CUDA Error: out of memory").first, LogLevel::kError);
  EXPECT_EQ(leveled("ready"), std::pair(LogLevel::kInfo, std::string("ready")));
  EXPECT_EQ(leveled("info: no error: none"),
            std::pair(LogLevel::kInfo, std::string("no error: none")));
  EXPECT_EQ(leveled("debug: round_open"), std::pair(LogLevel::kDebug, std::string("round_open")));
}

}  // namespace
}  // namespace shoal::agent
