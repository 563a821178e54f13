// For tests: messages of every kind with values in every field, drawn from a seed, as the rules of
// the fields (base/fields.h) and of the messages (proto/message_rules.h) allow.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/log_lines.h"
#include "base/prng.h"
#include "proto/message_rules.h"
#include "proto/messages_test_util.h"

namespace shoal::proto {

class RandomMessages {
 public:
  explicit RandomMessages(std::uint64_t seed) : prng_(seed) {}

  template <typename T>
  T drawn() {
    T value{};
    draw(value, {});
    return value;
  }

 private:
  template <typename T>
  void draw(T& value, const FieldRule& rule) {
    if constexpr (std::is_same_v<T, JobSpec>) {
      value = spec();
    } else if constexpr (HasEnumerators<T>) {
      value = static_cast<T>(prng_.below(enumerator_count<T>()));
    } else if constexpr (HasFields<T>) {
      for_each_field(value, [this](const FieldInfo& info, auto& m) { draw(m, info.rule); });
      mend(value);
    } else if constexpr (requires { value.ns; }) {
      draw(value.ns, rule);
    } else if constexpr (requires { value.n; }) {
      draw(value.n, rule);
    } else if constexpr (!std::is_empty_v<T>) {
      draw_plain(value, rule);
    }
  }

  void draw_plain(bool& value, const FieldRule&) { value = prng_.chance(0.5); }
  void draw_plain(std::int32_t& value, const FieldRule&) {
    value = prng_.chance(0.1) ? INT32_MAX : static_cast<std::int32_t>(prng_.below(1000));
  }
  void draw_plain(std::int64_t& value, const FieldRule&) {
    value = prng_.chance(0.1) ? INT64_MAX : prng_.range(0, 1'000'000);
  }
  void draw_plain(std::uint64_t& value, const FieldRule& rule) {
    value = prng_.chance(0.1) ? kStoredNumberMax : 1 + prng_.below(1000);
    if (rule.or_none && prng_.chance(0.3)) value = 0;
  }
  void draw_plain(double& value, const FieldRule& rule) {
    value = prng_.chance(0.1) ? 1e308 : prng_.unit() * 1000;
    if (rule.any_number && prng_.chance(0.3)) value = -std::numeric_limits<double>::infinity();
  }
  void draw_plain(std::string& value, const FieldRule&) {
    static const char* kTexts[] = {"", "plain", "two\nlines", "\xC3\xBC\xE2\x82\xAC"};
    value = kTexts[prng_.below(4)];
  }
  void draw_plain(Digest& value, const FieldRule&) {
    value = prng_.chance(0.2) ? Digest{} : Digest{prng_.next(), prng_.next()};
  }
  void draw_plain(std::pair<std::string, std::string>& value, const FieldRule& rule) {
    draw_plain(value.first, rule);
    draw_plain(value.second, rule);
  }
  template <typename T>
  void draw_plain(std::optional<T>& value, const FieldRule& rule) {
    if (prng_.chance(0.5)) draw(value.emplace(), rule);
  }
  template <typename T>
  void draw_plain(std::vector<T>& value, const FieldRule& rule) {
    value.resize(prng_.below(4));
    for (T& item : value) draw(item, rule);
  }
  template <typename... Bodies>
  void draw_plain(std::variant<Bodies...>& value, const FieldRule&) {
    const std::size_t which = prng_.below(sizeof...(Bodies));
    std::size_t index = 0;
    ((index++ == which ? draw(value.template emplace<Bodies>(), {}) : void()), ...);
  }

