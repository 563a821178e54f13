// For the tests of the store: a folder that goes away, random records of every kind, and waiting
// for a write.
#pragma once

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include <stdlib.h>

#include "base/check.h"
#include "base/prng.h"
#include "coordinator/core/records/records.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "shoal-store-XXXXXX").string();
    SHOAL_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Status write_and_wait(Store& store, std::vector<Record> records) {
  std::promise<Status> written;
  store.write(std::move(records), [&](Status status) { written.set_value(status); });
  return written.get_future().get();
}

// Values of every kind, drawn from a seed; awkward ones (extremes, quotes, line breaks) are
// frequent.
class RandomRecords {
 public:
  explicit RandomRecords(std::uint64_t seed) : prng_(seed) {}

  CounterRecord counters() {
    return {positive(), positive(), positive(), positive(),
            integer(),  integer(),  positive(), instant()};
  }

  JobRecord job(std::uint64_t id) {
    JobRecord r;
    r.id = JobId(id);
    r.spec.name = "job-" + std::to_string(id);
    r.spec.data.train = "/data/\xC3\xA4 \"quoted\".txt";
    r.spec.train.lr = prng_.unit() + 1e-6;
    r.spec.train.min_lr = r.spec.train.lr / 3;
    r.spec.train.seed = positive();
    r.spec = with_derived_fields(r.spec);
    r.phase = word<JobPhase>();
    r.desired = word<JobDesired>();
    r.reason = word<JobReason>();
    r.detail = text();
    r.created_at = instant(), r.updated_at = instant();
    r.started_at = instant(), r.finished_at = instant();
    r.outer_lr = real();
    r.lineage = integer();
    r.committed_round = integer();
    r.committed_at = instant();
    r.committed_step = Steps(integer());
    r.committed_tokens = Tokens(integer());
    for (int i = small() % 4; i > 0; --i) {
      r.stages.push_back(
          {{small(), small()}, integer(), digest(), digest(), {integer(), integer()}});
    }
    r.view = integer();
    r.routers = integer();
    r.next_sequence = integer();
    r.returned = leases();
    r.data = digest(), r.rollback_at = instant();
    r.train_loss = real(), r.validation_loss = real();
    r.validation_round = integer();
    r.bytes_sent = Bytes(integer());
    r.failures_in_row = small();
    r.balance_at = instant();
    r.balance_confirmed = small();
    return r;
  }

  AgentRecord agent(std::uint64_t id) {
    AgentRecord r;
    r.id = AgentId(id);
    r.uid = text(), r.name = text(), r.version = text(), r.host = text();
    r.incarnation = {positive()};
    r.state = word<AgentState>();
    r.gone = word<AgentGone>();
    r.cordoned = prng_.chance(0.5);
    for (int i = small() % 3; i >= 0; --i) {
      r.devices.push_back(
          {small(), word<DeviceKind>(), text(), Bytes(integer()), real(), prng_.chance(0.5)});
      r.labels.emplace_back(text(), text());
    }
    r.joined_at = instant(), r.updated_at = instant();
    r.standing = {small(), instant(), word<RejectReason>(), small(), instant()};
    for (int i = small() % 3; i > 0; --i) {
      r.refusals.push_back({small(), Bytes(integer()), instant()});
    }
    r.attendance = {instant(), integer(), small()};
    return r;
  }

  ReplicaRecord replica(std::uint64_t id) {
    ReplicaRecord r;
    r.id = ReplicaId(id);
    r.job = JobId(positive()), r.agent = AgentId(positive());
    r.incarnation = {positive()};
    r.device = small(), r.stage = small();
    r.state = word<ReplicaState>();
    r.failure = word<ReplicaFailure>();
    r.detail = text();
    r.source = {word<SourceKind>(),       key(),    text(),  ReplicaId(positive()),
                CheckpointId(positive()), digest(), digest()};
    r.address = text();
    r.lineage = integer(), r.held_round = integer();
    r.anchor = digest(), r.momentum = digest();
    r.store = positive(), r.absent_since = instant();
    r.created_at = instant(), r.updated_at = instant();
    return r;
  }

