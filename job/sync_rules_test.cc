// effective_sync() changes no key silently: each changed key is refused by name. The sentences of
// single rules are tested in job_rules_test.cc.
#include "job/sync_rules.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "job/ineffective_options.h"

namespace shoal {
namespace {

// About every other option differs from its default.
class RandomOptions {
 public:
  explicit RandomOptions(std::uint64_t seed) : prng_(seed) {}

  JobSpec drawn() {
    JobSpec options;
    options.name = "kjv";
    options.data.train = "/data/kjv.txt";
    if (prng_.chance(0.2)) options.swarm.stages = 2;
    draw(options.sync);
    return options;
  }

 private:
  template <HasFields Table>
  void draw(Table& table) {
    for_each_field(table, [&](const FieldInfo&, auto& option) {
      if constexpr (HasFields<std::remove_cvref_t<decltype(option)>>) {
        draw(option);
      } else if (prng_.chance(0.3)) {
        draw(option);
      }
    });
  }
  template <HasEnumerators Word>
  void draw(Word& word) {
    word = static_cast<Word>(prng_.below(enumerator_count<Word>()));
  }
  void draw(bool& value) { value = !value; }
  void draw(std::int64_t& value) { value = prng_.range(0, 3); }
  void draw(double& value) { value = prng_.chance(0.3) ? 0 : prng_.unit(); }
  void draw(Steps& value) { value = Steps(prng_.range(0, 60)); }

  Prng prng_;
};

template <HasFields Table>
void collect_differing(const Table& a, const Table& b, const std::string& path,
                       std::set<std::string>& found) {
  std::vector<bool> same;
  for_each_field(a, [&](const FieldInfo& field, const auto& given) {
    using Option = std::remove_cvref_t<decltype(given)>;
    for_each_field(b, [&](const FieldInfo& other, const auto& kept) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(kept)>, Option>) {
        if (std::string_view(field.name) != other.name) return;
        if constexpr (HasFields<Option>) {
          collect_differing(given, kept, path + field.name + "/", found);
        } else if (!(given == kept)) {
          found.insert(path + field.name);
        }
      }
    });
  });
}

std::set<std::string> omitted(const JobSpec& options) {
  std::set<std::string> found;
  const SyncSpec kept = effective_sync(options);
  collect_differing(options.sync, kept, "/sync/", found);
  if (found.erase("/sync/every_s") > 0) found.insert("/sync/every");
  if (options.sync.every_s != 0 && kept.every_s != 0) found.erase("/sync/every");
  for (const FieldError& ineffective : ineffective_options(options))
    found.erase(ineffective.pointer);
  return found;
}

std::set<std::string> refused(const JobSpec& options) {
  FieldChecker checker;
  check_contradictions(options, checker);
  std::set<std::string> pointers;
  for (const FieldError& error : checker.take()) pointers.insert(error.pointer);
  return pointers;
}

TEST(SyncRules, RefusesEveryKeyThatDoesNotApply) {
  RandomOptions random(1);
  int good = 0;
  for (int i = 0; i < 20'000; ++i) {
    const JobSpec options = random.drawn();
    std::set<std::string> silent = omitted(options);
    for (const std::string& pointer : refused(options)) silent.erase(pointer);
    if (options.sync.codec == CodecKind::kSparse2 && options.sync.topology == Topology::kAuto) {
      silent.erase("/sync/topology");  // becomes 'allgather', its only choice
    }
    if (refused(options).contains("/sync/overlap_steps")) {  // which those two are about
      silent.erase("/sync/blend");
      silent.erase("/sync/eager");
    }
    ASSERT_THAT(silent, testing::IsEmpty()) << i;
    good += refused(options).empty();
  }
  EXPECT_GT(good, 500) << "hardly any of them could be held";
}

TEST(SyncRules, EffectiveSyncIsIdempotentAndAccepted) {
  RandomOptions random(2);
  for (int i = 0; i < 20'000; ++i) {
    JobSpec options = random.drawn();
    const SyncSpec once = effective_sync(options);
    options.sync = once;
    EXPECT_EQ(refused(options), std::set<std::string>()) << i;
    EXPECT_EQ(effective_sync(options), once) << i;
  }
}

TEST(SyncRules, ARefusalNamesTheKeyThatWon) {
  JobSpec options;
  options.sync.algorithm = SyncAlgorithm::kDdp;
  options.sync.every = Steps(1);
  options.sync.outer = {1, 0};
  options.sync.balance = Balance::kSpeed;
  FieldChecker checker;
  check_contradictions(options, checker);
  const auto errors = checker.take();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].pointer, "/sync/balance");
  EXPECT_EQ(
      errors[0].detail,
      "must be 'equal' with sync.algorithm = 'ddp', where every replica takes every step, got "
      "'speed'");
}

}  // namespace
}  // namespace shoal
