// The words of pipeline traffic as values: who is in the pipeline (a view), what one frame is about
// (a pass), and how the end of an inner step is agreed on (gossip). docs/pipeline.md tells the
// protocol; the rules are in stage_session.h, the wire form in swarm/pipeline/.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal {

// One replica that takes part in the round that is being trained. A replica that is still loading,
// or that waits for the next round, is not in the view.
struct PipelineMember {
  ReplicaId replica;
  StageIndex stage = 0;
  std::string address;      // host:port of its peer service
  double speed = 0;         // FLOP/s as measured at joining; 0: not known
  Duration line_time = {};  // that its line takes for one microbatch; zero: not known
  bool operator==(const PipelineMember&) const = default;
};
constexpr auto fields_of(Of<PipelineMember>) {
  using T = PipelineMember;
  return fields(field<&T::replica>(), field<&T::stage>(), field<&T::address>(), field<&T::speed>(),
                field<&T::line_time>(added_later()));
}

// The numbered list of live replicas that everybody works from. Numbers grow within a job over
// restarts of the coordinator; a view with a number that is not newer is ignored.
struct PipelineView {
  JobId job;
  std::int64_t epoch = 0;
  std::int64_t number = 0;
  std::vector<PipelineMember> members;  // by stage, then id; every stage may be empty for a while
  bool operator==(const PipelineView&) const = default;
};
constexpr auto fields_of(Of<PipelineView>) {
  using T = PipelineView;
  return fields<&T::job, &T::epoch, &T::number, &T::members>();
}

// What a replica of a pipeline sees of its traffic, about once a second; for people and for the
// estimate of its speed.
struct LinkStats {
  ReplicaId to;                   // of the next stage
  Duration round_trip;            // of its connection; zero: not measured yet
  std::int64_t microbatches = 0;  // sent since the replica serves, resent ones included
  Bytes sent, received;           // since the replica serves, payload and headers
  bool operator==(const LinkStats&) const = default;
};
constexpr auto fields_of(Of<LinkStats>) {
  using T = LinkStats;
  return fields(field<&T::to>(), field<&T::round_trip>(), field<&T::microbatches>(),
                field<&T::sent>("sent_bytes"), field<&T::received>("received_bytes"));
}

struct PipelineStats {
  ReplicaId replica;
  std::int64_t step = 0;          // the inner step it works on
  std::int32_t queued = 0;        // passes that wait for its device
  std::int32_t in_flight = 0;     // microbatches that are further down
  Duration service;               // forward and backward of one microbatch, moving average
  std::int64_t microbatches = 0;  // backward done, since it serves
  std::int64_t recomputed = 0;    // passes done again because a replica was lost
  std::int64_t dropped = 0;       // frames of a past step, view or sender
  // Gradients added of microbatches that were sent again: another replica of its stage may have
  // added them, too.
  std::int64_t added_again = 0;
  double busy = 0;  // share of the time its device computed since the last message
  std::vector<LinkStats> links;
  bool operator==(const PipelineStats&) const = default;
};
constexpr auto fields_of(Of<PipelineStats>) {
  using T = PipelineStats;
  return fields<&T::replica, &T::step, &T::queued, &T::in_flight, &T::service, &T::microbatches,
                &T::recomputed, &T::dropped, &T::added_again, &T::busy, &T::links>();
}

namespace swarm {

enum class PassKind {
  kTrain,   // forward, loss, backward; the gradient is added
  kLoss,    // forward and loss only: evaluation of the parameters that open the round
  kLogits,  // forward only; the last stage answers with the logits of the last position
};

// Names one microbatch of one inner step. `round` is the round that is being trained, that is the
// held one plus one; `step` the inner step of the job's schedule.
struct Microbatch {
  RoundNumber round = 0;
  std::int64_t step = 0;
  ReplicaId router;        // who drew it
  std::int32_t index = 0;  // of this router and step, from 0; evaluation counts on its own
  PassKind kind = PassKind::kTrain;
  auto operator<=>(const Microbatch&) const = default;
};
constexpr auto fields_of(Of<Microbatch>) {
  using T = Microbatch;
  return fields<&T::round, &T::step, &T::router, &T::index, &T::kind>();
}

// How far one router has come. `done_through`: every microbatch of this step and those before has
// been answered. `last`: it draws none after that in this round.
struct RouterProgress {
  ReplicaId router;
  std::int64_t done_through = -1;
  bool last = false;
  bool operator==(const RouterProgress&) const = default;
};
constexpr auto fields_of(Of<RouterProgress>) {
  using T = RouterProgress;
  return fields<&T::router, &T::done_through, &T::last>();
}

// Told on every stream, in both directions, whenever it changed: any path that is intact spreads
// it. Merging takes the larger done_through of each router (and `last` from that one).
struct ProgressGossip {
  RoundNumber round = 0;
  std::int64_t step = 0;  // the one the sender works on
  std::vector<RouterProgress> routers;
  bool operator==(const ProgressGossip&) const = default;
};
constexpr auto fields_of(Of<ProgressGossip>) {
  using T = ProgressGossip;
  return fields<&T::round, &T::step, &T::routers>();
}

}  // namespace swarm
}  // namespace shoal
