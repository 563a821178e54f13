// See join_session.h. The asks that are on their way and the sources are in this file; what answers
// do to the runs is in join_runs.cc.
#include "outer_opt/core/joining/join_session.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shoal::outer_opt {
namespace {

constexpr Duration kMeasureOver = milliseconds(500);
constexpr int kSilencesMax = 6;  // a silent source rests for up to 128 times its limit

std::size_t pieces(std::int64_t values, std::int64_t run) {
  return static_cast<std::size_t>((values + run - 1) / run);
}

}  // namespace

JoinSession::JoinSession(const RoundKey& wanted, JoinShape shape, std::vector<PeerAddress> sources,
                         JoinTarget& target, const JoinOptions& options, std::uint64_t seed,
                         Instant now)
    : key_(wanted),
      shape_(std::move(shape)),
      options_(options),
      target_(target),
      prng_(seed),
      whole_{{0, shape_.values}},
      runs_(pieces(shape_.values, options.run_values)),
      moments_(shape_.open_moments ? 1 : pieces(shape_.moments, options.run_values)),
      newest_(wanted.round),
      aimed_(wanted.round),
      moved_at_(now),
      confirmed_at_(now) {
  set_sources(sources, now);
}

void JoinSession::set_sources(const std::vector<PeerAddress>& sources, Instant now) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].left = std::ranges::count(sources, sources_[i].is) == 0;
    if (sources_[i].left) leave_alone(i);
  }
  for (const PeerAddress& source : sources) {
    if (std::ranges::count(sources_, source, &Source::is) > 0) continue;
    Source fresh{source, Backoff(options_.retry_first, options_.retry_cap)};
    fresh.heard_at = fresh.measured_from = now;
    sources_.push_back(std::move(fresh));
    moved_at_ = now;  // somebody new is worth being waited for
  }
}

void JoinSession::aim(RoundNumber round) {
  aimed_ = std::max(aimed_, round);
  if (round <= newest_) return;
  newest_ = round;
  if (state_ != State::kLevel) return;
  if (shape_.mode == JoinMode::kAnyRound) return;
  if (shape_.mode == JoinMode::kThisRound) begin_anew();
  state_ = State::kLoading;
}

RoundNumber JoinSession::round() const {
  if (shape_.mode == JoinMode::kAnyRound) return newest_;
  return runs_.empty() ? newest_ : runs_.front().round;
}

// ---- what to ask

bool JoinSession::usable(const Source& source, Instant now) const {
  return !source.bad && !source.left && now >= source.rests_until;
}

bool JoinSession::has_others(std::size_t source, Instant now) const {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (i != source && usable(sources_[i], now)) return true;
  }
  return false;
}

JoinSession::Next JoinSession::next(Instant now) {
  Next next;
  if (state_ == State::kGivenUp) return next;
  next.cancel = overdue(now);
  forget_unconfirmed(now);
  forget_stranded();
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    while (usable(source, now) && source.in_flight < source.window) {
      auto chosen = choose(i);
      if (!chosen) break;
      send(std::move(*chosen), now, next);
    }
  }
  settle(now);
  if (auto probe = ask_for_news(now)) send(std::move(*probe), now, next);
  return next;
}

void JoinSession::send(Pending pending, Instant now, Next& next) {
  Source& source = sources_[pending.source];
  pending.asked_at = now;
  pending.epoch = epoch_of(pending.ask.kind);
  pending.ask.stays = options_.stays;
  ++source.in_flight;
  next.send.push_back({next_id_, source.is, pending.ask});
  pending_.emplace(next_id_++, std::move(pending));
}

// While the last runs are slow to arrive, the others keep following. A joiner that does not ask
// hears nothing of new rounds, and sources keep only a bounded number of old ones.
std::optional<JoinSession::Pending> JoinSession::ask_for_news(Instant now) {
  if (state_ != State::kLoading || shape_.mode != JoinMode::kFollows) return std::nullopt;
  const bool lacks =
      !std::ranges::all_of(runs_, &Run::here) || !std::ranges::all_of(moments_, &Run::here);
  if (!lacks) return std::nullopt;
  const auto rests = [](const Run& run) { return run.here && !run.busy; };
  const auto run = std::ranges::find_if(runs_, rests);
  if (run == runs_.end()) return std::nullopt;
  const auto source = std::ranges::find_if(
      sources_, [&](const Source& s) { return usable(s, now) && s.in_flight == 0; });
  if (source == sources_.end()) return std::nullopt;
  return follow_from(static_cast<std::size_t>(source - sources_.begin()),
                     static_cast<std::size_t>(run - runs_.begin()), 1);
}

