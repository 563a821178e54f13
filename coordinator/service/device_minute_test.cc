#include "coordinator/service/device_minute.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

constexpr Instant kMinuteBegan = from_unix_ms(1'800'000'000'000);

DeviceSample sample(double busy, double celsius, double watts, bool throttled) {
  DeviceSample s{.uuid = "GPU-a", .answer = DeviceAnswer::kWhole};
  s.use =
      DeviceUse{.busy = busy, .used_here = Bytes(100), .used_elsewhere = Bytes(busy > 0.5 ? 7 : 0)};
  s.climate = DeviceClimate{.celsius = celsius, .watts = watts, .mhz = 2 * watts};
  if (throttled) s.climate->throttled = {"sw_power_cap"};
  return s;
}

TEST(MinuteSum, WeighsSamplesByTheTimeThatTheyHeld) {
  MinuteSum sum;
  sum.add(sample(1, 80, 400, true), seconds(45));
  sum.add(sample(0, 60, 200, false), seconds(15));
  const auto point = sum.take(kMinuteBegan);
  ASSERT_TRUE(point);
  EXPECT_EQ(*point, (DevicePoint{.at = kMinuteBegan,
                                 .busy = 0.75,
                                 .used_here = Bytes(100),
                                 .used_elsewhere = Bytes(7),
                                 .celsius = 80,
                                 .watts = 350,
                                 .mhz = 700,
                                 .throttled = 0.75}));
  EXPECT_FALSE(sum.take(kMinuteBegan)) << "it begins anew";
}

TEST(MinuteSum, TimeInWhichTheDriverDidNotAnswer_CountsForNothing) {
  MinuteSum sum;
  DeviceSample silent = sample(0, 90, 0, false);
  silent.answer = DeviceAnswer::kSilent;
  sum.add(silent, seconds(30));
  EXPECT_FALSE(sum.take(kMinuteBegan));
  sum.add(silent, seconds(30));
  sum.add(sample(1, 70, 300, false), seconds(30));
  EXPECT_EQ(sum.take(kMinuteBegan)->busy, 1);
}

TEST(MinuteSum, Minute_BeginsAtAMultipleOfItself) {
  EXPECT_EQ(minute_of(from_unix_ms(1'800'000'059'999)), kMinuteBegan);
  EXPECT_EQ(minute_of(from_unix_ms(1'800'000'060'000)), kMinuteBegan + kDeviceMinute);
}

}  // namespace
}  // namespace shoal::coordinator
