// What people and programs read of replicas, checkpoints and series (views.h). An empty optional is
// null, as is 0 where the list says or_none(): not known yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/records/records.h"
#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

struct SourceAnswer {
  SourceKind kind = SourceKind::kSeed;
  RoundNumber round = 0;
  ReplicaId replica;
  CheckpointId checkpoint;
};
constexpr auto fields_of(Of<SourceAnswer>) {
  using T = SourceAnswer;
  return fields(field<&T::kind>(), field<&T::round>(), field<&T::replica>(or_none()),
                field<&T::checkpoint>(or_none()));
}

struct ReplicaLiveAnswer {
  Instant at;
  RoundNumber round = 0;
  Steps inner_step;
  Tokens tokens;
  double train_loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;
};
constexpr auto fields_of(Of<ReplicaLiveAnswer>) {
  using T = ReplicaLiveAnswer;
  return fields(field<&T::at>(), field<&T::round>(), field<&T::inner_step>(), field<&T::tokens>(),
                field<&T::train_loss>(or_none()), field<&T::gradient_norm>(any_number()),
                field<&T::learning_rate>(any_number()), field<&T::tokens_per_second>(any_number()));
}

struct ReplicaLoadAnswer {
  Instant at;
  Bytes done;
  Bytes total;
  double bytes_per_second = 0;
  double share = 0;
  std::optional<double> left_s;
};
constexpr auto fields_of(Of<ReplicaLoadAnswer>) {
  using T = ReplicaLoadAnswer;
  return fields(field<&T::at>(), field<&T::done>("done_bytes"),
                field<&T::total>("total_bytes", or_none()), field<&T::bytes_per_second>(or_none()),
                field<&T::share>(), field<&T::left_s>());
}

struct KeptCopyAnswer {
  StageIndex stage = 0;
  std::optional<RoundNumber> round;
};
constexpr auto fields_of(Of<KeptCopyAnswer>) {
  using T = KeptCopyAnswer;
  return fields<&T::stage, &T::round>();
}

struct ReplicaAnswer {
  ReplicaId id;
  JobId job;
  AgentId agent;
  Incarnation incarnation;
  std::int32_t device = 0;
  StageIndex stage = 0;
  ReplicaState state = ReplicaState::kAssigned;
  std::optional<ReplicaFailure> failure;
  std::string detail;
  SourceAnswer source;
  std::optional<std::string> address;
  std::int64_t epoch = 0;
  std::optional<RoundNumber> held_round;
  Digest anchor_digest;
  std::optional<ReplicaLiveAnswer> live;
  std::optional<ReplicaLoadAnswer> load;
  std::optional<double> speed_ratio;
  std::vector<KeptCopyAnswer> copies;
  Instant created_at;
  Instant updated_at;
};
constexpr auto fields_of(Of<ReplicaAnswer>) {
  using T = ReplicaAnswer;
  return fields(field<&T::id>(), field<&T::job>(), field<&T::agent>(or_none()),
                field<&T::incarnation>(), field<&T::device>(), field<&T::stage>(),
                field<&T::state>(), field<&T::failure>(), field<&T::detail>(), field<&T::source>(),
                field<&T::address>(), field<&T::epoch>(), field<&T::held_round>(),
                field<&T::anchor_digest>(or_none()), field<&T::live>(),
                field<&T::load>(added_later()), field<&T::speed_ratio>(added_later()),
                field<&T::copies>(added_later()), field<&T::created_at>(or_none()),
                field<&T::updated_at>(or_none()));
}
constexpr const char* schema_name(Of<ReplicaAnswer>) { return "Replica"; }

struct CheckpointPartAnswer {
  CheckpointState state = CheckpointState::kWriting;
  ReplicaId writer;
  std::int64_t files = 0;
  Digest anchor_digest;
  Digest momentum_digest;
};
constexpr auto fields_of(Of<CheckpointPartAnswer>) {
  using T = CheckpointPartAnswer;
  return fields(field<&T::state>(), field<&T::writer>(or_none()), field<&T::files>(),
                field<&T::anchor_digest>(or_none()), field<&T::momentum_digest>(or_none()));
}

struct CheckpointAnswer {
  CheckpointId id;
  JobId job;
  std::int64_t epoch = 0;
  RoundNumber round = 0;
  CheckpointState state = CheckpointState::kWriting;
  bool final = false;
  bool pinned = false;
  std::string job_name;
  std::string owner;
  Steps step;
  Tokens tokens;
  Digest anchor_digest;
  Digest momentum_digest;
  ReplicaId writer;
  std::vector<CheckpointPartAnswer> parts;
  std::string detail;
  std::string sample;
  Bytes bytes;
  std::vector<FileEntry> files;
  Instant created_at;
  Instant updated_at;
};
constexpr auto fields_of(Of<CheckpointAnswer>) {
  using T = CheckpointAnswer;
  return fields(field<&T::id>(), field<&T::job>(), field<&T::epoch>(), field<&T::round>(),
                field<&T::state>(), field<&T::final>(), field<&T::pinned>(added_later()),
                field<&T::job_name>(added_later()), field<&T::owner>(added_later()),
                field<&T::step>(), field<&T::tokens>(), field<&T::anchor_digest>(or_none()),
                field<&T::momentum_digest>(or_none()), field<&T::writer>(or_none()),
                field<&T::parts>(), field<&T::detail>(), field<&T::sample>(added_later()),
                field<&T::bytes>(), field<&T::files>(), field<&T::created_at>(or_none()),
                field<&T::updated_at>(or_none()));
}
constexpr const char* schema_name(Of<CheckpointAnswer>) { return "Checkpoint"; }

constexpr const char* schema_name(Of<FileEntry>) { return "FileEntry"; }

struct SeriesLineAnswer {
  ReplicaId replica;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> y_min;
  std::vector<double> y_max;
  std::vector<double> time;
};
constexpr auto fields_of(Of<SeriesLineAnswer>) {
  using T = SeriesLineAnswer;
  return fields(field<&T::replica>(or_none()), field<&T::x>(any_number()),
                field<&T::y>(any_number()), field<&T::y_min>(any_number()),
                field<&T::y_max>(any_number()), field<&T::time>(added_later() | any_number()));
}
constexpr const char* schema_name(Of<SeriesLineAnswer>) { return "SeriesLine"; }

struct SeriesAnswer {
  JobId job;
  std::string name;
  std::string x;
  std::string by;
  std::vector<SeriesLineAnswer> series;
};
constexpr auto fields_of(Of<SeriesAnswer>) {
  using T = SeriesAnswer;
  return fields<&T::job, &T::name, &T::x, &T::by, &T::series>();
}
constexpr const char* schema_name(Of<SeriesAnswer>) { return "Series"; }

}  // namespace shoal::coordinator::rest
