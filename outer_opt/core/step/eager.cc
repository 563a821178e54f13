// See eager.h. What is kept of the last round is one vector, the part of the others in its average:
// A' + w (D - D') = (A' - w D') + w D.
#include "outer_opt/core/step/eager.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kBlock = 1024;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// work(whole, packed, count) for each run of the fragment: where it begins in either vector.
template <typename Work>
void for_each_run(const Fragment& fragment, const Work& work) {
  std::size_t packed = 0;
  for (const ValueRange& range : fragment) {
    work(size(range.first), packed, size(range.count));
    packed += size(range.count);
  }
}

}  // namespace

double share_of(const ReducePlan& plan, ReplicaId self) {
  double own = 0, all = 0;
  for (const ReduceMember& member : plan.members) {
    all += member.weight;
    if (member.replica == self) own = member.weight * member.clip_factor;
  }
  return all > 0 ? own / all : 0;
}

EagerUpdates::EagerUpdates(std::vector<Fragment> fragments, const OuterOptimizer& optimizer)
    : optimizer_(optimizer), fragments_(std::move(fragments)) {
  std::int64_t values = 0;
  for (const Fragment& fragment : fragments_) values += value_count(fragment);
  fragments_.insert(fragments_.begin(), Fragment{{0, values}});
  last_.resize(fragments_.size());
  others_.resize(size(values));
}

void EagerUpdates::begin(std::int32_t fragment, std::span<const float> pseudo_gradient,
                         const NamedVectors& vectors, std::span<const float> anchor,
                         std::span<float> local) {
  SHOAL_CHECK(state_ == EagerState::kNone, "the step before is neither adopted nor taken back");
  const Fragment& values = values_of(fragment);
  SHOAL_CHECK(pseudo_gradient.size() == size(value_count(values)));
  start_.resize(pseudo_gradient.size());
  under_way_ = fragment;
  state_ = EagerState::kAhead;
  const auto& known = last_of(fragment);
  if (!known) return gather(values, local, start_);
  gather(values, anchor, start_);
  take_step(*known, pseudo_gradient, vectors);
  for_each_run(values, [&](std::size_t whole, std::size_t packed, std::size_t count) {
    std::copy_n(start_.data() + packed, count, local.data() + whole);
  });
}

// The outer step itself, block by block, on copies of state and anchor. It is the next one of the
// fragment, which is averaged every so many rounds as there are fragments.
void EagerUpdates::take_step(const Known& known, std::span<const float> pseudo_gradient,
                             const NamedVectors& vectors) {
  std::array<float, kBlock> estimate;
  std::array<std::array<float, kBlock>, kStateVectorsMax> kept;
  std::array<std::span<float>, kStateVectorsMax> state;
  StepTerms terms = known.terms;
  terms.round += std::ssize(fragments_) - 1;
  for_each_run(values_of(under_way_), [&](std::size_t whole, std::size_t packed, std::size_t all) {
    for (std::size_t at = 0; at < all; at += kBlock) {
      const std::size_t count = std::min(kBlock, all - at);
      for (std::size_t i = 0; i < count; ++i) {
        estimate[i] = others_[whole + at + i] + known.share * pseudo_gradient[packed + at + i];
      }
      for (std::size_t v = 0; v < vectors.size(); ++v) {
        std::copy_n(vectors[v].values.data() + whole + at, count, kept[v].data());
        state[v] = std::span(kept[v]).first(count);
      }
      optimizer_.step(terms, std::span(estimate).first(count),
                      std::span(state).first(vectors.size()),
                      std::span(start_).subspan(packed + at, count));
    }
  });
}

void EagerUpdates::take_back(std::span<const float> pseudo_gradient, std::span<const float> anchor,
                             std::span<float> local) {
  SHOAL_CHECK(state_ == EagerState::kAhead && pseudo_gradient.size() == start_.size());
  state_ = EagerState::kNone;
  for_each_run(values_of(under_way_), [&](std::size_t whole, std::size_t packed, std::size_t all) {
    for (std::size_t i = 0; i < all; ++i) {
      const float before = anchor[whole + i] - pseudo_gradient[packed + i];
      local[whole + i] += before - start_[packed + i];
    }
  });
}

void EagerUpdates::committed(std::int32_t fragment, const StepTerms& terms, double share,
                             std::span<const float> pseudo_gradient,
                             std::span<const float> average) {
  const Fragment& values = values_of(fragment);
  SHOAL_CHECK(pseudo_gradient.size() == size(value_count(values)) &&
              average.size() == pseudo_gradient.size());
  SHOAL_CHECK(state_ == EagerState::kNone ||
              (state_ == EagerState::kAhead && fragment == under_way_));
  const Known known{terms, static_cast<float>(share)};
  for_each_run(values, [&](std::size_t whole, std::size_t packed, std::size_t all) {
    for (std::size_t i = 0; i < all; ++i) {
      others_[whole + i] = average[packed + i] - known.share * pseudo_gradient[packed + i];
    }
  });
  last_[size(fragment)] = known;
  if (state_ == EagerState::kAhead) state_ = EagerState::kSettled;
}

void EagerUpdates::dropped(std::int32_t fragment) {
  last_[size(fragment)].reset();
  state_ = EagerState::kNone;
}

void EagerUpdates::adopt(std::span<const float> anchor, std::span<float> local) {
  SHOAL_CHECK(state_ == EagerState::kSettled, "there is no step to correct");
  state_ = EagerState::kNone;
  for_each_run(values_of(under_way_), [&](std::size_t whole, std::size_t packed, std::size_t all) {
    for (std::size_t i = 0; i < all; ++i) {
      local[whole + i] += anchor[whole + i] - start_[packed + i];
    }
  });
}

const std::optional<EagerUpdates::Known>& EagerUpdates::last_of(std::int32_t fragment) const {
  return last_.at(size(fragment));
}

const Fragment& EagerUpdates::values_of(std::int32_t fragment) const {
  return fragments_.at(size(fragment));
}

}  // namespace shoal::outer_opt