  // What the fields must be to each other.
  template <typename T>
  void mend(T&) {}
  void mend(Hello& hello) {
    hello.uid = std::string(32, 'f');
    hello.name = plain(hello.name) + "node";
    hello.version = plain(hello.version);
    hello.host = prng_.chance(0.5) ? "gpu-3.example" : "";
    hello.relay = address();
    for (auto& [key, value] : hello.labels) key = plain(key), value = plain(value);
    for (std::string& owner : hello.code_from) owner = plain(owner) + "ada";
  }
  void mend(Relays& relays) { mend(relays.addresses); }
  static void mend(std::vector<std::string>& addresses) {
    std::ranges::fill(addresses, "10.0.0.9:7200");
  }
  void mend(Device& device) { device.name = plain(device.name), device.uuid = plain(device.uuid); }
  void mend(DeviceSample& sample) {
    sample.uuid = plain(sample.uuid), sample.error = plain(sample.error);
  }
  void mend(MeasureLine& asked) { asked.answer_bytes %= kLinePayloadMax + 1; }
  void mend(DeviceUse& use) {
    use.busy = use.busy_elsewhere = prng_.unit(), use.stolen = prng_.unit();
  }
  void mend(DeviceClimate& climate) {
    for (std::string& reason : climate.throttled) reason = plain(reason);
  }
  void mend(TrainerReady& ready) {
    ready.peer_address = address();
    ready.libraries = plain(ready.libraries);
  }
  static std::string plain(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  std::string address() { return prng_.chance(0.5) ? "[fd00::7]:7100" : ""; }
  static void bound(std::int64_t& count) { count = std::min(count, kCountMax); }
  void mend(RoundKey& key) { bound(key.epoch), bound(key.round); }
  void mend(DataLease& lease) {
    bound(lease.first);
    lease.count = std::min(lease.count, kCountMax - lease.first);
  }
  void mend(CommitProof& proof) {
    proof.job_name = plain(proof.job_name), proof.owner = plain(proof.owner);
    proof.key_id = plain(proof.key_id);
    proof.spec_sha256 = proof.mac = std::string(64, 'c');
  }
  void mend(CommitRecord& record) {
    bound(record.step.n), bound(record.tokens.n), bound(record.next_sequence);
    record.returned.clear();
    if (record.next_sequence > 10) record.returned = {{0, 3}, {5, record.next_sequence - 5}};
  }
  void mend(HeldReplica& held) {
    held.address = address();
    held.fragments.clear();
    held.record.step = std::min(held.record.step, held.spec.train.steps);
    held.cut = cut(), held.stage = 1;
    if (prng_.chance(0.5)) {
      held.record.key = held.key;
    } else {
      held.key = {held.job, 0, -1};
    }
    if (prng_.chance(0.5)) held.spec = {};
  }
  void mend(Loaded& loaded) {
    loaded.address = address();
    loaded.value_count = std::min<std::int64_t>(loaded.value_count, 1'000'000);
    loaded.fragments.clear();
    if (loaded.value_count > 1) loaded.fragments = {1, loaded.value_count - 1};
  }
  void mend(Welcome& welcome) {
    mend(welcome.relays);
    welcome.heartbeat_every.ns = 1 + prng_.range(0, 1000);
    welcome.lease.ns = 1 + prng_.range(0, 1000);
  }
  void mend(StateSource& source) {
    source.address += "a:1";
    source.replica = ReplicaId(4);
    source.checkpoint = CheckpointId(5);
  }
  void mend(Assign& assign) {
    assign.cut = cut(), assign.stage = 0;
    assign.owner = plain(assign.owner);
    if (assign.source.kind != SourceKind::kCheckpoint) assign.checkpoint_parts = 0;
  }
  void mend(TensorShape& tensor) { tensor.name = plain(tensor.name), tensor.type = "F32"; }
  void mend(LoggedValue& logged) { logged.name = "norm/" + std::to_string(prng_.below(100)); }
  void mend(FileEntry& file) {
    file.path = "a/" + std::to_string(prng_.below(100));
    file.sha256 = std::string(64, 'a');
    file.role = plain(file.role);
  }
  void mend(WriteCheckpointTo& command) { command.folder += "/tmp"; }
  void mend(OpenRound& order) {
    if (order.to_step < order.from_step) std::swap(order.from_step, order.to_step);
  }
  void mend(EvalSlice& slice) {
    if (slice.slices <= slice.slice) slice.slices = 0;
  }
  void mend(OwnerStep& step) { step.outer.lr = 0.9; }
  void mend(ReduceMember& member) { member.clip_factor = 1 - prng_.unit() / 2; }
  void mend(ReducePlan& plan) {
    plan.topology = plan.topology <= Topology::kParamServer ? plan.topology : Topology::kRing;
    plan.frame_values = 4096;
    plan.time_limit = seconds(30);
    plan.value_count = 0;
    for (ReduceMember& member : plan.members) {
      member.part_first = plan.value_count;
      member.part_count = plan.topology == Topology::kAllgather ? 0 : prng_.range(0, 1000);
      plan.value_count += member.part_count;
    }
    const bool audits = !plan.audited.empty() && plan.topology != Topology::kAllgather;
    plan.audited.clear();
    if (audits && plan.value_count > 0) {
      plan.audited.push_back({ReplicaId(3), ReplicaId(4), 7, plan.value_count});
    }
  }
  void mend(CommitRound& commit) {
    commit.share = prng_.unit();
    if (commit.last) commit.next = {};
  }
  void mend(StageCopy& copy) { copy.value_count = std::max<std::int64_t>(copy.value_count, 1); }
  void mend(LogLine& line) { line.at.ns = 1 + prng_.range(0, 1000); }
  void mend(LogQuery& query) {
    query.limit = 1 + static_cast<int>(prng_.below(kLogLinesMax));
    if (query.after && query.after->ns == 0) query.after.reset();
  }

  Prng prng_;
};

}  // namespace shoal::proto
