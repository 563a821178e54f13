// The line in virtual time: rate, queue, burst, delay, loss, order.
#include "bench/line/core/line.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "bench/line/core/packet_test_util.h"

namespace shoal::bench {
namespace {

constexpr double kGigabit = 125e6;

LineOptions at_rate(double bytes_per_s) {
  LineOptions options;
  options.bytes_per_s = bytes_per_s;
  options.burst = {};
  return options;
}

Instant ms(std::int64_t n) { return Instant{} + milliseconds(n); }

std::vector<Passage> pass(Line& line, Instant now, const Train& train) {
  std::vector<Passage> out;
  line.pass(now, train, out);
  return out;
}

// Enters `count` packets of 1,000 bytes, `apart` from each other, and returns what arrives.
std::vector<Passage> pass_many(Line& line, int count, Duration apart) {
  std::vector<Passage> out;
  const Train train = whole(tcp_packet(1000));
  for (int i = 0; i < count; ++i) line.pass(Instant{} + apart * i, train, out);
  return out;
}

TEST(Line, WithoutOptionsPassesAtOnce) {
  Line line({}, 1);
  const auto out = pass(line, ms(5), whole(tcp_packet(1000)));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].at, ms(5));
}

TEST(Line, BytesLeaveOneAfterAnother) {
  Line line(at_rate(1e6), 1);  // a packet is 1 ms
  const auto out = pass_many(line, 3, {});
  ASSERT_EQ(out.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)].at, ms(i + 1));
}

TEST(Line, TheQueueIsBounded) {
  LineOptions options = at_rate(1e6);
  options.queue = milliseconds(10);
  Line line(options, 1);
  EXPECT_EQ(pass_many(line, 100, {}).size(), 11u);  // ten wait, one is served
  EXPECT_EQ(line.counts().overflowed, 89);
  EXPECT_EQ(line.counts().entered, 100);
}

TEST(Line, AnIdleLineCatchesUpOnABurst) {
  LineOptions options = at_rate(1e6);
  options.burst = milliseconds(3);
  Line line(options, 1);
  std::vector<Passage> out;
  for (int i = 0; i < 5; ++i) line.pass(ms(100), whole(tcp_packet(1000)), out);
  EXPECT_EQ(out[2].at, ms(100));
  EXPECT_EQ(out[3].at, ms(101));
  EXPECT_EQ(out[4].at, ms(102));
}

TEST(Line, DelayIsAddedToTheRate) {
  LineOptions options = at_rate(1e6);
  options.delay = milliseconds(150);
  Line line(options, 1);
  EXPECT_EQ(pass(line, ms(0), whole(tcp_packet(1000)))[0].at, ms(151));
}

TEST(Line, JitterSpreadsAndKeepsTheOrder) {
  LineOptions options;
  options.delay = milliseconds(100);
  options.jitter = milliseconds(10);
  Line line(options, 1);
  const auto out = pass_many(line, 1000, milliseconds(100));  // too far apart to push each other
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double late = static_cast<double>((out[i].at - ms(100 * static_cast<int>(i))).ns) * 1e-6;
    sum += late;
    squares += (late - 100) * (late - 100);
  }
  EXPECT_NEAR(sum / 1000, 100, 1);
  EXPECT_NEAR(std::sqrt(squares / 1000), 10, 1);

  Line dense(options, 1);
  const auto close = pass_many(dense, 1000, microseconds(100));
  EXPECT_TRUE(std::is_sorted(close.begin(), close.end(),
                             [](const auto& a, const auto& b) { return a.at < b.at; }));
}

