// See outer_loop.h.
#include "replica/core/outer_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace shoal::replica {

using outer_opt::CommitOutcome;
using outer_opt::Fragment;

namespace {

CommitOutcome commit_outcome(const CommitRound& commit, bool contributed) {
  if (commit.outcome == RoundOutcome::kKept) return CommitOutcome::kCounted;
  if (commit.outcome == RoundOutcome::kDropped) return CommitOutcome::kDropped;
  if (contributed) return CommitOutcome::kCounted;
  return commit.keeps ? CommitOutcome::kKept : CommitOutcome::kDropped;
}

// The parts of the members, where each owned one.
outer_opt::OwnedRuns owned_runs(const ReducePlan& plan) {
  outer_opt::OwnedRuns runs;
  std::int64_t next = 0;
  for (const ReduceMember& member : plan.members) {
    if (member.part_count == 0) continue;
    if (member.part_first != next) return {};
    runs.push_back({member.part_first, member.part_count});
    next += member.part_count;
  }
  return next == plan.value_count ? runs : outer_opt::OwnedRuns{};
}

}  // namespace

OuterLoop::OuterLoop(OuterLoopSetup setup, LocalParameters& local,
                     std::shared_ptr<OuterState> state, const RoundKey& held)
    : self_(setup.self),
      spec_(std::move(setup.spec)),
      fragments_(std::move(setup.fragments)),
      whole_{{0, local.value_count()}},
      algorithm_(std::move(setup.algorithm)),
      vectors_(std::move(setup.vectors)),
      local_(local),
      state_(std::move(state)),
      held_(held),
      digests_(digests_of(*state_)),
      tokens_behind_(fragments_.size()) {
  begin_eager();
}

void OuterLoop::begin_eager() {
  if (!spec_.sync.eager) return;
  SHOAL_CHECK(algorithm_->optimizer() != nullptr, "an eager step of no optimizer");
  eager_.emplace(fragments_, *algorithm_->optimizer());
}

const Fragment& OuterLoop::values_of(std::int32_t fragment) const {
  if (fragment == 0) return whole_;
  SHOAL_CHECK(fragment <= static_cast<std::int32_t>(fragments_.size()), "no such fragment");
  return fragments_[static_cast<std::size_t>(fragment) - 1];
}

std::size_t OuterLoop::averaged_values() const {
  return static_cast<std::size_t>(outer_opt::value_count(values_of(averaged_fragment_)));
}

void OuterLoop::note(const Status& status) {
  if (status_) status_ = status;
}

// When each inner step is a round, the state changes all the time, so the earlier report stands.
bool OuterLoop::memory_is_intact() const {
  return !algorithm_->rests() || digests_of(*state_) == digests_;
}

template <typename Change>
void OuterLoop::change_local(const Change& change) {
  std::vector<float> values(state_->anchor.size());
  local_.read_parameters(values);
  change(std::span(values));
  local_.write_parameters(values);
}

// ---- to the boundary

void OuterLoop::open(const OpenRound& round) {
  base_.reset();
  if (eager_ && eager_->state() == outer_opt::EagerState::kAhead) {
    change_local([this](std::span<float> values) { take_back(values); });
  }
  own_fragment_ = round.fragment;
}

void OuterLoop::take_back(std::span<float> local) {
  eager_->take_back(contribution(), state_->anchor, local);
}

void OuterLoop::boundary(RoundReport& report, bool goes_on) {
  const auto statistics = vectors_->take_contribution(
      {*algorithm_, local_, *state_, values_of(own_fragment_), contribution_stands(goes_on)});
  if (!statistics) return note(statistics.error());
  reentered_ = false;
  report.norm = statistics->norm;
  report.max_abs = statistics->max_abs;
  report.nonfinite = statistics->nonfinite;
  if (spec_.sync.codec == CodecKind::kSparse2) report.sent_norm = encode_contribution();
  tokens_reported_ = report.tokens;
  if (own_fragment_ > 0) {
    report.tokens += tokens_behind_[static_cast<std::size_t>(own_fragment_) - 1];
  }
  if (!eager_ || !goes_on || report.nonfinite > 0) return;
  change_local([this](std::span<float> values) {
    eager_->begin(own_fragment_, contribution(), state_->vectors, state_->anchor, values);
  });
}

