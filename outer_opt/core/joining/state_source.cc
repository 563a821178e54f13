// See state_source.h.
#include "outer_opt/core/joining/state_source.h"

#include <algorithm>
#include <utility>

namespace shoal::outer_opt {
namespace {

constexpr Duration kWanted = seconds(120);     // how long averages are kept after the last ask
constexpr RoundNumber kFollowedFor = 3;        // the same in rounds, for a copy that stays
constexpr std::size_t kAnswerBytes = 1 << 18;  // of averages in one answer, about
constexpr std::size_t kPinsMax = 2;

std::size_t bytes_of(const HeldState& state) {
  std::size_t bytes = 0;
  for (const auto& vector : state.vectors) bytes += vector.size_bytes();
  return bytes;
}

bool within(const ValueRange& run, std::size_t size) {
  const auto all = static_cast<std::int64_t>(size);
  return run.first >= 0 && run.count > 0 && run.first <= all && run.count <= all - run.first;
}

StateAnswer refused(StateRefusal refusal, RoundNumber held) {
  StateAnswer answer;
  answer.refusal = refusal;
  answer.held = held;
  return answer;
}

void append(std::span<const float> from, std::vector<float>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// A run of first and second moments, one behind the other.
void append(const MomentsCopy& moments, const ValueRange& run, std::vector<float>& to) {
  const std::size_t firsts = moments.first.size();
  const auto begin = static_cast<std::size_t>(run.first);
  const std::size_t end = begin + static_cast<std::size_t>(run.count);
  const std::size_t middle = std::clamp(firsts, begin, end);
  append(std::span(moments.first).subspan(std::min(begin, firsts), middle - begin), to);
  append(std::span(moments.second).subspan(middle - std::min(middle, firsts), end - middle), to);
}

// What the copy has of the run: all of it, or none; of an open one as much as there is.
std::optional<ValueRange> run_of_moments(const ValueRange& run, const MomentsCopy& moments) {
  const std::size_t size = moments.first.size() + moments.second.size();
  if (within(run, size)) return run;
  if (!moments.is_open || run.first < 0 || run.count <= 0) return std::nullopt;
  const std::int64_t first = std::min(run.first, static_cast<std::int64_t>(size));
  return ValueRange{first, std::min(run.count, static_cast<std::int64_t>(size) - first)};
}

}  // namespace

Digest digest_of_moments(std::span<const Digest> pieces) {
  Digester digest;
  for (const Digest& piece : pieces) digest.add(piece);
  return digest.finish();
}

Digest digest_of_piece(std::span<const std::span<const float>> vectors, const ValueRange& piece) {
  Digester digest;
  for (const auto& vector : vectors) {
    digest.add(std::as_bytes(vector.subspan(static_cast<std::size_t>(piece.first),
                                            static_cast<std::size_t>(piece.count))));
  }
  return digest.finish();
}

void StateSource::publish(ReplicaId replica, HeldState state) {
  const bool follows = held_ && replica_ == replica && held_->key.job == state.key.job &&
                       held_->key.epoch == state.key.epoch;
  if (!follows) withdraw();
  replica_ = replica;
  if (!averages_) averages_.emplace(bytes_of(state));
  if (!averages_->empty() && !averages_->follows(state.key.round)) averages_->clear();
  held_ = std::move(state);
  stepping_ = false;
}

void StateSource::begin_step() {
  if (held_) held_ = HeldState{held_->key, {}, nullptr};
  stepping_ = true;
}

void StateSource::withdraw() {
  held_.reset();
  stepping_ = false;
  followed_at_ = -1;
  averages_.reset();
  pins_.clear();
  moments_.reset();
}

void StateSource::provide_moments(std::shared_ptr<const MomentsCopy> moments, Instant now) {
  if (moments_ && now - moments_used_at_ < kWanted) return;  // somebody continues with that one
  moments_ = std::move(moments);
  moments_digest_.reset();
  moments_used_at_ = now;
}

bool StateSource::keeps_averages(Instant now) const {
  if (!held_) return false;
  const bool wanted = wanted_at_.ns >= 0 && now - wanted_at_ < kWanted;
  return wanted || (followed_at_ >= 0 && held_->key.round - followed_at_ < kFollowedFor);
}

std::optional<StateAnswer> StateSource::answer(const StateAsk& ask, Instant now) {
  const bool here = held_ && replica_ == ask.replica && held_->key.job == ask.key.job &&
                    held_->key.epoch == ask.key.epoch;
  if (!here) return refused(StateRefusal::kNotHere, 0);
  wanted_at_ = now;
  if (ask.stays) followed_at_ = held_->key.round;
  if (stepping_) return std::nullopt;
  if (ask.kind == AskKind::kMoments) return give_moments(ask, now);
  if (!within(ask.run, held_->vectors.front().size())) return refused(StateRefusal::kNotHere, 0);
  if (ask.kind == AskKind::kDigests) return give_digests(ask);
  return ask.kind == AskKind::kState ? give_run(ask, now) : give_averages(ask);
}

StateAnswer StateSource::give_run(const StateAsk& ask, Instant now) {
  const HeldState* state = ask.pinned ? pinned(ask, now) : &*held_;
  if (state == nullptr) return refused(StateRefusal::kGone, held_->key.round);
  StateAnswer answer;
  answer.held = state->key.round;
  const auto first = static_cast<std::size_t>(ask.run.first);
  const auto count = static_cast<std::size_t>(ask.run.count);
  for (const auto& vector : state->vectors) append(vector.subspan(first, count), answer.values);
  return answer;
}

const HeldState* StateSource::pinned(const StateAsk& ask, Instant now) {
  std::erase_if(pins_, [&](const Pin& pin) { return now - pin.used_at >= kWanted; });
  const RoundNumber round = ask.key.round < 0 ? held_->key.round : ask.key.round;
  auto pin = std::ranges::find(pins_, round, [](const Pin& p) { return p.state.key.round; });
  if (pin == pins_.end()) {
    if (ask.key.round >= 0) return nullptr;
    const auto oldest = std::ranges::min_element(pins_, {}, &Pin::used_at);
    if (pins_.size() == kPinsMax) pins_.erase(oldest);
    pins_.push_back({*held_, now});
    pin = pins_.end() - 1;
  }
  pin->used_at = now;
  return &pin->state;
}

StateAnswer StateSource::give_averages(const StateAsk& ask) const {
  const RoundNumber held = held_->key.round;
  if (ask.key.round >= held) return refused(StateRefusal::kNotYet, held);
  if (!averages_->follows(ask.key.round)) return refused(StateRefusal::kGone, held);
  StateAnswer answer;
  answer.held = held;
  answer.rounds = averages_->after(ask.key.round, ask.run, kAnswerBytes);
  return answer;
}

StateAnswer StateSource::give_digests(const StateAsk& ask) const {
  const RoundNumber held = held_->key.round;
  if (ask.key.round != held) {
    return refused(ask.key.round > held ? StateRefusal::kNotYet : StateRefusal::kGone, held);
  }
  const bool too_many = ask.piece <= 0 || (ask.run.count - 1) / ask.piece >= kPiecesMax;
  if (too_many) return refused(StateRefusal::kNotHere, held);
  StateAnswer answer;
  answer.held = held;
  const std::int64_t end = ask.run.first + ask.run.count;
  for (std::int64_t at = ask.run.first; at < end; at += ask.piece) {
    answer.digests.push_back(digest_of_piece(held_->vectors, {at, std::min(ask.piece, end - at)}));
  }
  return answer;
}

std::optional<StateAnswer> StateSource::give_moments(const StateAsk& ask, Instant now) {
  const RoundNumber held = held_->key.round;
  if (without_moments_) return refused(StateRefusal::kNever, held);
  if (moments_ && now - moments_used_at_ >= kWanted) moments_.reset();
  if (!moments_ && ask.adam_step != 0) return refused(StateRefusal::kGone, held);
  if (!moments_) return std::nullopt;
  if (ask.adam_step != 0 && ask.adam_step != moments_->step) {
    return refused(StateRefusal::kGone, held);
  }
  moments_used_at_ = now;
  const auto run = run_of_moments(ask.run, *moments_);
  if (!run) return refused(StateRefusal::kNotHere, held);
  StateAnswer answer;
  answer.held = held;
  answer.adam_step = moments_->step;
  if (run->count > 0) append(*moments_, *run, answer.values);
  give_digest_of_moments(ask, answer);
  return answer;
}

void StateSource::give_digest_of_moments(const StateAsk& ask, StateAnswer& answer) {
  const auto size = static_cast<std::int64_t>(moments_->first.size() + moments_->second.size());
  if (!moments_digest_ && ask.piece > 0) {
    std::vector<Digest> pieces;
    std::vector<float> piece;
    for (std::int64_t at = 0; at < size; at += ask.piece) {
      piece.clear();
      append(*moments_, {at, std::min(ask.piece, size - at)}, piece);
      pieces.push_back(digest_of(std::span<const float>(piece)));
    }
    moments_digest_ = {ask.piece, digest_of_moments(pieces)};
  }
  if (moments_digest_ && moments_digest_->piece == ask.piece) {
    answer.digests = {moments_digest_->digest};
  }
}

}  // namespace shoal::outer_opt
