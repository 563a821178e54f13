// How long it takes until there is a session again after the line to the coordinator has healed,
// whenever it was cut and for however long. The line is a model of what TCP does on it: what is
// sent into a cut is sent again after 1, 3 and 7 s (a connection), or 0.2, 0.6, 1.4, 3, 6.2 s, …
// (anything else); a connection that stays silent is given up by its keep-alive.
#include <algorithm>
#include <array>

#include "agent/core/agent_test_util.h"
#include "base/prng.h"

namespace shoal::agent {
namespace {

constexpr Duration kTrip = milliseconds(100);
constexpr Duration kSilence = seconds(11);  // coordinator_link.h: 6 s and 5 s
constexpr std::array kDialed = {0, 1000, 3000, 7000, 15'000};
constexpr std::array kRepeated = {0, 200, 600, 1400, 3000, 6200, 12'600, 25'400};

// One agent and its line, which is cut in [cut, healed).
class LineTest : public AgentFixture {
 protected:
  LineTest() { agent_.step(now_, Booted{}, effects_); }

  bool is_up(Instant at) const { return at < cut_ || at >= healed_; }

  // When something that is first sent at `at` gets through.
  template <std::size_t N>
  Instant arrival(Instant at, const std::array<int, N>& attempts) const {
    for (const int ms : attempts) {
      if (is_up(at + milliseconds(ms))) return at + milliseconds(ms) + kTrip;
    }
    return at + seconds(3600);
  }

  void put(Instant at, Input input) { coming_.emplace_back(at, std::move(input)); }

  void dial(LinkId link) {
    const Instant up = arrival(now_, kDialed);
    put(up, LinkUp{link});
    put(arrival(up, kRepeated),
        CoordinatorSaid{link, Welcome{AgentId(7), {3}, seconds(2), seconds(10), {}}});
  }

  // The next thing that happens.
  void run_once() {
    const auto next =
        std::min_element(coming_.begin(), coming_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto due = agent_.next_deadline();
    Input input = Tick{};
    if (next != coming_.end() && (!due || next->first <= *due)) {
      now_ = std::max(now_, next->first);
      input = std::move(next->second);
      coming_.erase(next);
    } else {
      ASSERT_TRUE(due.has_value());
      now_ = std::max(now_, *due);
    }
    step(input);
    for (const auto& open : all<OpenLink>()) dial(open.link);
    for (const auto& open : all<OpenLink>()) link_ = open.link;
  }
  bool active() const { return agent_.view().link == LinkState::kActive; }

  // The line of a session is cut: what it says is repeated until it gets through or is given up.
  void lose_session() {
    const Instant through = arrival(cut_, kRepeated);
    if (through - cut_ > kSilence) {
      put(cut_ + kSilence, LinkDown{link_, {Code::kUnavailable, "silent", "", ""}});
    }
  }

  Instant cut_, healed_;
  std::vector<std::pair<Instant, Input>> coming_;
};

TEST_F(LineTest, ASessionIsBackTenSecondsAfterTheLineHasHealed) {
  Prng prng(7);
  for (const auto& open : all<OpenLink>()) link_ = open.link, dial(open.link);
  Duration longest{};
  for (int cut = 0; cut < 2'000; ++cut) {
    while (!active()) run_once();
    const bool reopened = cut % 3 == 0;  // then the cut may fall into the opening of the next one
    if (reopened) put(now_, LinkDown{link_, {Code::kUnavailable, "restarted", "", ""}});
    cut_ = now_ + milliseconds(prng.range(1, reopened ? 1'000 : 5'000));
    healed_ = cut_ + milliseconds(prng.range(100, cut % 10 == 0 ? 600'000 : 30'000));
    while (now_ < cut_) run_once();
    lose_session();
    while (now_ < healed_) run_once();
    while (!active() || std::any_of(coming_.begin(), coming_.end(), [this](const auto& entry) {
      const auto* down = std::get_if<LinkDown>(&entry.second);
      return down != nullptr && down->link == link_;
    })) {
      run_once();
    }
    longest = std::max(longest, now_ - healed_);
    coming_.clear();
  }
  EXPECT_LE(longest, seconds(10));
  EXPECT_GE(longest, seconds(5)) << "the model cuts in bad moments, too";
}

using LineProbeTest = AgentFixture;

TEST_F(LineProbeTest, AQuestionIsAnsweredAtOnceWithThePayloadThatItWants) {
  boot();
  connect();
  hear(MeasureLine{"payload", 77, 1000});
  ASSERT_EQ(said<LineMeasured>().size(), 1u);
  EXPECT_EQ(said<LineMeasured>()[0], (LineMeasured{line_payload(77, 1000), 77}));
  hear(MeasureLine{"payload", 78, 0});
  EXPECT_EQ(said<LineMeasured>().back().payload, "");
}

}  // namespace
}  // namespace shoal::agent
