// The outer step on a device against the host: members of both kinds in one attempt, the golden
// history, fragments, damaged frames, a device that fails. The device is the host itself, in a form
// that shows whether somebody does not wait (accelerator_test_util.h), and a GPU where there is
// one.
#include "outer_opt/cuda/device_vectors.h"

#include "job/sync_spec_test_util.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/reduce/session_test_util.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/cuda/accelerator_test_util.h"
#include "outer_opt/cuda/device_butterfly.h"
#include "outer_opt/cuda/gpu_test_util.h"
#include "tests/golden/outer_step_history.h"

namespace shoal::outer_opt {
namespace {

std::shared_ptr<DeviceVectors> vectors_on(Accelerator& device, std::size_t values) {
  auto made = DeviceVectors::create(device, static_cast<std::int64_t>(values), 1);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

// Local parameters on a device.
class Local {
 public:
  Local(Accelerator& device, const std::vector<float>& values)
      : memory_(*DeviceMemory<float>::allocate(device, MemoryKind::kDevice, values.size())),
        ferry_(std::move(*Ferry::create(device))) {
    EXPECT_TRUE(ferry_->upload(values, memory_.data()));
  }
  float* data() { return memory_.data(); }
  std::vector<float> values() {
    std::vector<float> values(memory_.size());
    EXPECT_TRUE(ferry_->download(memory_.data(), values));
    return values;
  }

 private:
  DeviceMemory<float> memory_;
  std::unique_ptr<Ferry> ferry_;
};

std::vector<float> average_of(DeviceVectors& vectors, std::size_t count) {
  // The outer step with lr 1 and no momentum from zeros: the negative average.
  std::vector<float> anchor(count);
  NamedVectors state = zero_vectors(kMomentum, count);
  EXPECT_TRUE(vectors.load(anchor, state));
  const Fragment whole{{0, static_cast<std::int64_t>(count)}};
  EXPECT_TRUE(vectors.step(Nesterov({1, 0}), {.outer_lr = 1}, whole, state, anchor));
  for (float& value : anchor) value = -value;
  return anchor;
}

// The pseudo-gradient of a device is that of zero parameters before `input`, all negative.
void give(Accelerator& device, DeviceVectors& vectors, const std::vector<float>& input) {
  std::vector<float> zeros(input.size()), local(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) local[i] = -input[i];
  EXPECT_TRUE(vectors.load(zeros, {{"momentum", zeros}}));
  Local on_device(device, local);
  const Fragment whole{{0, static_cast<std::int64_t>(input.size())}};
  EXPECT_TRUE(vectors.take_pseudo_gradient(on_device.data(), whole).ok());
}

// A swarm in which the members in `on_device` have their vectors there.
class MixedSwarm {
 public:
  MixedSwarm(Accelerator& device, ReducePlan plan, const std::vector<std::vector<float>>& inputs,
             std::vector<bool> on_device)
      : vectors_(plan.members.size()) {
    const auto values = static_cast<std::size_t>(plan.value_count);
    for (std::size_t i = 0; i < vectors_.size(); ++i) {
      if (!on_device[i]) continue;
      vectors_[i] = vectors_on(device, values);
      if (!inputs[i].empty()) give(device, *vectors_[i], inputs[i]);
    }
    swarm_ = std::make_unique<SessionSwarm>(
        plan, plan.frame_values, inputs, std::vector<float>(),
        [&](std::size_t i, const ReducePlan& p) -> SessionSwarm::Made {
          if (!vectors_[i]) return {nullptr};
          return vectors_[i]->make_session(p, p.members[i].replica, p.members[i].weight > 0);
        });
  }
  SessionSwarm& swarm() { return *swarm_; }
  DeviceVectors& vectors(std::size_t member) { return *vectors_[member]; }

 private:
  std::vector<std::shared_ptr<DeviceVectors>> vectors_;
  std::unique_ptr<SessionSwarm> swarm_;
};

void expect_bits(const std::vector<float>& a, const std::vector<float>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), 4 * a.size()), 0) << what;
}

