// See timed_compute.h.
#include "bench/timed/timed_compute.h"

#include <algorithm>
#include <thread>

#include "base/prng.h"
#include "replica/checkpoint/part_reader.h"
#include "replica/checkpoint/part_writer.h"
#include "replica/core/learning_rate.h"
#include "swarm/core/plan/cost_model.h"
#include "swarm/pipeline/timed_compute.h"

namespace shoal::bench {
namespace {

using replica::MaybeFailure;

constexpr double kStageForward = 1.0 / 3;     // of a microbatch's time
constexpr std::size_t kRunValues = 1 << 16;   // that have one scale
constexpr std::size_t kLossValues = 1 << 16;  // that the loss is computed from, about

// The one tensor of a stage.
std::vector<TensorShape> values_of(std::int64_t count) { return {{"values", {count}, ""}}; }

class TimedReplica final : public replica::Compute {
 public:
  TimedReplica(const replica::ComputeOrder& order, const TimedOptions& options)
      : spec_(order.spec),
        costs_(spec_, swarm::cost_options(spec_)),
        units_(order.cut[static_cast<std::size_t>(order.stage)]),
        stage_(order.stage),
        step_time_(options.step),
        adds_gradients_(spec_.sync.algorithm == SyncAlgorithm::kDdp),
        values_(static_cast<std::size_t>(costs_.parameters(units_))),
        runs_((values_.size() + kRunValues - 1) / kRunValues) {}

  std::int64_t value_count() const override { return static_cast<std::int64_t>(values_.size()); }
  void read_parameters(std::span<float> out) const override {
    for (std::size_t i = 0; i < runs_.size(); ++i) read_run(i, run_of(i, out));
  }
  void write_parameters(std::span<const float> in) override {
    for (std::size_t i = 0; i < runs_.size(); ++i) write_run(i, run_of(i, in));
  }
  bool reads_parts() const override { return true; }
  void read_part(std::int64_t first, std::span<float> out) const override {
    auto at = static_cast<std::size_t>(first);
    while (!out.empty()) {
      const std::size_t count = std::min(out.size(), kRunValues - at % kRunValues);
      scaled(runs_[at / kRunValues].scale, std::span(values_).subspan(at, count), out.first(count));
      at += count;
      out = out.subspan(count);
    }
  }
  void visit_parameters(const Visit& visit) const override {
    std::vector<float> room(kRunValues);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto run = run_of(i, std::span(values_));
      const auto here = std::span(room).first(run.size());
      read_run(i, here);
      visit(run.data() - values_.data(), here);
    }
  }
  // A run that is left as it was is not written, as trainers do that compute in place.
  void change_parameters(const Change& change) override {
    std::vector<float> before(kRunValues), after(kRunValues);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto run = run_of(i, std::span(values_));
      const auto old = std::span(before).first(run.size());
      const auto changed = std::span(after).first(run.size());
      read_run(i, old);
      std::ranges::copy(old, changed.begin());
      change(run.data() - values_.data(), changed);
      if (!std::ranges::equal(old, changed)) write_run(i, changed);
    }
  }
  void read_gradient(std::span<float> out) const override { scaled(gradient_scale_, values_, out); }
  void clear_gradient() override { gradient_scale_ = 0; }

  outer_opt::StageSizes sizes() const override {
    outer_opt::StageSizes sizes;
    for (std::int32_t unit = units_.first; unit < units_.last; ++unit) {
      const std::int64_t values = costs_.parameters({unit, unit + 1});
      if (unit == 0) {
        sizes.embedding = values;
      } else if (unit + 1 == costs_.units()) {
        sizes.head = value_count() - counted(sizes);
      } else {
        sizes.blocks.push_back(values);
      }
    }
    return sizes;
  }
  std::vector<outer_opt::DecayRange> decay_ranges() const override {
    return {{0, value_count(), true}};
  }
  Digest data() const override {
    return stage_ == 0 ? Digester().add(spec_.data.train).finish() : Digest();
  }
  MaybeFailure seed(const std::filesystem::path&) override {
    Prng prng(mix_seed(spec_.train.seed, static_cast<std::uint64_t>(units_.first)));
    for (float& value : values_) value = static_cast<float>(prng.unit() - 0.5);
    for (std::size_t i = 0; i < runs_.size(); ++i) begin_run(i);
    return std::nullopt;
  }

  std::int64_t second_moment_count() const override { return value_count(); }
  void read_adam(std::span<float> m, std::span<float> v) const override {
    std::ranges::fill(m, 0.0f);
    std::ranges::fill(v, 0.0f);
    std::ranges::copy(m_, m.begin());
    std::ranges::copy(v_, v.begin());
  }
  void write_adam(std::span<const float> m, std::span<const float> v, std::int64_t step) override {
    keep(m, m_);
    keep(v, v_);
    steps_ = step;
  }
  std::int64_t adam_step() const override { return steps_; }

  MaybeFailure train_step(Steps step, std::int64_t, replica::StepResult& out) override {
    wait(step_time_);
    const auto lr = static_cast<float>(replica::learning_rate(spec_.train, step));
    if (adds_gradients_) {
      ++gradient_scale_;
    } else {
      for (Run& run : runs_) run.scale -= lr * run.scale;
    }
    ++steps_;
    out = {loss(), loss(), lr, true};
    return std::nullopt;
  }
  MaybeFailure evaluate_batch(std::int64_t, std::int64_t, replica::EvalSum& sum) override {
    wait(Duration{step_time_.ns / 3});
    const Tokens tokens(spec_.train.batch * spec_.model.context);
    sum.loss_sum += loss() * static_cast<double>(tokens.count());
    sum.tokens += tokens;
    return std::nullopt;
  }
  MaybeFailure next_logits(std::span<const std::int64_t>, std::vector<float>& out) override {
    out.assign(static_cast<std::size_t>(spec_.model.vocab), 0.0f);
    return std::nullopt;
  }
  std::vector<std::int64_t> prompt() const override { return {}; }

