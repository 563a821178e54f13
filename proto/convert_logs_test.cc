#include "proto/convert_logs.h"

#include <gtest/gtest.h>

namespace shoal::proto {
namespace {

const LogQuery kQuery{.limit = 7,
                      .after = Instant{123},
                      .level_min = LogLevel::kWarning,
                      .source = "agent",
                      .replicas = {ReplicaId(3), ReplicaId(4)},
                      .text = "no space"};
const LogPage kPage{{{{5}, LogLevel::kError, "trainer-1", ReplicaId(3), "a"},
                     {{6}, LogLevel::kDebug, "agent", {}, ""}}};

TEST(ConvertLogs, QuestionsAndAnswersComeBackEqual) {
  const v1::LogQuestion question = to_wire(9, kQuery);
  EXPECT_EQ(question.id(), 9u);
  EXPECT_EQ(*read(question), kQuery);
  EXPECT_EQ(*read(to_wire(1, LogQuery{})), LogQuery{});
  const v1::LogAnswer answer = to_wire(9, kPage);
  EXPECT_EQ(answer.id(), 9u);
  EXPECT_EQ(*read(answer), kPage);
}

TEST(ConvertLogs, AProblemStaysOne) {
  const auto read_back = read(to_wire(1, Error{Code::kInternal, "disk gone", "", ""}));
  ASSERT_FALSE(read_back.ok());
  EXPECT_EQ(read_back.error().message, "disk gone");
}

TEST(ConvertLogs, WhatIsOutOfBoundsIsRefused) {
  v1::LogQuestion question = to_wire(1, kQuery);
  question.set_limit(kLogLinesMax + 1);
  EXPECT_EQ(read(question).error().field, "limit");
  question = to_wire(1, kQuery);
  question.set_level("loud");
  EXPECT_EQ(read(question).error().field, "level");
  v1::LogAnswer answer = to_wire(1, kPage);
  answer.mutable_lines(0)->set_text(std::string(kLogTextMax + 1, 'x'));
  EXPECT_EQ(read(answer).error().field, "lines.text");
  answer = to_wire(1, kPage);
  answer.mutable_lines(1)->set_at_ns(0);
  EXPECT_EQ(read(answer).error().field, "lines.at_ns");
}

}  // namespace
}  // namespace shoal::proto