  RoundRecord round(const RoundKey& key) {
    RoundRecord r;
    r.key = key;
    r.state = word<RoundState>();
    for (int i = small() % 4; i >= 0; --i) {
      r.stages.push_back({small(),
                          instant(),
                          digest(),
                          digest(),
                          digest(),
                          {word<Topology>(), word<outer_opt::TopologyReason>()},
                          integer(),
                          prng_.chance(0.5),
                          {{ReplicaId(positive()), text(), integer(), integer()}},
                          prng_.chance(0.5),
                          digest(),
                          digest()});
    }
    r.aborts = small();
    r.abort_reason = word<AbortReason>();
    r.from_step = Steps(integer()), r.to_step = Steps(integer());
    r.opened_at = instant(), r.sealed_at = instant(), r.committed_at = instant();
    r.tokens = Tokens(integer());
    r.train_loss = real(), r.validation_loss = real();
    r.validation_tokens = Tokens(integer());
    r.validation_sum = real();
    r.eval_slices = small();
    r.outer_lr = real();
    r.share = real();
    r.carried_steps = integer();
    r.job_tokens = Tokens(integer());
    return r;
  }

  ContributionRecord contribution(const RoundKey& round_key, std::uint64_t replica) {
    ContributionRecord r;
    r.key = round_key;
    r.replica = ReplicaId(replica), r.agent = AgentId(positive());
    r.stage = small(), r.group = small();
    r.reducer = prng_.chance(0.5);
    r.state = word<ContributionState>();
    r.reject_reason = word<RejectReason>();
    r.leases = leases();
    r.report = {key(),  Tokens(integer()), Steps(integer()), real(), real(), real(), integer(),
                real(), Tokens(integer()), real(),           {}};
    r.report.skipped = Steps(integer());
    r.reported_at = instant(), r.voted_at = instant(), r.applied_at = instant();
    r.weight = real(), r.clip_factor = real();
    r.member_index = small();
    r.part_first = integer(), r.part_count = integer();
    r.left_out = prng_.chance(0.5);
    r.average = digest(), r.anchor = digest(), r.momentum = digest();
    r.base = digest(), r.base_momentum = digest(), r.added = digest();
    r.stats = {Bytes(integer()), Bytes(integer()), real()};
    r.eval_slice = integer();
    r.evaluated = prng_.chance(0.5);
    return r;
  }

  CheckpointRecord checkpoint(std::uint64_t id) {
    CheckpointRecord r;
    r.id = CheckpointId(id);
    r.key = key();
    r.state = word<CheckpointState>();
    r.final = prng_.chance(0.5);
    for (int i = small() % 3; i >= 0; --i) {
      r.parts.push_back({ReplicaId(positive()),
                         word<CheckpointState>(),
                         digest(),
                         digest(),
                         {{text(), Bytes(integer()), text()}},
                         {small(), small()}});
    }
    r.step = Steps(integer()), r.tokens = Tokens(integer());
    r.next_sequence = integer();
    r.returned = leases();
    r.detail = text();
    r.sample = text();
    r.created_at = instant(), r.updated_at = instant();
    return r;
  }

  EventRecord event(std::int64_t seq) {
    return {seq,
            instant(),
            word<Severity>(),
            text(),
            JobId(positive()),
            AgentId(positive()),
            ReplicaId(positive()),
            integer(),
            text()};
  }

  LinkRecord link(std::uint64_t from, std::uint64_t to) {
    return {AgentId(from), AgentId(to), {integer()}, real(), word<Dialled>(), instant()};
  }

  SubmittedText submitted_text(std::uint64_t job) { return {JobId(job), text(), text()}; }

  Prng& prng() { return prng_; }

 private:
  std::int64_t integer() {
    if (prng_.chance(0.1)) return prng_.chance(0.5) ? INT64_MAX : INT64_MIN;
    return prng_.range(-1'000'000, 1'000'000);
  }
  std::uint64_t positive() { return prng_.below(std::uint64_t{1} << 63); }
  std::int32_t small() { return static_cast<std::int32_t>(prng_.below(1000)); }
  double real() {
    if (prng_.chance(0.2)) return static_cast<double>(prng_.range(-5, 5));
    if (prng_.chance(0.1)) return prng_.chance(0.5) ? 1e308 : 5e-324;
    return prng_.normal();
  }
  Instant instant() { return {prng_.range(0, INT64_MAX)}; }
  Digest digest() { return prng_.chance(0.2) ? Digest{} : Digest{prng_.next(), prng_.next()}; }
  RoundKey key() { return {JobId(positive()), integer(), integer()}; }
  std::vector<DataLease> leases() {
    std::vector<DataLease> list;
    for (int i = small() % 4; i > 0; --i) list.push_back({integer(), integer()});
    return list;
  }
  std::string text() {
    static const char* kTexts[] = {
        "", "plain", "it's \"quoted\"", "two\nlines", "\xC3\xBC\xE2\x82\xAC", "x;--"};
    return kTexts[prng_.below(6)];
  }
  template <typename Enum>
  Enum word() {
    return static_cast<Enum>(prng_.below(word_count<Enum>()));
  }

  Prng prng_;
};

}  // namespace shoal::coordinator