std::optional<JoinSession::Pending> JoinSession::choose(std::size_t source) {
  if (shape_.mode == JoinMode::kFollows) {
    if (auto pending = follow_some(source)) return pending;
    if (auto pending = compare_some(source)) return pending;
  } else if (only_.value_or(source) != source) {
    return std::nullopt;
  }
  if (auto pending = fetch_one(source)) return pending;
  return fetch_moments(source);
}

ValueRange JoinSession::range_of(std::size_t first, std::size_t count) const {
  const auto begin = static_cast<std::int64_t>(first) * options_.run_values;
  const auto end = static_cast<std::int64_t>(first + count) * options_.run_values;
  return {begin, std::min(end, shape_.values) - begin};
}

// Neighbors of one round that is behind the newest.
std::optional<JoinSession::Pending> JoinSession::follow_some(std::size_t source) {
  const RoundNumber gone_to = sources_[source].gone_to;
  const auto waits = [&](const Run& run) {
    return run.here && !run.busy && run.round < newest_ && run.round > gone_to;
  };
  const auto begin = std::ranges::find_if(runs_, waits);
  if (begin == runs_.end()) return std::nullopt;
  auto end = begin;
  while (end != runs_.end() && end - begin < options_.follow_runs && waits(*end) &&
         end->round == begin->round) {
    ++end;
  }
  return follow_from(source, static_cast<std::size_t>(begin - runs_.begin()),
                     static_cast<std::size_t>(end - begin));
}

JoinSession::Pending JoinSession::follow_from(std::size_t source, std::size_t first,
                                              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) runs_[first + i].busy = true;
  Pending pending;
  pending.source = source;
  pending.first = first;
  pending.count = count;
  pending.ask = {sources_[source].is.replica, key_, AskKind::kAverages, range_of(first, count)};
  pending.ask.key.round = runs_[first].round;
  return pending;
}

std::optional<JoinSession::Pending> JoinSession::fetch_one(std::size_t source) {
  const bool pins = shape_.mode != JoinMode::kFollows;
  const bool first_of_pin = pins && pinned_round_ < 0;
  if (first_of_pin && only_) return std::nullopt;  // its answer says which round it is
  const auto missing = [&](const Run& run) {
    return !run.here && !run.busy && run.only_from.value_or(source) == source;
  };
  const auto run = std::ranges::find_if(runs_, missing);
  if (run == runs_.end()) return std::nullopt;
  run->busy = true;
  if (pins) only_ = source;
  Pending pending;
  pending.source = source;
  pending.first = static_cast<std::size_t>(run - runs_.begin());
  pending.count = 1;
  pending.ask = {sources_[source].is.replica, key_, AskKind::kState, range_of(pending.first, 1),
                 pins};
  if (pins) pending.ask.key.round = pinned_round_;
  return pending;
}

// Moments are asked for after the state, so that they are as new as possible. All come from one
// copy of one source; the first answer says which.
std::optional<JoinSession::Pending> JoinSession::fetch_moments(std::size_t source) {
  const bool loaded = std::ranges::all_of(runs_, &Run::here);
  if (!loaded || moments_.empty() || moments_from_.value_or(source) != source) return std::nullopt;
  if (moments_from_ && adam_step_ == 0) return std::nullopt;
  if (sources_[source].without_moments) return std::nullopt;
  const auto run = std::ranges::find_if(moments_, [](const Run& r) { return !r.here && !r.busy; });
  if (run == moments_.end()) return std::nullopt;
  run->busy = true;
  moments_from_ = source;
  Pending pending;
  pending.source = source;
  pending.first = static_cast<std::size_t>(run - moments_.begin());
  pending.count = 1;
  const auto begin = static_cast<std::int64_t>(pending.first) * options_.run_values;
  const auto rest = shape_.open_moments ? options_.run_values : shape_.moments - begin;
  const ValueRange range{begin, std::min(options_.run_values, rest)};
  pending.ask = {sources_[source].is.replica, key_, AskKind::kMoments, range, false, adam_step_,
                 options_.run_values};
  return pending;
}