// The norm of what is sent; 0 when nothing of it would be accepted.
double OuterLoop::encode_contribution() {
  if (!feedback_) feedback_.emplace(contribution().size(), spec_.sync.feedback);
  at_boundary_ = feedback_->encode(contribution());
  double squares = 0;
  const Status sound = outer_opt::sparse2_squares(at_boundary_, contribution().size(), squares);
  return sound.ok() ? std::sqrt(squares) : 0;
}

std::span<const float> OuterLoop::contribution() const {
  const std::span<const float> values = vectors_->contribution();
  const auto own = static_cast<std::size_t>(outer_opt::value_count(values_of(own_fragment_)));
  return values.first(std::min(values.size(), own));
}

outer_opt::VectorSource OuterLoop::contribution_source() const {
  return vectors_->contribution_source(outer_opt::value_count(values_of(own_fragment_)));
}

// Eager steps and sparse2 read it as values, the first ones after the local parameters changed.
bool OuterLoop::contribution_stands(bool goes_on) const {
  return !goes_on && !eager_ && spec_.sync.codec != CodecKind::kSparse2 &&
         algorithm_->can_read_contribution();
}

// ---- the reduce

std::string OuterLoop::mismatch_of(const ReducePlan& plan, bool contributes) const {
  if (plan.fragment > static_cast<std::int32_t>(fragments_.size())) return "no such fragment";
  const std::int64_t values = outer_opt::value_count(values_of(plan.fragment));
  if (plan.value_count != values) {
    return "the plan has " + std::to_string(plan.value_count) + " values, the replica " +
           std::to_string(values);
  }
  if (contributes && plan.fragment != own_fragment_) return "another fragment was reported";
  return algorithm_->mismatch(plan);
}

double OuterLoop::share_in(const ReducePlan& plan) const {
  return outer_opt::share_of(plan, self_);
}

OuterLoop::Attempt OuterLoop::plan(const ReducePlan& plan, bool contributes) {
  base_.reset();
  averaged_fragment_ = plan.fragment;
  averaged_codec_ = plan.codec;
  averaged_owned_ = owned_runs(plan);
  contributed_ = contributes;
  share_ = share_in(plan);
  Attempt attempt{mismatch_of(plan, contributes), std::nullopt};
  if (!attempt.mismatch.empty()) return attempt;
  if (algorithm_->averages_alone(plan)) {
    local_.read_parameters(average(plan));
    reduced();
    attempt.alone = reduced_;
    return attempt;
  }
  if (reentered_) {
    const auto again =
        vectors_->take_contribution({*algorithm_, local_, *state_, values_of(own_fragment_)});
    if (!again) note(again.error());
  }
  reentered_ = contributes && algorithm_->enter_group(*state_, vectors_->contribution(), plan);
  return attempt;
}

Result<std::optional<outer_opt::Restaged>> OuterLoop::missing_momentum(const ReducePlan& plan) {
  return algorithm_->missing_momentum(plan, self_, *state_);
}

std::span<const float> OuterLoop::own_momentum(const ReducePlan& plan) const {
  return algorithm_->own_momentum(plan, self_, *state_);
}

outer_opt::ReduceInput OuterLoop::input(const ReducePlan& plan, bool contributes) {
  encoded_.clear();
  outer_opt::ReduceInput input;
  input.momentum = own_momentum(plan);
  input.clip_center = algorithm_->clip_center(*state_);
  if (!contributes) return input;
  input.pseudo_gradient = vectors_->contribution_source(plan.value_count);
  if (plan.codec != CodecKind::kSparse2) return input;
  encoded_ = at_boundary_;
  input.encoded = encoded_;
  return input;
}

outer_opt::AverageRoom OuterLoop::room(const ReducePlan& plan, std::int64_t frame_values) {
  const bool frames = !eager_ && !algorithm_->measures_average();
  return vectors_->room_for_average(plan, frame_values, frames);
}