void expect_the_averages_of_the_host(Accelerator& device, const ReducePlan& plan,
                                     const std::vector<bool>& on_device) {
  const auto inputs = random_inputs(plan, 5);
  SessionSwarm host(plan, plan.frame_values, inputs);
  MixedSwarm mixed(device, plan, inputs, on_device);
  Prng one(1), other(2);
  host.run(one);
  mixed.swarm().run(other);
  for (std::size_t i = 0; i < on_device.size(); ++i) {
    const std::string what = std::string(to_string(plan.codec)) + ", member " + std::to_string(i);
    ASSERT_EQ(mixed.swarm().sessions[i]->state(), SessionState::kDone) << what;
    const PartSeen seen = mixed.swarm().sessions[i]->seen(), expected = host.sessions[i]->seen();
    ASSERT_EQ(seen.squares.size(), expected.squares.size()) << what;
    for (std::size_t k = 0; k < expected.squares.size(); ++k) {
      EXPECT_NEAR(seen.squares[k], expected.squares[k], 2e-7 * expected.squares[k]) << what;
    }
    if (plan.members[i].reducer) continue;
    EXPECT_EQ(mixed.swarm().sessions[i]->digest(), host.sessions[i]->digest()) << what;
    const auto values = static_cast<std::size_t>(plan.value_count);
    EXPECT_EQ(on_device[i] ? average_of(mixed.vectors(i), values) : mixed.swarm().averages[i],
              host.averages[i])
        << what;
  }
}

void expect_members_of_both_kinds_to_agree(Accelerator& device) {
  for (const CodecKind codec : kDenseCodecs) {
    ReducePlan plan = make_plan(codec, 2503, {100, 0, 137, 174}, {1, 2, 3.3, 1});
    plan.frame_values = 256;
    plan.members[2].clip_factor = 0.5;
    expect_the_averages_of_the_host(device, plan, {true, true, false, true});
    expect_the_averages_of_the_host(device, plan, {false, true, true, false});
    expect_the_averages_of_the_host(device, with_reducers(plan, 1), {true, true, false, false});
    plan.codes_own = true;
    expect_the_averages_of_the_host(device, plan, {true, true, false, true});
  }
}

TEST(DeviceButterfly, MembersWithAndWithoutADeviceHaveTheSameBits) {
  HostAccelerator device;
  expect_members_of_both_kinds_to_agree(device);
  EXPECT_EQ(device.held.load(), 0) << "memory is given back";
}

TEST(DeviceButterfly, OnAGpuToo) {
  const auto device = test_gpu();
  if (!device) GTEST_SKIP() << kNoGpu;
  expect_members_of_both_kinds_to_agree(*device);
}

TEST(DeviceButterfly, ALostSenderIsExcluded) {
  HostAccelerator device;
  ReducePlan plan = make_plan(CodecKind::kInt8, 2000, {1, 1, 1}, {1, 1, 0});
  plan.frame_values = 256;
  MixedSwarm mixed(device, plan, random_inputs(plan, 3), {true, true, false});
  Prng prng(4);
  mixed.swarm().run(prng, 5);
  mixed.swarm().kill(2);
  mixed.swarm().run(prng);
  ASSERT_EQ(mixed.swarm().sessions[0]->state(), SessionState::kDone);
  EXPECT_EQ(mixed.swarm().sessions[0]->digest(), mixed.swarm().sessions[1]->digest());
}

// The frame of a session that is due at `to`, with its payload.
Message next_message(SessionSwarm& swarm, int from, int to) {
  EXPECT_TRUE(swarm.send(from, to, FrameKind::kContribution));
  return *std::exchange(swarm.wire[{from, to, FrameKind::kContribution}], nullptr);
}

WorkResult offer(ReduceSession& session, int from, const Message& message) {
  const auto work = session.admit(from, message.header);
  EXPECT_TRUE(work.has_value());
  const std::span<const std::byte> pieces[] = {message.payload};
  return session.run(*work, pieces);
}

TEST(DeviceButterfly, DamagedFramesAreRefusedAsOnTheHost) {
  for (const CodecKind codec : kDenseCodecs) {
    for (const bool recomputed : {false, true}) {  // the checksum, so that only the values tell
      HostAccelerator device;
      ReducePlan plan = make_plan(codec, 512, {1, 1});
      plan.frame_values = 256;
      MixedSwarm mixed(device, plan, random_inputs(plan, 3), {true, false});
      Message message = next_message(mixed.swarm(), 1, 0);
      std::fill_n(message.payload.begin(), 4, std::byte{0xff});
      const std::span<const std::byte> pieces[] = {message.payload};
      if (recomputed) message.header.checksum = payload_checksum(pieces);
      const WorkResult result = offer(*mixed.swarm().sessions[0], 1, message);
      ASSERT_FALSE(result.status.ok()) << to_string(codec);
      EXPECT_EQ(result.status.error().code, Code::kDataLoss) << to_string(codec);
    }
  }
}

