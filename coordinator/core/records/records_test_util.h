// For tests: records of every kind with values in every field, drawn from a seed. Which fields
// there are follows from the lists beside the records; awkward values (extremes, quotes, line
// breaks) are frequent.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

class RandomRecords {
 public:
  explicit RandomRecords(std::uint64_t seed) : prng_(seed) {}

  CounterRecord counters() { return drawn<CounterRecord>(); }
  JobRecord job(std::uint64_t id) {
    auto r = drawn<JobRecord>();
    r.id = JobId(id);
    r.spec.name = "job-" + std::to_string(id);
    r.removed_at = {};  // else no reader shows it
    return r;
  }
  AgentRecord agent(std::uint64_t id) {
    auto r = drawn<AgentRecord>();
    r.id = AgentId(id);
    return r;
  }
  ReplicaRecord replica(std::uint64_t id) {
    auto r = drawn<ReplicaRecord>();
    r.id = ReplicaId(id);
    return r;
  }
  RoundRecord round(const RoundKey& key) {
    auto r = drawn<RoundRecord>();
    r.key = key;
    return r;
  }
  ContributionRecord contribution(const RoundKey& key, std::uint64_t replica) {
    auto r = drawn<ContributionRecord>();
    r.key = key;
    r.replica = ReplicaId(replica);
    return r;
  }
  CheckpointRecord checkpoint(std::uint64_t id) {
    auto r = drawn<CheckpointRecord>();
    r.id = CheckpointId(id);
    return r;
  }
  EventRecord event(std::int64_t seq) {
    auto r = drawn<EventRecord>();
    r.seq = seq;
    return r;
  }
  LinkRecord link(std::uint64_t from, std::uint64_t to) {
    auto r = drawn<LinkRecord>();
    r.from = AgentId(from), r.to = AgentId(to);
    return r;
  }
  SubmittedText submitted_text(std::uint64_t job) {
    auto r = drawn<SubmittedText>();
    r.job = JobId(job);
    return r;
  }

  template <typename T>
  T drawn() {
    T value{};
    draw(value);
    return value;
  }

  // Fields that no record keeps stay as they are.
  template <typename T>
  void draw(T& value) {
    if constexpr (std::is_same_v<T, JobSpec>) {
      value = spec();
    } else if constexpr (HasEnumerators<T>) {
      value = static_cast<T>(prng_.below(enumerator_count<T>()));
    } else if constexpr (HasFields<T>) {
      for_each_field(value, [this](const FieldInfo& field, auto& member) {
        if (field.rule.not_kept == nullptr) draw(member);
      });
    } else if constexpr (requires { value.n; }) {
      draw(value.n);
    } else {
      draw_plain(value);
    }
  }

  Prng& prng() { return prng_; }

 private:
  void draw_plain(bool& value) { value = prng_.chance(0.5); }
  void draw_plain(std::int32_t& value) { value = static_cast<std::int32_t>(prng_.below(1000)); }
  void draw_plain(std::int64_t& value) {
    value = prng_.range(-1'000'000, 1'000'000);
    if (prng_.chance(0.1)) value = prng_.chance(0.5) ? INT64_MAX : INT64_MIN;
  }
  void draw_plain(std::uint64_t& value) { value = prng_.below(std::uint64_t{1} << 63); }
  void draw_plain(double& value) {
    value = prng_.normal();
    if (prng_.chance(0.2)) value = static_cast<double>(prng_.range(-5, 5));
    if (prng_.chance(0.1)) value = prng_.chance(0.5) ? 1e308 : 5e-324;
  }
  void draw_plain(std::string& value) {
    static const char* kTexts[] = {
        "", "plain", "it's \"quoted\"", "two\nlines", "\xC3\xBC\xE2\x82\xAC", "x;--"};
    value = kTexts[prng_.below(6)];
  }
  void draw_plain(Instant& value) { value = {prng_.range(0, INT64_MAX)}; }
  void draw_plain(Duration& value) { value = {prng_.range(0, INT64_MAX)}; }
  void draw_plain(Digest& value) {
    value = prng_.chance(0.2) ? Digest{} : Digest{prng_.next(), prng_.next()};
  }
  template <typename First, typename Second>
  void draw_plain(std::pair<First, Second>& value) {
    draw(value.first);
    draw(value.second);
  }
  template <typename T>
  void draw_plain(std::optional<T>& value) {
    value.reset();
    if (prng_.chance(0.5)) draw(value.emplace());
  }
  template <typename T>
  void draw_plain(std::vector<T>& value) {
    value.resize(prng_.below(4));
    for (T& item : value) draw(item);
  }

  // A valid one: others are refused where they are read.
  JobSpec spec() {
    JobSpec spec;
    spec.name = "job";
    spec.data.train = "/data/\xC3\xA4 \"quoted\".txt";
    spec.train.lr = prng_.unit() + 1e-6;
    spec.train.min_lr = spec.train.lr / 3;
    draw(spec.train.seed);
    return with_derived_fields(spec);
  }

  Prng prng_;
};

}  // namespace shoal::coordinator