std::span<float> OuterLoop::average(const ReducePlan& plan) {
  return vectors_->values_for_average(plan.value_count);
}

void OuterLoop::reduced() {
  if (!vectors_->average_is_here()) return;
  reduced_ = digest_of(std::span<const float>(vectors_->average_memory()));
}

void OuterLoop::read_base() {
  if (algorithm_->rests()) base_ = digests_of(*state_);
}

bool OuterLoop::contribution_is_intact(const ReducePlan& audit) const {
  return std::ranges::all_of(audit.audited, [this](const AuditedRange& range) {
    return vectors_->contribution_is_intact({range.first, range.count});
  });
}

outer_opt::ReduceInput OuterLoop::audit_input(const ReducePlan& plan, bool contributes) {
  for (auto* values : {&audit_.contribution, &audit_.before, &audit_.again}) {
    values->resize(static_cast<std::size_t>(plan.value_count));
  }
  std::size_t at = 0;
  for (const AuditedRange& range : plan.audited) {
    const auto count = static_cast<std::size_t>(range.count);
    const auto own = std::span(audit_.contribution).subspan(at, contributes ? count : 0);
    note(vectors_->read(range.first, own, std::span(audit_.before).subspan(at, count)));
    at += count;
  }
  outer_opt::ReduceInput input;
  if (contributes) input.pseudo_gradient = audit_.contribution;
  return input;
}

std::vector<ReplicaId> OuterLoop::disputed(const ReducePlan& plan) const {
  std::vector<ReplicaId> owners;
  std::size_t at = 0;
  for (const AuditedRange& range : plan.audited) {
    const auto count = static_cast<std::size_t>(range.count);
    const bool same =
        std::memcmp(&audit_.before[at], &audit_.again[at], count * sizeof(float)) == 0;
    at += count;
    if (!same && !std::ranges::count(owners, range.owner)) owners.push_back(range.owner);
  }
  return owners;
}

// ---- the commit

OuterLoop::Committed OuterLoop::commit(const CommitRound& commit, bool goes_on) {
  Committed committed{before_step(commit), commit_outcome(commit, contributed_), false};
  if (commit.outcome == RoundOutcome::kAveraged) {
    adopt_average(commit, committed.outcome, goes_on);
    committed.adopts_later = committed.outcome == CommitOutcome::kCounted && goes_on;
  } else {
    stay(committed.outcome == CommitOutcome::kCounted);
  }
  held_ = commit.key;
  digests_ = digests_of(*state_);
  committed.applied.anchor = digests_.anchor;
  committed.applied.momentum = digests_.momentum;
  return committed;
}

// The digests of the state that the step begins with, read after the round was trained, because
// memory may have changed since the last report.
Applied OuterLoop::before_step(const CommitRound& commit) {
  if (!base_) read_base();
  const StateDigests base = std::exchange(base_, std::nullopt).value_or(digests_);
  Applied applied{.key = commit.key};
  applied.base = base.anchor;
  applied.base_momentum = base.momentum;
  if (commit.outcome != RoundOutcome::kAveraged) return applied;
  applied.average = commit.average;
  if (!vectors_->average_is_here()) return applied;
  const Digest now = digest_of(std::span<const float>(vectors_->average_memory()));
  if (now != reduced_) applied.average = now;
  return applied;
}

void OuterLoop::adopt_average(const CommitRound& commit, CommitOutcome outcome, bool goes_on) {
  keep_unsent();
  if (state_.use_count() > 1) state_ = std::make_shared<OuterState>(*state_);  // somebody reads it
  // No value of this replica is being averaged, so the memory of its contribution is free.
  if (outcome == CommitOutcome::kKept) {
    algorithm_->contribution(local_, *state_, whole_, vectors_->values_for_contribution());
  }
  const outer_opt::StepTerms terms = terms_of(commit);
  take_step(terms);
  show_average(terms);
  learn_average(commit);
  settle_local(outcome, goes_on);
  algorithm_->forget_trained(local_);
}

void OuterLoop::keep_unsent() {
  if (encoded_.empty()) return;
  const Status kept =
      feedback_->commit(vectors_->contribution().first(averaged_values()), encoded_);
  SHOAL_CHECK(kept.ok(), "the own encoding counted in the average");
  encoded_.clear();
}