  std::unique_ptr<swarm::StageCompute> make_stage() override {
    swarm::TimedOptions options;
    options.shape = {spec_.train.microbatch, spec_.model.context, spec_.model.hidden,
                     spec_.model.vocab};
    options.stage = stage_;
    const std::int64_t microbatches =
        std::max<std::int64_t>(1, spec_.train.batch / spec_.train.microbatch);
    const double own = static_cast<double>(step_time_.ns * blocks_here()) /
                       static_cast<double>(costs_.blocks() * microbatches);
    options.forward.ns = static_cast<std::int64_t>(own * kStageForward);
    options.backward.ns = static_cast<std::int64_t>(own * (1 - kStageForward));
    options.seed = spec_.train.seed;
    return std::make_unique<swarm::TimedCompute>(options);
  }

 private:
  std::int64_t blocks_here() const {
    return std::min(units_.last, costs_.units() - 1) - std::max(units_.first, 1);
  }

  // Moments that were never anything but zero take no memory.
  static void keep(std::span<const float> given, std::vector<float>& kept) {
    kept.clear();
    const auto is_zero = [](float value) { return value == 0; };
    if (!std::ranges::all_of(given, is_zero)) kept.assign(given.begin(), given.end());
  }

  static void wait(Duration time) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(time.ns));
  }

  static std::int64_t counted(const outer_opt::StageSizes& sizes) {
    std::int64_t values = sizes.embedding;
    for (const std::int64_t block : sizes.blocks) values += block;
    return values;
  }

  struct Run {
    float scale = 1;
    double squares = 0;  // of some of its values, before the scale
  };

  template <typename Value>
  static std::span<Value> run_of(std::size_t run, std::span<Value> values) {
    const std::size_t first = run * kRunValues;
    return values.subspan(first, std::min(kRunValues, values.size() - first));
  }
  static void scaled(float factor, std::span<const float> values, std::span<float> out) {
    std::ranges::transform(values, out.begin(), [&](float value) { return factor * value; });
  }
  void read_run(std::size_t run, std::span<float> out) const {
    scaled(runs_[run].scale, run_of(run, std::span(values_)), out);
  }
  void write_run(std::size_t run, std::span<const float> in) {
    std::ranges::copy(in, run_of(run, std::span(values_)).begin());
    begin_run(run);
  }

  std::size_t stride() const { return values_.size() / kLossValues + 1; }
  void begin_run(std::size_t run) {
    const auto values = run_of(run, std::span(values_));
    runs_[run] = {};
    for (std::size_t i = 0; i < values.size(); i += stride()) {
      runs_[run].squares += double{values[i]} * double{values[i]};
    }
  }
  // Falls with what is trained.
  double loss() const {
    double squares = 0, count = 0;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      squares += runs_[i].squares * runs_[i].scale * runs_[i].scale;
      count += static_cast<double>((run_of(i, std::span(values_)).size() - 1) / stride() + 1);
    }
    return 12 * squares / count;
  }

  const JobSpec spec_;
  const swarm::CostModel costs_;
  const UnitRange units_;
  const StageIndex stage_;
  const Duration step_time_;
  const bool adds_gradients_;
  // Steps touch no value, so that one costs next to no processor time however large the model is:
  // the parameters are values_ times the scale of their run, the gradient is values_ times
  // gradient_scale_.
  std::vector<float> values_;
  std::vector<Run> runs_;
  float gradient_scale_ = 0;
  std::vector<float> m_, v_;  // empty: zeros
  std::int64_t steps_ = 0;
};

}  // namespace

MaybeFailure TimedHost::make(const replica::ComputeOrder& order,
                             std::unique_ptr<replica::Compute>& out) {
  stages_ = order.cut.size();
  out = std::make_unique<TimedReplica>(order, options_);
  return std::nullopt;
}

MaybeFailure TimedHost::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& problem) {
    return replica::Failure{ReplicaFailure::kInternal, problem.what()};
  }
  return std::nullopt;
}

Result<BlockTimes> TimedHost::measure_block(const MeasureBlock& asked) {
  const std::int64_t microbatches =
      std::max<std::int64_t>(1, asked.batch / std::max<std::int64_t>(1, asked.shape.microbatch));
  const std::int64_t blocks = microbatches * std::max<std::int64_t>(1, asked.layers);
  return BlockTimes{.block = {options_.step.ns / blocks}, .embedding = {}, .head = {}};
}

Result<replica::WrittenPart> TimedHost::write_checkpoint(
    const std::filesystem::path& folder, const replica::CheckpointContent& content) {
  return replica::write_part(folder, content, {values_of(std::ssize(content.anchor))});
}

Result<replica::Checkpoint> TimedHost::read_checkpoint(const std::filesystem::path& folder,
                                                       StageIndex stage) {
  auto head = replica::read_part(folder, stage);
  if (!head) return head.error();
  replica::Checkpoint checkpoint = head->checkpoint;
  const std::int64_t count = head->value_counts["anchor"];
  const replica::PartReader reader(folder, stage, *head, checkpoint.key);
  for (const Status& status : {reader.read_weights(values_of(count), checkpoint.anchor),
                               reader.read_outer(count, checkpoint.outer),
                               reader.read_moments(count, count, checkpoint)}) {
    if (!status.ok()) return status.error();
  }
  return checkpoint;
}

}  // namespace shoal::bench
