#include "coordinator/service/otlp/spans.h"

#include <algorithm>

#include "base/digest.h"
#include "base/enumerators.h"

namespace shoal::coordinator::otlp {
namespace {

bool has_ended(RoundState state) {
  return state == RoundState::kCommitted || state == RoundState::kAborted;
}

bool has_ended(CheckpointState state) {
  return state != CheckpointState::kWriting && state != CheckpointState::kUploading;
}

void add(Span& span, const char* name, Value value) {
  span.attributes.emplace_back(name, std::move(value));
}

Attributes names_of(const RoundKey& key) {
  return {{"shoal.job", to_string(key.job)},
          {"shoal.epoch", key.epoch},
          {"shoal.round", static_cast<std::int64_t>(key.round)}};
}

}  // namespace

std::vector<Span> SpanMaker::from(Instant now, const Record& record) {
  if (const auto* round = std::get_if<RoundRecord>(&record)) return from_round(now, *round);
  if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record))
    return from_checkpoint(*checkpoint);
  return {};
}

Digest SpanMaker::trace_of(const RoundKey& key) const {
  return Digester().add(cluster_).add(key.job.n).add(key.epoch).add(key.round).finish();
}

// Never 0, which means none.
std::uint64_t SpanMaker::id_of(const RoundKey& key, std::string_view name,
                               std::int64_t number) const {
  return Digester().add(trace_of(key)).add(name).add(number).finish().low | 1;
}

std::vector<Span> SpanMaker::from_round(Instant now, const RoundRecord& round) {
  Seen* seen = rounds_.find(round.key);
  if (!has_ended(round.state)) {
    if (seen == nullptr) seen = &rounds_.put(round.key, {});
    if (round.state != RoundState::kVoting) seen->voting_at = {};
    if (round.state == RoundState::kVoting && seen->voting_at == Instant()) seen->voting_at = now;
    return {};
  }
  if (seen == nullptr) return {};  // it ended before: its evaluation came
  const bool committed = round.state == RoundState::kCommitted;
  const Instant end = committed ? round.committed_at : now;
  // Votes are seen when they are durable, which may be after the time of the commit.
  const Instant voting_at = std::min(seen->voting_at, end);
  rounds_.erase(round.key);
  const Digest trace = trace_of(round.key);
  const std::uint64_t root = id_of(round.key, "round", 0);
  Span whole{trace, root, 0, "round", round.opened_at, end, names_of(round.key)};
  add(whole, "shoal.tokens", round.tokens.count());
  add(whole, "shoal.steps", (round.to_step - round.from_step).count());
  add(whole, "shoal.aborts", static_cast<std::int64_t>(round.aborts));
  add(whole, "shoal.train_loss", round.train_loss);
  add(whole, "shoal.outer_lr", round.outer_lr);
  if (!committed) whole.error = to_string(round.abort_reason);
  std::vector<Span> spans{std::move(whole)};
  const auto child = [&](const char* name, std::int64_t number, Instant begin, Instant until) {
    if (begin == Instant() || until < begin) return static_cast<Span*>(nullptr);
    spans.push_back(
        {trace, id_of(round.key, name, number), root, name, begin, until, names_of(round.key)});
    return &spans.back();
  };
  child("train", 0, round.opened_at, round.frozen_at == Instant() ? end : round.frozen_at);
  for (std::size_t i = 0; i < round.reduces.size(); ++i) {
    const Reduce& reduce = round.reduces[i];
    const Instant until = std::max(reduce.attempt_started_at, voting_at);
    Span* span = child("reduce", static_cast<std::int64_t>(i), reduce.attempt_started_at,
                       voting_at == Instant() ? end : until);
    if (span == nullptr) continue;
    add(*span, "shoal.reduce", static_cast<std::int64_t>(i));
    add(*span, "shoal.attempt", static_cast<std::int64_t>(reduce.attempt));
    if (reduce.given_up) span->error = "given up";
  }
  child("vote", 0, voting_at, end);
  return spans;
}

std::vector<Span> SpanMaker::from_checkpoint(const CheckpointRecord& checkpoint) {
  const bool known = checkpoints_.find(checkpoint.id) != nullptr;
  if (!has_ended(checkpoint.state)) {
    if (!known) checkpoints_.put(checkpoint.id, true);
    return {};
  }
  if (!known) return {};
  checkpoints_.erase(checkpoint.id);
  Bytes size;
  for (const FileEntry& file : all_files(checkpoint)) size += file.size;
  Span span{trace_of(checkpoint.key),
            id_of(checkpoint.key, "checkpoint", static_cast<std::int64_t>(checkpoint.id.n)),
            id_of(checkpoint.key, "round", 0),
            "checkpoint",
            checkpoint.created_at,
            checkpoint.updated_at,
            names_of(checkpoint.key)};
  add(span, "shoal.checkpoint", to_string(checkpoint.id));
  add(span, "shoal.bytes", size.count());
  add(span, "shoal.final", checkpoint.final);
  if (checkpoint.state == CheckpointState::kFailed) span.error = checkpoint.detail;
  return {std::move(span)};
}

}  // namespace shoal::coordinator::otlp
