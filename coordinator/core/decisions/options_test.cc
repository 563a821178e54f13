// Options that cannot work together are refused, each by its name.
#include "coordinator/core/decisions/options.h"

#include <string>

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

// The name of what is refused when the defaults are changed in this way.
template <typename Change>
std::string refused(const Change& change) {
  Options options;
  change(options);
  const auto errors = validate(options);
  if (errors.size() != 1) return std::to_string(errors.size()) + " errors";
  EXPECT_FALSE(errors[0].detail.empty());
  return errors[0].pointer;
}

TEST(Options, TheDefaultsWorkTogether) { EXPECT_TRUE(validate(Options()).empty()); }

TEST(Options, TimesAreAboveZero) {
  EXPECT_EQ(refused([](Options& o) { o.load_limit = {}; }), "/load_limit");
  EXPECT_EQ(refused([](Options& o) { o.apply_limit = seconds(-1); }), "/apply_limit");
  EXPECT_EQ(refused([](Options& o) { o.replica_backoff = {}; }), "/replica_backoff");
  EXPECT_EQ(refused([](Options& o) { o.replica_backoff_max = milliseconds(1); }),
            "/replica_backoff_max");
  EXPECT_EQ(refused([](Options& o) { o.rest_awaited = seconds(-1); }), "/rest_awaited");
  EXPECT_EQ(refused([](Options& o) { o.device_failures_max = 0; }), "/device_failures_max");
  EXPECT_EQ(refused([](Options& o) { o.load_limit = nanoseconds(1); }), "0 errors");
}

TEST(Options, SomeWaitsMayBeNone) {
  EXPECT_EQ(refused([](Options& o) { o.return_grace = {}; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.join_grace = {}; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.join_grace = nanoseconds(-1); }), "/join_grace");
}

TEST(Options, NumbersAreInTheirRanges) {
  EXPECT_EQ(refused([](Options& o) { o.quorum_grace = 1.01; }), "/quorum_grace");
  EXPECT_EQ(refused([](Options& o) { o.quorum_grace = 1; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.outlier_factor = 1; }), "/outlier_factor");
  EXPECT_EQ(refused([](Options& o) { o.outlier_members_min = 2; }), "/outlier_members_min");
  EXPECT_EQ(refused([](Options& o) { o.attempts_max = 0; }), "/attempts_max");
  EXPECT_EQ(refused([](Options& o) { o.jobs_max = 0; }), "/jobs_max");
}

TEST(Options, OneMayNotBeBelowAnother) {
  EXPECT_EQ(refused([](Options& o) { o.lease = o.heartbeat_every * 2 - nanoseconds(1); }),
            "/lease");
  EXPECT_EQ(refused([](Options& o) { o.lease = o.heartbeat_every * 2; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.boot_grace = seconds(4); }), "/boot_grace");
  EXPECT_EQ(refused([](Options& o) { o.first_step_limit = seconds(59); }), "/first_step_limit");
  EXPECT_EQ(refused([](Options& o) { o.quarantine_cap = seconds(599); }), "/quarantine_cap");
  EXPECT_EQ(refused([](Options& o) { o.quarantine_forgotten = seconds(3599); }),
            "/quarantine_forgotten");
  EXPECT_EQ(refused([](Options& o) { o.reduce_limit_min = seconds(3); }), "/reduce_limit_min");
}

TEST(Options, EveryMistakeIsNamed) {
  Options options;
  options.heartbeat_every = {};
  options.agents_max = 0;
  EXPECT_EQ(validate(options).size(), 2u);
}

}  // namespace
}  // namespace shoal::coordinator