// Runs that no source can advance count as missing again.
void JoinSession::forget_stranded() {
  if (shape_.mode != JoinMode::kFollows) return;
  for (Run& run : runs_) {
    if (!run.here || run.busy || run.round >= newest_ || anybody_follows(run.round)) continue;
    run.here = false;
  }
}

bool JoinSession::anybody_follows(RoundNumber round) const {
  bool anybody = false;
  for (const Source& source : sources_) {
    if (source.bad || source.left || source.silences > 0) continue;
    if (round > source.gone_to) return true;
    anybody = true;
  }
  return !anybody;  // nobody answers at all: that says nothing
}

// ---- what comes back

void JoinSession::answered(AskId id, const StateAnswer& answer, Instant now) {
  const auto found = pending_.extract(id);
  if (found.empty()) return;  // given up before
  const Pending& pending = found.mapped();
  release(pending);
  Source& source = sources_[pending.source];
  source.heard_at = now;
  source.said = std::max(source.said, answer.held);
  if (source.bad || pending.epoch != epoch_of(pending.ask.kind)) return;
  if (answer.refusal != StateRefusal::kNone) return refuse(pending, answer, now);
  source.backoff.reset();
  source.silences = 0;
  newest_ = std::max(newest_, answer.held);
  moved_at_ = now;
  switch (pending.ask.kind) {
    case AskKind::kState:
      take_state(pending, answer);
      break;
    case AskKind::kAverages:
      take_averages(pending, answer);
      break;
    case AskKind::kMoments:
      take_moments(pending, answer);
      break;
    case AskKind::kDigests:
      take_digests(pending, answer);
      break;
  }
  received_ += Bytes(static_cast<std::int64_t>(size_of(answer)));
  measure(source, pending.asked_at, size_of(answer), now);
  settle(now);
}

void JoinSession::refuse(const Pending& pending, const StateAnswer& answer, Instant now) {
  Source& source = sources_[pending.source];
  source.rests_until = now + source.backoff.next(prng_);
  switch (answer.refusal) {
    case StateRefusal::kNone:
      return;
    case StateRefusal::kNotHere:
      last_error_ = {Code::kNotFound, to_string(source.is.replica) + " has no state to give", "",
                     ""};
      return leave_alone(pending.source);
    case StateRefusal::kNotYet:
      moved_at_ = now;  // it lives, and is waited for
      return;
    case StateRefusal::kGone:
      moved_at_ = now;
      source.rests_until = now;
      if (pending.ask.kind == AskKind::kMoments) return forget_moments();
      if (pending.ask.kind == AskKind::kState) return begin_anew();
      newest_ = std::max(newest_, answer.held);
      if (pending.ask.kind == AskKind::kDigests) return;  // they follow, and are compared then
      source.gone_to = std::max(source.gone_to, pending.ask.key.round);
      return;
    case StateRefusal::kNever:
      moved_at_ = now;
      source.rests_until = now;
      source.without_moments = true;
      forget_moments();
      return settle(now);
  }
}

void JoinSession::failed(AskId id, const Error& error, Instant now) {
  const auto found = pending_.extract(id);
  if (found.empty()) return;
  const Pending& pending = found.mapped();
  release(pending);
  Source& source = sources_[pending.source];
  last_error_ = error;
  if (error.code == Code::kDataLoss) return complain(pending.source, error.message);
  source.window = 1;
  const bool silent = error.code == Code::kDeadlineExceeded && has_others(pending.source, now);
  if (silent) source.silences = std::min(source.silences + 1, kSilencesMax);
  source.rests_until =
      now + (silent ? options_.silent * (2 << source.silences) : source.backoff.next(prng_));
  const bool gone = now - source.heard_at >= options_.silent_alone;
  if (gone && has_others(pending.source, now)) leave_alone(pending.source);
}

void JoinSession::release(const Pending& pending) {
  --sources_[pending.source].in_flight;
  std::vector<Run>& runs = pending.ask.kind == AskKind::kMoments ? moments_ : runs_;
  for (std::size_t i = 0; i < pending.count; ++i) runs[pending.first + i].busy = false;
}