TEST(DeviceButterfly, APayloadThatIsTooLongOrTooShortIsRefused) {
  for (const std::size_t size : {0u, 10u, 2000u}) {
    HostAccelerator device;
    ReducePlan plan = make_plan(CodecKind::kInt8, 512, {1, 1});
    plan.frame_values = 256;
    MixedSwarm mixed(device, plan, random_inputs(plan, 3), {true, false});
    Message message = next_message(mixed.swarm(), 1, 0);
    message.payload.resize(size);
    EXPECT_FALSE(offer(*mixed.swarm().sessions[0], 1, message).status.ok()) << size;
  }
}

TEST(DeviceButterfly, ADeviceThatFailsSendsNothingThatCounts) {
  HostAccelerator device;
  ReducePlan plan = make_plan(CodecKind::kInt8, 512, {1, 1});
  plan.frame_values = 256;
  MixedSwarm mixed(device, plan, random_inputs(plan, 3), {true, false});
  device.waits_left = 0;
  const Message message = next_message(mixed.swarm(), 0, 1);
  EXPECT_FALSE(offer(*mixed.swarm().sessions[1], 0, message).status.ok());
  const WorkResult own = offer(*mixed.swarm().sessions[0], 1, next_message(mixed.swarm(), 1, 0));
  ASSERT_FALSE(own.status.ok());
  EXPECT_EQ(own.status.error().code, Code::kInternal) << "not the peer's fault";
}

// ---- whole vectors

void expect_the_golden_history(Accelerator& device) {
  std::string now;
  for (const CodecKind codec : kDenseCodecs) {
    auto anchors = vectors_on(device, golden::kValues);
    now += golden::history(codec, [&](const ReducePlan& plan, const auto& inputs, auto& vectors) {
      MixedSwarm mixed(device, plan, inputs, {true, true, true});
      Prng prng(1);
      mixed.swarm().run(prng);
      vectors.average = average_of(mixed.vectors(0), golden::kValues);
      NamedVectors state{{"momentum", vectors.momentum}};
      EXPECT_TRUE(anchors->load(vectors.anchor, state));
      EXPECT_TRUE(anchors->write_average(vectors.average));
      const Fragment whole{{0, static_cast<std::int64_t>(golden::kValues)}};
      EXPECT_TRUE(anchors->step(Nesterov(golden::kOuter), {.outer_lr = golden::kOuter.lr}, whole,
                                state, vectors.anchor));
      vectors.momentum = state[0].values;
    });
  }
  EXPECT_EQ(now, golden::written(std::string(SHOAL_GOLDEN_DIR) + "/outer_step.txt"));
}

TEST(DeviceVectors, GoldenHistory) {
  HostAccelerator device;
  expect_the_golden_history(device);
}

TEST(DeviceVectors, GoldenHistoryOnAGpu) {
  const auto device = test_gpu();
  if (!device) GTEST_SKIP() << kNoGpu;
  expect_the_golden_history(*device);
}

std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(prng.normal());
  return values;
}

void step_on_host(const OuterOptimizer& optimizer, const StepTerms& terms, const Fragment& fragment,
                  std::span<const float> average, NamedVectors& state, std::span<float> anchor) {
  for (const ValueRange& range : fragment) {
    const auto count = static_cast<std::size_t>(range.count);
    optimizer.step(terms, average.first(count), RunsOf(state, range),
                   anchor.subspan(static_cast<std::size_t>(range.first), count));
    average = average.subspan(count);
  }
}

