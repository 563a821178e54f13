#include "base/span_text.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(SpanText, ReadsSecondsMinutesHoursAndDays) {
  EXPECT_EQ(parse_span("90s"), 90);
  EXPECT_EQ(parse_span("30m"), 1800);
  EXPECT_EQ(parse_span("1h"), 3600);
  EXPECT_EQ(parse_span("2d"), 172'800);
}

TEST(SpanText, RefusesWhatIsNoSpan) {
  for (const char* text : {"", "h", "1", "-1h", "0s", "1.5h", "1 h", "1w", "99999999999d"}) {
    EXPECT_EQ(parse_span(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace shoal
