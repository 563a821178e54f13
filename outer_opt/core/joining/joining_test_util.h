// A stage whose replicas take outer steps in virtual time, and a joiner behind a line of a given
// speed: what tests of joining share. Averages are what a codec has decoded, steps are Nesterov's.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/joining/state_source.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {

struct StageSetup {
  std::int64_t values = 80'000;
  std::int64_t fragments = 1;
  CodecKind codec = CodecKind::kInt4;
  int sources = 2;
  Duration round = seconds(1);
  std::uint64_t seed = 1;
};

inline ReadAverage read_from(std::vector<float> average) {
  return [average = std::move(average)](std::int64_t first, std::span<float> out) {
    std::copy_n(average.begin() + first, out.size(), out.begin());
  };
}

inline constexpr OuterSpec kTestOuter{0.7, 0.9};

inline void take_test_step(const StepTerms& terms, std::span<const float> average,
                           std::span<float> momentum, std::span<float> anchor) {
  nesterov_step({terms.outer_lr, kTestOuter.momentum}, average, momentum, anchor);
}

// What all sources of a stage agree on, one round after the other.
class TestStage {
 public:
  struct State {
    std::vector<float> anchor, momentum;
  };

  explicit TestStage(const StageSetup& setup) : setup_(setup), prng_(setup.seed) {
    state_.anchor.resize(static_cast<std::size_t>(setup.values));
    for (float& v : state_.anchor) v = static_cast<float>(prng_.normal());
    state_.momentum.resize(state_.anchor.size());
    StageSizes sizes{0, std::vector<std::int64_t>(8, setup.values / 8), setup.values % 8};
    fragments_ = cut_fragments(sizes, setup.fragments);
  }

  const std::vector<Fragment>& fragments() const { return fragments_; }
  const State& state() const { return state_; }
  RoundNumber round() const { return round_; }
  RoundKey key() const { return {JobId(1), 0, round_}; }

  // The step of the next round, and what a source keeps of it.
  void step(const std::vector<StateSource*>& sources, Instant now) {
    StepTerms terms{.round = ++round_, .outer_lr = kTestOuter.lr};
    const bool whole = setup_.fragments == 1;
    if (!whole) terms.fragment = 1 + static_cast<std::int32_t>((round_ - 1) % setup_.fragments);
    const Fragment all = {{0, setup_.values}};
    const Fragment& fragment =
        whole ? all : fragments_[static_cast<std::size_t>(terms.fragment - 1)];
    const OwnedRuns owned = owners(value_count(fragment));
    const std::vector<float> average = decoded(owned, value_count(fragment));
    take_step(terms, fragment, average);
    for (StateSource* source : sources) {
      if (source->keeps_averages(now)) {
        source->averages().add(terms, fragment, setup_.codec, owned, read_from(average));
      }
    }
    publish(sources);
  }

  void publish(const std::vector<StateSource*>& sources) {
    const auto shared = std::make_shared<const State>(state_);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      sources[i]->publish(ReplicaId(i + 1), {key(), {shared->anchor, shared->momentum}, shared});
    }
  }

 private:
  void take_step(const StepTerms& terms, const Fragment& fragment, std::span<const float> average) {
    for (const ValueRange& range : fragment) {
      const auto first = static_cast<std::size_t>(range.first);
      const auto count = static_cast<std::size_t>(range.count);
      take_test_step(terms, average.first(count), std::span(state_.momentum).subspan(first, count),
                     std::span(state_.anchor).subspan(first, count));
      average = average.subspan(count);
    }
  }
  OwnedRuns owners(std::int64_t values) {
    const std::int64_t first = values / 3 + prng_.range(0, 100);
    return {{0, first}, {first, values - first}};
  }
  std::vector<float> decoded(const OwnedRuns& owned, std::int64_t values) {
    std::vector<float> average(static_cast<std::size_t>(values));
    for (float& v : average) v = static_cast<float>(0.01 * prng_.normal());
    for (const ValueRange& run : owned) {
      const auto part = std::span(average).subspan(static_cast<std::size_t>(run.first),
                                                   static_cast<std::size_t>(run.count));
      std::vector<std::byte> bytes(codec(setup_.codec).encoded_size(part.size()));
      codec(setup_.codec).encode(part, bytes);
      EXPECT_TRUE(codec(setup_.codec).decode(bytes, part).ok());
    }
    return average;
  }

  const StageSetup setup_;
  Prng prng_;
  State state_;
  std::vector<Fragment> fragments_;
  RoundNumber round_ = 0;
};

class TestTarget final : public JoinTarget {
 public:
  explicit TestTarget(std::int64_t values)
      : anchor(static_cast<std::size_t>(values)), momentum(anchor.size()) {}
  void place(const ValueRange& run, std::span<const float> values) override {
    const auto count = static_cast<std::size_t>(run.count);
    std::ranges::copy(values.first(count), anchor.begin() + run.first);
    std::ranges::copy(values.subspan(count), momentum.begin() + run.first);
  }
  void follow(const StepTerms& terms, const ValueRange& run,
              std::span<const float> average) override {
    const auto first = static_cast<std::size_t>(run.first);
    const auto count = static_cast<std::size_t>(run.count);
    take_test_step(terms, average, std::span(momentum).subspan(first, count),
                   std::span(anchor).subspan(first, count));
  }
  void place_moments(std::int64_t first, std::span<const float> values) override {
    moments.resize(std::max(moments.size(), static_cast<std::size_t>(first) + values.size()));
    std::ranges::copy(values, moments.begin() + first);
  }

  Digest digest_of(const ValueRange& run) const override {
    const std::array<std::span<const float>, 2> vectors = {anchor, momentum};
    return digest_of_piece(vectors, run);
  }