TEST(Line, LosesItsShare) {
  LineOptions options;
  options.loss = 0.01;
  Line line(options, 1);
  const auto out = pass_many(line, 100'000, microseconds(1));
  EXPECT_NEAR(static_cast<double>(line.counts().lost), 1000, 100);
  EXPECT_EQ(std::ssize(out) + line.counts().lost, 100'000);
}

TEST(Line, SegmentsOfATrainAreLostOnTheirOwn) {
  LineOptions options;
  options.loss = 0.1;
  Line line(options, 1);
  const Train train = whole(tcp_packet(40 + 40 * 1000, 1000));
  std::int64_t passed = 0, full = 0;
  for (int i = 0; i < 1000; ++i) {
    for (const Passage& passage : pass(line, ms(i), train)) {
      passed += passage.train.count;
      full += passage.train.count == 40 ? 1 : 0;
    }
  }
  EXPECT_EQ(passed, line.counts().passed);
  EXPECT_NEAR(static_cast<double>(passed), 36'000, 500);
  EXPECT_NEAR(static_cast<double>(full), 1000 * std::pow(0.9, 40), 15);
}

TEST(Line, ALongTrainLeavesInParts) {
  Line line(at_rate(kGigabit / 50), 1);  // 2.5 MB/s: a segment of 1,040 bytes takes 416 us
  const auto out = pass(line, ms(0), whole(tcp_packet(40 + 40 * 1000, 1000)));
  ASSERT_EQ(out.size(), 40u);
  EXPECT_EQ(out[0].at.ns, 416'000);
  EXPECT_EQ(out[39].at.ns, 40 * 416'000);
  EXPECT_EQ(out[39].train.first, 39);

  Line fast(at_rate(kGigabit), 1);  // 41,600 bytes are 333 us
  EXPECT_EQ(pass(fast, ms(0), whole(tcp_packet(40 + 40 * 1000, 1000))).size(), 1u);
}

TEST(Line, ADetourIsPassedByThoseBehind) {
  LineOptions options;
  options.reorder = 0.1;
  options.delay = milliseconds(20);
  Line line(options, 1);
  const auto out = pass_many(line, 10'000, microseconds(10));
  std::int64_t late = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Duration spent = out[i].at - (Instant{} + microseconds(10) * static_cast<int>(i));
    if (spent == milliseconds(25))
      ++late;
    else
      EXPECT_EQ(spent, milliseconds(20));
  }
  EXPECT_EQ(late, line.counts().detoured);
  EXPECT_NEAR(static_cast<double>(late), 1000, 100);
}

TEST(Line, WhileItIsCutNothingEnters) {
  Line line(at_rate(1e6), 1);
  std::vector<Passage> out;
  line.pass(ms(0), whole(tcp_packet(1000)), out);
  LineOptions cut = line.options();
  cut.cut = true;
  line.set(cut);
  line.pass(ms(1), whole(tcp_packet(1000)), out);
  cut.cut = false;
  line.set(cut);
  line.pass(ms(2), whole(tcp_packet(1000)), out);
  EXPECT_EQ(out.size(), 2u);
  EXPECT_EQ(line.counts().refused, 1);
}

TEST(Line, AnotherRateHoldsForWhatEntersFromThenOn) {
  Line line(at_rate(1e6), 1);
  std::vector<Passage> out;
  line.pass(ms(0), whole(tcp_packet(1000)), out);
  line.set(at_rate(1e5));
  line.pass(ms(0), whole(tcp_packet(1000)), out);
  EXPECT_EQ(out[0].at, ms(1));
  EXPECT_EQ(out[1].at, ms(11));
}

TEST(Line, OneSeedOneFate) {
  LineOptions options = at_rate(1e6);
  options.loss = 0.3;
  options.jitter = milliseconds(1);
  options.reorder = 0.1;
  Line first(options, 7), second(options, 7), other(options, 8);
  const auto times = [](Line& line) {
    std::vector<Instant> all;
    for (const Passage& passage : pass_many(line, 200, milliseconds(1))) all.push_back(passage.at);
    return all;
  };
  const auto expected = times(first);
  EXPECT_EQ(times(second), expected);
  EXPECT_NE(times(other), expected);
}

}  // namespace
}  // namespace shoal::bench