outer_opt::StepTerms OuterLoop::terms_of(const CommitRound& commit) {
  const bool measures = algorithm_->measures_average();
  const double norm = measures ? algorithm_->norm_of(vectors_->average_memory()) : 0;
  return step_terms(commit, averaged_fragment_, norm);
}

void OuterLoop::take_step(const outer_opt::StepTerms& terms) {
  note(vectors_->step(*algorithm_, terms, values_of(averaged_fragment_), *state_));
}

void OuterLoop::show_average(const outer_opt::StepTerms& terms) {
  if (!watch_.wanted || !watch_.wanted()) return;
  const Status here = vectors_->bring_average(static_cast<std::int64_t>(averaged_values()));
  if (!here) return note(here);
  const outer_opt::ReadAverage read = [this](std::int64_t first, std::span<float> out) {
    vectors_->read_average(first, out);
  };
  watch_.averaged({terms, values_of(averaged_fragment_), averaged_codec_, averaged_owned_, read});
}

void OuterLoop::learn_average(const CommitRound& commit) {
  if (!eager_) return;
  if (!contributed_) return eager_->dropped(averaged_fragment_);
  eager_->committed(averaged_fragment_, step_terms(commit, averaged_fragment_, 0), share_,
                    contribution(), vectors_->average_memory());
}

// A replica without a part in the result drops its own progress, unless the round keeps it.
void OuterLoop::settle_local(CommitOutcome outcome, bool goes_on) {
  if (outcome == CommitOutcome::kKept) return move_with_anchor();
  count_tokens_behind();
  if (!contributed_) return local_.write_parameters(state_->anchor);
  adopting_fragment_ = averaged_fragment_;
  if (!goes_on) adopt_fragment(0);
}

// The contribution was taken before the step and is what it was, to rounding.
void OuterLoop::move_with_anchor() {
  const std::span<float> values = vectors_->contribution();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = state_->anchor[i] - values[i];
  local_.write_parameters(values);
}

// Its group gave up: the anchor does not change, and is now that of the next round.
void OuterLoop::stay(bool counts) {
  if (!counts) local_.write_parameters(state_->anchor);
}

void OuterLoop::count_tokens_behind() {
  for (Tokens& tokens : tokens_behind_) tokens += tokens_reported_;
  const bool all = !contributed_ || averaged_fragment_ == 0;
  if (all) std::fill(tokens_behind_.begin(), tokens_behind_.end(), Tokens());
  if (!all) tokens_behind_[static_cast<std::size_t>(averaged_fragment_) - 1] = Tokens();
  tokens_reported_ = Tokens();
}

void OuterLoop::adopt_fragment(double blend) {
  note(vectors_->adopt(values_of(adopting_fragment_), blend, *state_, local_));
}

void OuterLoop::adopt() {
  if (!eager_) return adopt_fragment(spec_.sync.blend);
  change_local([this](std::span<float> values) { correct(values); });
}

void OuterLoop::correct(std::span<float> local) { eager_->adopt(state_->anchor, local); }

// ---- another epoch, and checkpoints

void OuterLoop::drop_training() {
  local_.write_parameters(state_->anchor);
  algorithm_->forget_trained(local_);
  tokens_reported_ = Tokens();
  std::fill(tokens_behind_.begin(), tokens_behind_.end(), Tokens());
}

void OuterLoop::return_to_anchor(const RoundKey& held) {
  held_ = held;
  local_.write_parameters(state_->anchor);
  algorithm_->forget_trained(local_);
  contributed_ = reentered_ = false;
  base_.reset();
  encoded_.clear();
  algorithm_->forget_staged();
  tokens_reported_ = Tokens();
  std::fill(tokens_behind_.begin(), tokens_behind_.end(), Tokens());
  begin_eager();
}

Result<outer_opt::Restaged> OuterLoop::all_momentum(
    const std::vector<MomentumHolder>& holders) const {
  return outer_opt::restage(whole_, self_, holders, state_->shards);
}

}  // namespace shoal::replica
