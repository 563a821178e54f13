// Every field of every record that the state holds counts in its digest.
#include <gtest/gtest.h>

#include "coordinator/core/records/records_test_util.h"
#include "coordinator/core/state/state.h"

namespace shoal::coordinator {
namespace {

// `put` brings a value into a state. Looks at the fields of its fields, too.
template <typename T, typename Put>
void expect_every_field_counts(const T& value, const Put& put) {
  const auto digest = [&](const T& one) {
    State state;
    put(state, one);
    return state.digest();
  };
  RandomRecords random(2);
  T changed = value;
  for_each_field(changed, [&](const FieldInfo& field, auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    if (field.rule.not_kept != nullptr) return;
    const Member kept = member;
    for (int i = 0; i < 100 && member == kept; ++i) random.draw(member);
    ASSERT_FALSE(member == kept) << field.name;
    EXPECT_NE(digest(changed), digest(value)) << field.name;
    if constexpr (HasFields<Member>) {
      expect_every_field_counts(kept, [&](State& state, const Member& inner) {
        member = inner;
        put(state, changed);
      });
    }
    member = kept;
  });
  EXPECT_EQ(digest(changed), digest(value));
}

TEST(StateDigest, CountsEveryField) {
  RandomRecords random(1);
  const RoundKey key{JobId(1), 0, 1};
  const auto count = [](const auto& record, auto map) {
    expect_every_field_counts(record,
                              [map](State& state, const auto& r) { (state.*map).put({}, r); });
  };
  expect_every_field_counts(random.counters(), [](State& s, const auto& r) { s.counters = r; });
  count(random.job(1), &State::jobs);
  count(random.agent(1), &State::agents);
  count(random.replica(1), &State::replicas);
  count(random.round(key), &State::rounds);
  count(random.contribution(key, 1), &State::contributions);
  count(random.checkpoint(1), &State::checkpoints);
  count(random.link(1, 2), &State::links);
}

TEST(StateDigest, CountsEveryEntryOfAList) {
  JobRecord job;
  State state;
  const auto digest = [&] {
    state.jobs.put({}, job);
    return state.digest();
  };
  const Digest without = digest();
  job.stages.push_back({.units = {0, 4}});
  const Digest with = digest();
  job.stages[0].fragments = {5};
  EXPECT_NE(with, without);
  EXPECT_NE(digest(), with);
}

}  // namespace
}  // namespace shoal::coordinator