// More values than a ferry takes at once, in ranges that begin at odd places.
void expect_fragments_as_on_the_host(Accelerator& device, std::size_t n) {
  const auto end = static_cast<std::int64_t>(n);
  const Fragment fragment{{3, 1001}, {end / 2, end / 2 - 1}};
  std::vector<float> anchor = normal(n, 1), local = normal(n, 3);
  NamedVectors state{{"momentum", normal(n, 2)}};
  auto vectors = vectors_on(device, n);
  ASSERT_TRUE(vectors->load(anchor, state));
  Local on_device(device, local);

  std::vector<float> packed(static_cast<std::size_t>(value_count(fragment))), apart(n);
  for (std::size_t i = 0; i < n; ++i) apart[i] = anchor[i] - local[i];
  gather(fragment, apart, packed);
  const auto statistics = vectors->take_pseudo_gradient(on_device.data(), fragment);
  ASSERT_TRUE(statistics.ok());
  std::vector<float> read(packed.size());
  ASSERT_TRUE(vectors->read_pseudo_gradient(read));
  expect_bits(read, packed, "pseudo-gradient");

  std::vector<float> stepped_anchor = anchor;
  NamedVectors stepped = state;
  const Nesterov optimizer({0.7, 0.9});
  const StepTerms terms{.outer_lr = 0.7};
  ASSERT_TRUE(vectors->write_average(packed));
  ASSERT_TRUE(vectors->step(optimizer, terms, fragment, stepped, stepped_anchor));
  step_on_host(optimizer, terms, fragment, packed, state, anchor);
  expect_bits(stepped_anchor, anchor, "anchor");
  expect_bits(stepped[0].values, state[0].values, "momentum");

  ASSERT_TRUE(vectors->adopt(fragment, 0.25, on_device.data()));
  adopt(fragment, 0.25, anchor, local);
  expect_bits(on_device.values(), local, "local");
}

TEST(DeviceVectors, FragmentsAreAsOnTheHost) {
  HostAccelerator device;
  expect_fragments_as_on_the_host(device, 2'500'001);
  EXPECT_EQ(device.held.load(), 0);
}

TEST(DeviceVectors, FragmentsOnAGpu) {
  const auto device = test_gpu();
  if (!device) GTEST_SKIP() << kNoGpu;
  expect_fragments_as_on_the_host(*device, 10'000'001);
}

TEST(DeviceVectors, StatisticsNameWhatIsNotFiniteBeyondTheFragment) {
  HostAccelerator device;
  auto vectors = vectors_on(device, 100);
  std::vector<float> zeros(100), local(100);
  ASSERT_TRUE(vectors->load(zeros, {{"momentum", zeros}}));
  local[10] = -3, local[11] = 4, local[90] = NAN;
  Local on_device(device, local);
  const auto statistics = vectors->take_pseudo_gradient(on_device.data(), {{0, 50}});
  ASSERT_TRUE(statistics.ok());
  EXPECT_DOUBLE_EQ(statistics->norm, 5);
  EXPECT_DOUBLE_EQ(statistics->max_abs, 4);
  EXPECT_EQ(statistics->nonfinite, 1);
}

TEST(DeviceVectors, NoRoomIsSaidAndGivenBack) {
  HostAccelerator device;
  device.room = 1000;
  const auto made = DeviceVectors::create(device, 1000, 1);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kResourceExhausted);
  EXPECT_EQ(device.held.load(), 0);
}

TEST(DeviceVectors, WhatIsComputedOnTheHostDoesNotSuit) {
  const Nesterov nesterov({0.9, 0.5});
  const auto suits = [&](const SyncSpec& sync) { return DeviceVectors::suits(&nesterov, sync); };
  EXPECT_TRUE(suits(SyncSpec()));
  EXPECT_TRUE(suits(sync_of(SyncAlgorithm::kLocalSgd)));
  EXPECT_FALSE(suits({.codec = CodecKind::kSparse2}));
  EXPECT_FALSE(suits({.outer_state = OuterState::kSharded}));
  EXPECT_FALSE(suits({.topology = Topology::kMoshpit}));
  EXPECT_FALSE(DeviceVectors::suits(nullptr, SyncSpec())) << "its steps are no optimizer's";
  ReducePlan plan = make_plan(CodecKind::kInt8, 10, {1, 1});
  EXPECT_TRUE(DeviceButterfly::suits(plan));
  plan.topology = Topology::kRing;
  EXPECT_FALSE(DeviceButterfly::suits(plan));
}

// A device that ignored the optimizer would take a Nesterov step in place of the job's.
TEST(DeviceVectors, AnOptimizerWithoutAKernelStepsOnTheHost) {
  for (const OuterTraits& traits : kOuterTraits) {
    const auto optimizer = make_outer_optimizer({.method = traits.method}, 1);
    EXPECT_EQ(DeviceVectors::suits(optimizer.get(), SyncSpec()),
              traits.method == OuterMethod::kNesterov)
        << to_string(traits.method);
  }
}

}  // namespace
}  // namespace shoal::outer_opt
