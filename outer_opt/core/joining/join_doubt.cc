// What a joiner doubts (join_session.h): a round that only one source claims to hold, and bytes
// that lead to another state than the committed one.
//
// To find the runs that are wrong, and who gave them, it compares the digests of its runs with
// those of one other source, a witness, at the same round, and takes what differs from the witness.
// The committed digests then tell whether the state is right. A source is named only when the state
// is right and the right bytes of that round differ from those that the source gave. A lying
// witness gains nothing: the state stays wrong, or the disputed runs turn out to be unchanged.
#include <algorithm>
#include <bit>

#include "outer_opt/core/joining/join_session.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kNamedSources = 63;

// The source whose bit is the only one set.
std::optional<std::size_t> only_giver(std::uint64_t givers) {
  if (std::popcount(givers) != 1) return std::nullopt;
  const auto giver = static_cast<std::size_t>(std::countr_zero(givers));
  return giver < kNamedSources ? std::optional(giver) : std::nullopt;
}

}  // namespace

// A round counts as confirmed when another source or the coordinator named it, or averages led to
// it.
void JoinSession::forget_unconfirmed(Instant now) {
  RoundNumber confirmed = std::max(aimed_, followed_);
  bool others_answer = false;
  std::optional<std::size_t> claimant;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.bad) continue;
    if (source.said == newest_ && !claimant) {
      claimant = i;
      continue;
    }
    confirmed = std::max(confirmed, source.said);
    others_answer = others_answer || (!source.left && source.heard_at > confirmed_at_);
  }
  if (!claimant || confirmed >= newest_ || shape_.mode != JoinMode::kFollows) confirmed_at_ = now;
  if (!others_answer || now - confirmed_at_ < options_.unconfirmed) return;
  Source& source = sources_[*claimant];
  if (now - source.heard_at < options_.silent) {
    complain(*claimant, "it says that it holds round " + std::to_string(newest_) +
                            ", and the others do not come to that");
  }
  source.said = -1;
  newest_ = confirmed;
  confirmed_at_ = now;
  for (Run& run : runs_) run.here = run.here && run.round <= newest_;
}

bool JoinSession::doubt(Instant now) {
  if (state_ != State::kLevel || shape_.mode != JoinMode::kFollows) return false;
  witness_ = next_witness(now);
  if (!witness_) return false;
  sources_[*witness_].compared = true;
  compared_ = 0;
  moved_at_ = now;
  state_ = State::kLoading;
  return true;
}

// The source that gave the fewest of the present runs, so that it is hardly compared with itself.
std::optional<std::size_t> JoinSession::next_witness(Instant now) const {
  std::optional<std::size_t> best;
  std::ptrdiff_t least = std::ssize(runs_);
  for (std::size_t i = 0; i < std::min(sources_.size(), kNamedSources); ++i) {
    if (!usable(sources_[i], now) || sources_[i].compared) continue;
    const std::uint64_t own = std::uint64_t{1} << i;
    const auto gave = std::ranges::count_if(runs_, [&](const Run& r) { return r.givers == own; });
    if (gave < least) best = i, least = gave;
  }
  return best;
}

// Compares runs that are at the newest round; the others follow first.
std::optional<JoinSession::Pending> JoinSession::compare_some(std::size_t source) {
  if (witness_ != source || !is_comparing()) return std::nullopt;
  const auto ready = [&](const Run& run) { return run.here && !run.busy && run.round == newest_; };
  std::size_t end = compared_;
  const std::size_t most = std::min(runs_.size(), compared_ + kPiecesMax);
  while (end < most && ready(runs_[end])) ++end;
  if (end == compared_) return std::nullopt;
  Pending pending;
  pending.source = source;
  pending.first = compared_;
  pending.count = end - compared_;
  for (std::size_t i = compared_; i < end; ++i) runs_[i].busy = true;
  pending.ask = {sources_[source].is.replica, key_, AskKind::kDigests,
                 range_of(pending.first, pending.count)};
  pending.ask.key.round = newest_;
  pending.ask.piece = options_.run_values;
  return pending;
}

void JoinSession::take_digests(const Pending& pending, const StateAnswer& answer) {
  if (answer.digests.size() != pending.count || answer.held != pending.ask.key.round) {
    return complain(pending.source, "its digests are not of the runs that were asked for");
  }
  if (witness_ != pending.source) return;
  for (std::size_t i = 0; i < pending.count; ++i) {
    const std::size_t run = pending.first + i;
    if (answer.digests[i] != target_.digest_of(range_of(run, 1))) suspect(run);
  }
  compared_ = pending.first + pending.count;
}

void JoinSession::suspect(std::size_t index) {
  Run& run = runs_[index];
  const auto giver = only_giver(run.givers);
  if (giver) {
    suspicions_.push_back({index, *giver, run.round, target_.digest_of(range_of(index, 1))});
  }
  run.here = false;
  run.only_from = witness_;
}

// What it was to give is taken from anybody.
void JoinSession::forget_witness() {
  for (Run& run : runs_) run.only_from.reset();
  witness_.reset();
}

std::vector<ReplicaId> JoinSession::found_liars() {
  std::vector<ReplicaId> liars;
  for (const Suspicion& suspicion : suspicions_) {
    const Run& run = runs_[suspicion.run];
    const bool proven = run.fetched_round == suspicion.round && run.fetched != suspicion.bytes;
    if (!proven || sources_[suspicion.giver].bad) continue;
    complain(suspicion.giver, "it gave other bytes than those of the committed state");
    liars.push_back(sources_[suspicion.giver].is.replica);
  }
  suspicions_.clear();
  forget_witness();
  for (Source& source : sources_) source.compared = false;
  return liars;
}

}  // namespace shoal::outer_opt
