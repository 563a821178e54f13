// What answers do to the runs of a joiner (join_session.h). After an invalid answer its source
// is not trusted any more, and nothing of the answer is used.
#include <algorithm>

#include "outer_opt/core/joining/average_log.h"
#include "outer_opt/core/joining/join_session.h"

namespace shoal::outer_opt {

namespace {

// Sources beyond the first ones share a bit, and are never named.
constexpr std::size_t kNamedSources = 63;

std::uint64_t bit_of(std::size_t source) {
  return std::uint64_t{1} << std::min(source, kNamedSources);
}

}  // namespace

std::size_t size_of(const StateAnswer& answer) {
  std::size_t bytes = answer.values.size() * sizeof(float) + answer.digests.size() * sizeof(Digest);
  for (const AverageSlice& round : answer.rounds) {
    for (const AverageSegment& segment : round.segments) bytes += segment.values.bytes.size();
  }
  return bytes;
}

const Fragment& JoinSession::fragment(std::int32_t number) const {
  return number == 0 ? whole_ : shape_.fragments[static_cast<std::size_t>(number) - 1];
}

void JoinSession::take_state(const Pending& pending, const StateAnswer& answer) {
  const ValueRange& range = pending.ask.run;
  if (std::ssize(answer.values) != range.count * shape_.vectors) {
    return complain(pending.source, "its state has another size");
  }
  const bool pins = shape_.mode != JoinMode::kFollows;
  if (pins && pinned_round_ >= 0 && answer.held != pinned_round_) {
    return complain(pending.source, "its state is of another round than it said");
  }
  if (pins) pinned_round_ = answer.held;
  Run& run = runs_[pending.first];
  if (run.was_here) fetched_again_ += Bytes(std::ssize(answer.values) * 4);
  run.here = run.was_here = true;
  run.round = answer.held;
  run.givers = bit_of(pending.source);
  run.only_from.reset();
  target_.place(range, answer.values);
  run.fetched_round = suspicions_.empty() ? -1 : answer.held;
  if (!suspicions_.empty()) run.fetched = target_.digest_of(range);
}

void JoinSession::take_averages(const Pending& pending, const StateAnswer& answer) {
  RoundNumber round = pending.ask.key.round;
  for (const AverageSlice& slice : answer.rounds) {
    if (slice.terms.round != ++round || round > answer.held) {
      return complain(pending.source, "its averages are not of the rounds that were asked for");
    }
    if (!follow_round(pending, slice)) {
      return complain(pending.source, "its averages are not those of the run");
    }
    for (std::size_t i = 0; i < pending.count; ++i) {
      runs_[pending.first + i].round = round;
      runs_[pending.first + i].givers |= bit_of(pending.source);
    }
    followed_ = std::max(followed_, round);
    averaged_values_ += static_cast<double>(pending.ask.run.count);
  }
  average_bytes_ += static_cast<double>(size_of(answer));
  if (answer.rounds.empty()) complain(pending.source, "it answered with nothing");
}

// All of it is decoded before any of it is used.
bool JoinSession::follow_round(const Pending& pending, const AverageSlice& slice) {
  const std::int32_t number = slice.terms.fragment;
  if (number < 0 || number > static_cast<std::int32_t>(shape_.fragments.size())) return false;
  const ValueRange wanted = packed_range(fragment(number), pending.ask.run);
  if (slice.segments.empty()) return slice.is_empty || wanted.count == 0;
  const std::int64_t first = slice.segments.front().first;
  const std::int64_t all = value_count(fragment(number));
  std::vector<float> values;
  for (const AverageSegment& segment : slice.segments) {
    const std::int64_t at = first + std::ssize(values);
    if (segment.first != at || segment.count <= 0 || segment.count > all - at) return false;
    values.resize(values.size() + static_cast<std::size_t>(segment.count));
    const auto out = std::span(values).last(static_cast<std::size_t>(segment.count));
    const ExactEncoding& encoding = segment.values;
    if (!decode_exactly(slice.codec, encoding.form, encoding.bytes, out).ok()) return false;
  }
  const std::int64_t end = first + std::ssize(values);
  if (first < 0 || first > wanted.first || end < wanted.first + wanted.count) return false;
  follow(slice.terms, pending.ask.run,
         std::span(values).subspan(static_cast<std::size_t>(wanted.first - first),
                                   static_cast<std::size_t>(wanted.count)));
  return true;
}

// `average` is what the fragment has of the run, packed.
void JoinSession::follow(const StepTerms& terms, const ValueRange& run,
                         std::span<const float> average) {
  for (const ValueRange& range : fragment(terms.fragment)) {
    const std::int64_t first = std::max(range.first, run.first);
    const std::int64_t end = std::min(range.first + range.count, run.first + run.count);
    if (first >= end) continue;
    const auto count = static_cast<std::size_t>(end - first);
    target_.follow(terms, {first, end - first}, average.first(count));
    average = average.subspan(count);
  }
}

void JoinSession::take_moments(const Pending& pending, const StateAnswer& answer) {
  const bool other = adam_step_ != 0 && answer.adam_step != adam_step_;
  const auto got = std::ssize(answer.values), asked = pending.ask.run.count;
  const bool is_bounded = pending.ask.run.first + got <= options_.open_moments_max;
  const bool fits = shape_.open_moments ? got <= asked && is_bounded : got == asked;
  if (!fits || answer.adam_step <= 0 || other) {
    return complain(pending.source, "its moments have another size or step");
  }
  adam_step_ = answer.adam_step;
  if (!answer.digests.empty()) moments_digest_ = answer.digests.front();
  Run& run = moments_[pending.first];
  if (run.was_here) fetched_again_ += Bytes(std::ssize(answer.values) * 4);
  run.here = run.was_here = true;
  run.fetched = digest_of(std::span<const float>(answer.values));
  run.is_beyond = got == 0;
  if (got > 0) target_.place_moments(pending.ask.run.first, answer.values);
  if (shape_.open_moments) {
    shape_.moments = std::max(shape_.moments, pending.ask.run.first + got);
    if (got == asked) extend_moments();
  }
  check_moments(pending.source);
}

// As many runs again, up to a bound at a time, until one of them shows where the copy ends.
void JoinSession::extend_moments() {
  const bool ends = std::ranges::any_of(moments_, &Run::is_beyond);
  const bool whole = std::ranges::all_of(moments_, &Run::here);
  const bool is_full =
      shape_.moments == static_cast<std::int64_t>(moments_.size()) * options_.run_values;
  if (ends || !whole || !is_full) return;
  moments_.resize(moments_.size() + std::min(moments_.size(), options_.asks_max));
}

// Only the source knows its moments, so there is no committed digest to compare with. The check is
// that all of them come from one copy and arrived whole.
void JoinSession::check_moments(std::size_t source) {
  if (!moments_digest_ || !std::ranges::all_of(moments_, &Run::here)) return;
  std::vector<Digest> pieces;
  for (const Run& run : moments_) {
    if (!run.is_beyond) pieces.push_back(run.fetched);
  }
  if (digest_of_moments(pieces) != *moments_digest_) {
    complain(source, "its moments are not those that it announced");
  }
}

// ---- starting over

void JoinSession::begin_anew() {
  for (Run& run : runs_) run.here = false;
  pinned_round_ = -1;
  only_.reset();
  ++state_epoch_;  // what is on its way is of the former state
}

void JoinSession::forget_moments() {
  for (Run& run : moments_) run.here = run.is_beyond = false;
  if (shape_.open_moments) shape_.moments = 0;
  moments_from_.reset();
  adam_step_ = 0;
  moments_digest_.reset();
  ++moments_epoch_;
}

// All sources are copies of the outer state: what came of others meanwhile is of no use alone.
void JoinSession::go_without_moments() {
  bool any = false;
  for (const Source& source : sources_) {
    if (source.bad || source.left) continue;
    if (!source.without_moments) return;
    any = true;
  }
  if (!any || moments_.empty()) return;
  const std::vector<float> zeros(static_cast<std::size_t>(options_.run_values));
  for (std::int64_t first = 0; first < shape_.moments; first += options_.run_values) {
    const auto count =
        static_cast<std::size_t>(std::min(options_.run_values, shape_.moments - first));
    target_.place_moments(first, std::span(zeros).first(count));
  }
  moments_.clear();
  shape_.moments = 0;
}

// ---- progress

Bytes JoinSession::done() const {
  const auto here = [](const std::vector<Run>& runs) {
    return std::ranges::count_if(runs, &Run::here);
  };
  const auto one = options_.run_values * static_cast<std::int64_t>(sizeof(float));
  const Bytes bytes(here(runs_) * one * shape_.vectors + here(moments_) * one);
  return std::min(bytes, total());
}

Bytes JoinSession::per_round() const {
  if (averaged_values_ <= 0) return {};
  const double all = average_bytes_ / averaged_values_ * static_cast<double>(shape_.values);
  return Bytes(static_cast<std::int64_t>(all));
}

Bytes JoinSession::total() const {
  return Bytes((shape_.values * shape_.vectors + shape_.moments) *
               static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace shoal::outer_opt
