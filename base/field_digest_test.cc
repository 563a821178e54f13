#include "base/field_digest.h"

#include "base/field_flips_test_util.h"
#include "base/ids.h"
#include "base/log_lines.h"
#include "base/refusals.h"
#include "base/result.h"
#include "base/time.h"
#include "base/transfer_patience.h"

namespace elsewhere {

enum class Grade : std::uint8_t { kLow = 3, kHigh = 4 };  // has no table of names

struct Stop {
  shoal::JobId place;
  std::optional<shoal::Instant> left_at;
  friend constexpr auto fields_of(shoal::Of<Stop>) {
    return shoal::fields<&Stop::place, &Stop::left_at>();
  }
};

class Route {
 public:
  void reuse_buffer() { buffer_ = &length_; }

 private:
  friend shoal::FieldAccess;
  friend constexpr auto fields_of(shoal::Of<Route>) {
    using T = Route;
    using shoal::field;
    return shoal::fields(shoal::field<&T::stops_>(), shoal::field<&T::by_number_>(),
                         shoal::field<&T::last_>(), shoal::field<&T::length_>(),
                         shoal::field<&T::grades_>(),
                         shoal::field<&T::seen_>(shoal::not_kept("begins anew")),
                         shoal::field<&T::buffer_>(shoal::not_state("it has no content")));
  }

  std::vector<Stop> stops_;
  shoal::FlatMap<std::string, std::pair<bool, shoal::Bytes>> by_number_;
  std::variant<std::monostate, Stop, double> last_;
  double length_ = 0;
  std::array<Grade, 2> grades_{};
  std::int32_t seen_ = 0;
  const double* buffer_ = nullptr;
};

}  // namespace elsewhere

namespace shoal {
namespace {

using elsewhere::Route;
using elsewhere::Stop;

TEST(FieldDigest, EveryFieldCountsAtEveryDepth) {
  FieldFlips flips;
  flips.flip_all_of<Route, Error, LogLine, LogQuery, LogPage, RefusalCounts>();
  Prng prng(1);
  flips.flip_all(prng);
  TransferPatience patience(seconds(3), seconds(1), seconds(2));
  flips.flip_all(patience);
  EXPECT_EQ(flips.structs(),
            (std::set<std::string>{"Backoff", "Error", "LogLine", "LogPage", "LogQuery", "Prng",
                                   "RefusalCounts", "Route", "Stop", "TransferPatience"}));
}

TEST(FieldDigest, PointersOfARunningStepDoNotCount) {
  Route route;
  const Digest before = digest_of_fields(route);
  route.reuse_buffer();
  EXPECT_EQ(digest_of_fields(route), before);
}

TEST(FieldDigest, RecordsCountWithoutTheFieldsThatAreNotKept) {
  Route seen, unseen;
  for_each_field(seen, [](const FieldInfo& field, auto& member) {
    if constexpr (std::is_same_v<decltype(member), std::int32_t&>) member = 1;
  });
  EXPECT_NE(digest_of_fields(seen), digest_of_fields(unseen));
  EXPECT_EQ(digest_of_fields(seen, DigestOf::kRecords),
            digest_of_fields(unseen, DigestOf::kRecords));
}

// The end of one list must not look like the beginning of the next.
TEST(FieldDigest, ListsCountWithTheirLengths) {
  using Lists = std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>;
  EXPECT_NE(digest_of_fields(Lists{{1, 2}, {3}}), digest_of_fields(Lists{{1}, {2, 3}}));
  EXPECT_NE(digest_of_fields(Lists{{1}, {}}), digest_of_fields(Lists{{}, {1}}));
}

}  // namespace
}  // namespace shoal
