// Converts between the flat table of a job file and the method that it means. If keys contradict
// each other, the parser takes one; sync_rules.cc finds and refuses the other.
#include "job/sync_spec.h"

#include "job/sync_questions.h"

namespace shoal {
namespace {

using namespace sync_questions;

// ---- from the table to the method

DenseReduce parse_dense(const JobOptions& o) {
  DenseReduce reduce;
  const bool served = o.sync.topology == Topology::kParamServer && !is_async(o);
  if (has_part_owners(o) || is_ring(o) || served) reduce.topology = o.sync.topology;
  if (!is_sparse(o)) reduce.codec = o.sync.codec;
  if (!is_ring(o)) reduce.aggregator = o.sync.aggregator;
  return reduce;
}

Reduce parse_reduce(const JobOptions& o) {
  if (is_sparse(o)) return {SparseReduce{o.sync.feedback}, o.sync.clip};
  return {parse_dense(o), o.sync.clip};
}

Period parse_period(const JobOptions& o) {
  if (in_pipeline(o)) return BySteps{o.sync.every, Balance::kEqual};
  if (o.sync.every_s != 0) return ByTime{o.sync.every_s, o.train.steps};
  return BySteps{o.sync.every, o.sync.balance};
}

std::optional<Overlap> parse_overlap(const JobOptions& o) {
  if (waits(o)) return std::nullopt;
  if (is_eager(o) && !is_robust(o) && !is_sharded(o)) {
    return Overlap{o.sync.overlap_steps, Eager{}};
  }
  return Overlap{o.sync.overlap_steps, Blend{o.sync.blend}};
}

Rounds parse_rounds(const JobOptions& o) {
  const bool streams = o.sync.fragments != 1 || !waits(o);
  if (!streams || in_pipeline(o) || is_uneven(o) || is_sparse(o)) {
    return PlainRounds{parse_period(o), parse_reduce(o)};
  }
  return StreamedRounds{o.sync.every, o.sync.fragments, parse_overlap(o), parse_dense(o),
                        o.sync.clip};
}

double parse_audit(const JobOptions& o) { return makes_no_audits(o) ? kAuditUsual : o.sync.audit; }

DilocoSync parse_diloco(const JobOptions& o) {
  const bool shards = is_sharded(o) && !has_no_momentum(o) && has_part_owners(o) && !is_sparse(o) &&
                      !has_fragments(o);
  return {parse_rounds(o), o.sync.outer, shards ? OuterState::kSharded : OuterState::kReplicated,
          parse_audit(o)};
}

GroupsSync parse_groups(const JobOptions& o) {
  GroupsSync sync{o.sync.topology, o.sync.every, o.sync.clip, o.sync.outer};
  if (is_only_averaged(o)) sync.outer.reset();
  return sync;
}

// ---- and back

constexpr OuterSpec kOnlyAverages{1, 0};

// Each put() writes what its part holds into the flat form.
struct Flat {
  SyncOptions options;

  void put(const DenseReduce& reduce) {
    options.topology = reduce.topology;
    options.codec = reduce.codec;
    options.aggregator = reduce.aggregator;
  }
  void put(const SparseReduce& reduce) {
    options.topology = Topology::kAllgather;
    options.codec = CodecKind::kSparse2;
    options.feedback = reduce.feedback;
  }
  void put(const Reduce& reduce) {
    put_one_of(reduce.values);
    options.clip = reduce.clip;
  }
  void put(const BySteps& period) {
    options.every = period.every;
    options.balance = period.balance;
  }
  void put(const ByTime& period) {
    options.every = period.at_most;
    options.every_s = period.seconds;
  }
  void put(const Blend& blend) { options.blend = blend.kept; }
  void put(const Eager&) { options.eager = true; }
  void put(const PlainRounds& rounds) {
    put_one_of(rounds.period);
    put(rounds.reduce);
  }
  void put(const StreamedRounds& rounds) {
    options.every = rounds.every;
    options.fragments = rounds.fragments;
    if (rounds.overlap) {
      options.overlap_steps = rounds.overlap->steps;
      put_one_of(rounds.overlap->adoption);
    }
    put(Reduce{rounds.reduce, rounds.clip});
  }

  void put(const DilocoSync& sync) {
    options.algorithm = SyncAlgorithm::kDiloco;
    put_one_of(sync.rounds);
    options.outer = sync.outer;
    options.outer_state = sync.outer_state;
    options.audit = sync.audit;
  }
  void put(const LocalSgdSync& sync) {
    options.algorithm = SyncAlgorithm::kLocalSgd;
    put_one_of(sync.rounds);
    options.audit = sync.audit;
    options.outer = kOnlyAverages;
  }
  void put(const DdpSync& sync) {
    options.algorithm = SyncAlgorithm::kDdp;
    options.every = Steps(1);
    put(sync.reduce);
    options.outer = kOnlyAverages;
  }
  void put(const AsyncSync& sync) {
    options.algorithm = SyncAlgorithm::kAsync;
    options.every = sync.every;
    options.quorum = sync.quorum;
    put(Reduce{sync.reduce, sync.clip});
    options.outer = sync.outer;
  }
  void put(const GroupsSync& sync) {
    options.algorithm = sync.outer ? SyncAlgorithm::kDiloco : SyncAlgorithm::kLocalSgd;
    options.topology = sync.topology;
    options.codec = CodecKind::kFp32;
    options.every = sync.every;
    options.clip = sync.clip;
    options.outer = sync.outer.value_or(kOnlyAverages);
  }
  void put(const NoSync& sync) {
    options.algorithm = SyncAlgorithm::kNone;
    put_one_of(sync.period);
  }

  template <typename... Parts>
  void put_one_of(const std::variant<Parts...>& parts) {
    std::visit([this](const auto& part) { this->put(part); }, parts);
  }
};

}  // namespace

SyncSpec parse_sync(const JobOptions& o) {
  if (in_groups(o)) return {parse_groups(o)};
  switch (o.sync.algorithm) {
    case SyncAlgorithm::kNone:
      return {NoSync{parse_period(o)}};
    case SyncAlgorithm::kLocalSgd:
      return {LocalSgdSync{parse_rounds(o), parse_audit(o)}};
    case SyncAlgorithm::kDdp:
      return {DdpSync{parse_reduce(o)}};
    case SyncAlgorithm::kAsync:
      return {AsyncSync{o.sync.every, o.sync.quorum, parse_dense(o), o.sync.clip, o.sync.outer}};
    case SyncAlgorithm::kDiloco:
      break;
  }
  return {parse_diloco(o)};
}

SyncOptions SyncSpec::options() const {
  Flat flat;
  flat.put_one_of(method);
  return flat.options;
}

double SyncSpec::audit() const {
  JobOptions flat;
  flat.sync = options();
  return sync_questions::makes_no_audits(flat) ? 0 : flat.sync.audit;
}

}  // namespace shoal