  std::vector<float> anchor, momentum, moments;
};

// The joiner's line carries one answer after the other.
class JoinHarness {
 public:
  // What becomes of an ask, by its number; the default is that it is answered.
  enum class Fate { kAnswered, kBroken, kSilent, kSpoiled };

  JoinHarness(const StageSetup& setup, JoinShape shape, JoinOptions options, double bytes_per_s,
              Duration latency = milliseconds(20))
      : stage(setup),
        target(setup.values),
        setup_(setup),
        is_open_(shape.open_moments),
        rate_(bytes_per_s),
        latency_(latency) {
    for (int i = 0; i < setup.sources; ++i) sources.push_back(std::make_unique<StateSource>());
    stage.publish(pointers());
    shape.values = setup.values;
    shape.fragments = stage.fragments();
    session.emplace(stage.key(), shape, names(setup.sources), target, options, setup.seed, now);
    at(setup.round, [this] { commit(); });
  }

  static std::vector<PeerAddress> names(int count) {
    std::vector<PeerAddress> names;
    for (int i = 1; i <= count; ++i) names.push_back({ReplicaId(i), "host:" + std::to_string(i)});
    return names;
  }

  // Until the session is level at the newest round, or has given up, or time is over.
  void run(Duration limit) {
    const Instant end = now + limit;
    pump();
    while (!over() && !events_.empty() && events_.begin()->first <= end) {
      auto first = events_.extract(events_.begin());
      now = std::max(now, first.key());
      first.mapped()();
      pump();
    }
  }
  bool level() const {
    return session->state() == JoinSession::State::kLevel && session->round() == stage.round();
  }
  bool equal() const {
    return target.anchor == stage.state().anchor && target.momentum == stage.state().momentum;
  }

  TestStage stage;
  std::vector<std::unique_ptr<StateSource>> sources;
  TestTarget target;
  Instant now{0};
  std::optional<JoinSession> session;
  std::function<Fate(std::uint64_t, const JoinSession::Ask&)> fate = [](auto, const auto&) {
    return Fate::kAnswered;
  };
  std::function<void(StateAnswer&)> spoil = [](StateAnswer&) {};
  // Until the joiner has the state of the stage, doubting what it has, or doubt() has come to its
  // end: as its driver does, which knows the digests.
  void run_in_doubt(Duration limit) {
    for (int tries = 0; tries < 10; ++tries) {
      run(limit);
      if (!level() || equal() || !session->doubt(now)) return;
    }
  }
  bool commits = true;
  std::int64_t carried = 0;  // bytes over the joiner's line

 private:
  bool over() const { return session->state() == JoinSession::State::kGivenUp || level(); }
  std::vector<StateSource*> pointers() {
    std::vector<StateSource*> all;
    for (const auto& source : sources) all.push_back(source.get());
    return all;
  }
  void at(Duration after, std::function<void()> work) {
    events_.emplace(now + after, std::move(work));
  }
  void commit() {
    if (commits) stage.step(pointers(), now);
    at(setup_.round, [this] { commit(); });
  }
  void pump() {
    const JoinSession::Next next = session->next(now);
    // The coordinator names the newer round to a joiner that says it is level.
    if (session->state() == JoinSession::State::kLevel && !over()) {
      at(latency_, [this] { session->aim(stage.round()); });
    }
    for (const JoinSession::Ask& ask : next.send) {
      at(latency_ / 2, [this, ask] { arrive(ask); });
    }
    if (const auto again = session->wakeup_at(now)) {
      const Instant when = std::max(*again, now + milliseconds(1));
      if (when < wake_ || wake_ <= now) {
        wake_ = when;
        events_.emplace(when, [] {});
      }
    }
  }
  static constexpr int kHeldBack = 10;  // an ask for news waits at the source, as in the product
  void arrive(const JoinSession::Ask& ask, int tries = 0) {
    const Fate what = fate(ask.id, ask);
    if (what == Fate::kSilent) return;
    if (what == Fate::kBroken) {
      return at(latency_, [this, ask] {
        session->failed(ask.id, {Code::kUnavailable, "the line broke", "", ""}, now);
      });
    }
    auto answer = sources[ask.source.replica.n - 1]->answer(ask.ask, now);
    if (!answer) {
      auto moments = std::make_shared<MomentsCopy>();
      moments->first.assign(static_cast<std::size_t>(setup_.values), 1.5f);
      moments->second.assign(7, 2.5f);
      moments->step = stage.round() + 10;
      moments->is_open = is_open_;
      sources[ask.source.replica.n - 1]->provide_moments(std::move(moments), now);
      answer = sources[ask.source.replica.n - 1]->answer(ask.ask, now);
    }
    if (answer->refusal == StateRefusal::kNotYet && tries < kHeldBack) {
      return at(milliseconds(500), [this, ask, tries] { arrive(ask, tries + 1); });
    }
    if (what == Fate::kSpoiled) spoil(*answer);
    const auto bytes = static_cast<double>(size_of(*answer) + 100);
    carried += static_cast<std::int64_t>(bytes);
    free_at_ = std::max(free_at_, now) + seconds_f(bytes / rate_);
    at(free_at_ - now + latency_ / 2,
       [this, id = ask.id, answer = std::move(*answer)] { session->answered(id, answer, now); });
  }

  const StageSetup setup_;
  const bool is_open_;
  const double rate_;
  const Duration latency_;
  std::multimap<Instant, std::function<void()>> events_;
  Instant free_at_{0}, wake_{0};
};

inline JoinOptions small_runs() {
  JoinOptions options;
  options.run_values = 4096;
  options.follow_runs = 8;
  return options;
}

}  // namespace shoal::outer_opt