// What only this source could continue with starts over at another one.
void JoinSession::leave_alone(std::size_t source) {
  if (only_ == source) begin_anew();
  if (moments_from_ == source) forget_moments();
  if (witness_ == source) forget_witness();
}

void JoinSession::complain(std::size_t source, const std::string& what) {
  if (std::exchange(sources_[source].bad, true)) return;
  complaints_.push_back(to_string(sources_[source].is.replica) + " at " +
                        sources_[source].is.address + " is not asked any more: " + what);
  last_error_ = {Code::kDataLoss, complaints_.back(), "", ""};
  leave_alone(source);
}

// So many asks as fill what the source answers in Options::ahead, and its line meanwhile.
void JoinSession::measure(Source& source, Instant asked_at, std::size_t bytes, Instant now) {
  const Duration took = now - asked_at;
  if (source.fastest.ns < 0 || took < source.fastest) source.fastest = took;
  source.measured += Bytes(static_cast<std::int64_t>(bytes));
  const Duration over = now - source.measured_from;
  if (over < kMeasureOver) return;
  const double rate = static_cast<double>(source.measured.count()) / over.seconds();
  const double one = static_cast<double>(options_.run_values * shape_.vectors) * sizeof(float);
  const double ahead = rate * (options_.ahead + source.fastest).seconds() / one;
  source.window =
      std::clamp<std::size_t>(1 + static_cast<std::size_t>(ahead), 1, options_.asks_max);
  source.measured = {};
  source.measured_from = now;
}

// ---- time

std::vector<JoinSession::AskId> JoinSession::overdue(Instant now) {
  std::vector<AskId> late;
  for (const auto& [id, pending] : pending_) {
    const bool others = has_others(pending.source, now);
    const Duration limit = others ? options_.silent : options_.silent_alone;
    const Source& source = sources_[pending.source];
    const Instant since = std::max(source.heard_at, pending.asked_at);
    if (source.left || now - since >= limit) late.push_back(id);
  }
  for (const AskId id : late) {
    failed(id, {Code::kDeadlineExceeded, "the source sent nothing more", "", ""}, now);
  }
  return late;
}

std::optional<Instant> JoinSession::wakeup_at(Instant now) const {
  if (state_ == State::kGivenUp) return std::nullopt;
  std::optional<Instant> at;
  const auto look = [&](Instant when) { at = std::min(when, at.value_or(when)); };
  for (const Source& source : sources_) {
    if (source.bad || source.left) continue;
    if (source.rests_until > now) look(source.rests_until);
  }
  for (const auto& [id, pending] : pending_) {
    look(std::max(sources_[pending.source].heard_at, pending.asked_at) + options_.silent);
  }
  if (pending_.empty() && state_ == State::kLoading) look(moved_at_ + options_.broken);
  return at;
}

void JoinSession::settle(Instant now) {
  if (state_ != State::kLoading) return;
  go_without_moments();
  const auto level = [&](const Run& run) {
    return run.here && (shape_.mode != JoinMode::kFollows || run.round == newest_);
  };
  const bool at_newest = shape_.mode != JoinMode::kThisRound || pinned_round_ >= newest_;
  if (std::ranges::all_of(runs_, level) && std::ranges::all_of(moments_, &Run::here) &&
      !is_comparing()) {
    at_newest ? be_level() : begin_anew();
    return;
  }
  if (!pending_.empty()) return;
  if (std::ranges::all_of(sources_, &Source::left)) {
    state_ = State::kGivenUp;
    error_ = {Code::kUnavailable, "no replica has the state any more", "", ""};
    return;
  }
  if (now - moved_at_ < options_.broken) return;
  if (witness_) {  // who was compared with does not answer: others may
    moved_at_ = now;
    return forget_witness();
  }
  state_ = State::kGivenUp;
  error_ = last_error_;
  if (error_.message.empty()) error_ = {Code::kUnavailable, "no source is left", "", ""};
}

// Nobody waits for news that were asked for meanwhile.
void JoinSession::be_level() {
  for (const auto& [id, pending] : pending_) release(pending);
  pending_.clear();
  state_ = State::kLevel;
}

}  // namespace shoal::outer_opt
