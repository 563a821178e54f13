// See fragments.h. Adjacent ranges are joined, so that a whole vector is one range.
#include "outer_opt/core/step/fragments.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace shoal::outer_opt {
namespace {

template <typename Value>
std::span<Value> part(std::span<Value> values, const ValueRange& range) {
  return values.subspan(static_cast<std::size_t>(range.first),
                        static_cast<std::size_t>(range.count));
}

void add(Fragment& fragment, const ValueRange& range) {
  if (range.count == 0) return;
  if (!fragment.empty() && fragment.back().first + fragment.back().count == range.first) {
    fragment.back().count += range.count;
  } else {
    fragment.push_back(range);
  }
}

std::vector<Fragment> equal_runs(std::int64_t values, std::int64_t fragments) {
  std::vector<Fragment> runs;
  for (std::int64_t i = 0; i < fragments; ++i) {
    const std::int64_t first = values * i / fragments, end = values * (i + 1) / fragments;
    runs.push_back({{first, end - first}});
  }
  return runs;
}

}  // namespace

Steps round_length(const SyncSpec& sync) { return Steps(sync.every.count() / sync.fragments); }

std::int32_t fragment_of(const JobSpec& spec, RoundNumber round, Steps to_step) {
  const std::int64_t fragments = spec.sync.fragments;
  if (fragments == 1 || to_step >= spec.train.steps) return 0;
  return static_cast<std::int32_t>((round - 1) % fragments) + 1;
}

Steps overlap_at(const JobSpec& spec, Steps to_step) {
  return std::clamp(spec.train.steps - to_step, Steps(0), spec.sync.overlap_steps);
}

std::vector<Fragment> cut_fragments(const StageSizes& sizes, std::int64_t fragments) {
  SHOAL_CHECK(fragments >= 1);
  const std::int64_t blocks =
      std::accumulate(sizes.blocks.begin(), sizes.blocks.end(), std::int64_t{0});
  const std::int64_t values = sizes.embedding + blocks + sizes.head;
  SHOAL_CHECK(values >= fragments, "a fragment without a value");
  if (static_cast<std::int64_t>(sizes.blocks.size()) < fragments) {
    return equal_runs(values, fragments);
  }
  std::vector<Fragment> dealt(static_cast<std::size_t>(fragments));
  std::int64_t next = sizes.embedding;
  add(dealt.front(), {0, sizes.embedding});
  for (std::size_t i = 0; i < sizes.blocks.size(); ++i) {
    add(dealt[i % dealt.size()], {next, sizes.blocks[i]});
    next += sizes.blocks[i];
  }
  add(dealt.back(), {next, sizes.head});
  return dealt;
}

std::int64_t value_count(const Fragment& fragment) {
  std::int64_t count = 0;
  for (const ValueRange& range : fragment) count += range.count;
  return count;
}

Fragment part_in(const ValueRange& run, const Fragment& fragment) {
  Fragment inside;
  for (const ValueRange& range : fragment) {
    const std::int64_t first = std::max(range.first, run.first);
    const std::int64_t end = std::min(range.first + range.count, run.first + run.count);
    if (first < end) inside.push_back({first - run.first, end - first});
  }
  return inside;
}

void gather(const Fragment& fragment, std::span<const float> from, std::span<float> to) {
  SHOAL_CHECK(static_cast<std::int64_t>(to.size()) == value_count(fragment));
  auto out = to.begin();
  for (const ValueRange& range : fragment) {
    const auto values = part(from, range);
    out = std::copy(values.begin(), values.end(), out);
  }
}

void adopt(const Fragment& fragment, double blend, std::span<const float> anchor,
           std::span<float> local) {
  SHOAL_CHECK(anchor.size() == local.size());
  const auto kept = static_cast<float>(blend), taken = 1.0f - kept;
  for (const ValueRange& range : fragment) {
    const float* __restrict from = part(anchor, range).data();
    float* __restrict to = part(local, range).data();
    for (std::int64_t i = 0; i < range.count; ++i) {
      const float mine = kept * to[i], theirs = taken * from[i];
      to[i] = kept == 0 ? from[i] : mine + theirs;
    }
  }
}

}  // namespace shoal::outer_opt
