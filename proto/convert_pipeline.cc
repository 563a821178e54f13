// The bodies that exist for pipelines only: views and traffic statistics.
#include "proto/convert_parts.h"

namespace shoal::proto {

void put(const PipelineStats& from, v1::PipelineStats& to) {
  to.set_replica(from.replica.n);
  to.set_step(from.step);
  to.set_queued(from.queued);
  to.set_in_flight(from.in_flight);
  to.set_service_ns(from.service.ns);
  to.set_microbatches(from.microbatches);
  to.set_recomputed(from.recomputed);
  to.set_dropped(from.dropped);
  to.set_busy(from.busy);
  for (const LinkStats& link : from.links) {
    v1::LinkStats& out = *to.add_links();
    out.set_to(link.to.n);
    out.set_round_trip_ns(link.round_trip.ns);
    out.set_microbatches(link.microbatches);
    out.set_sent_bytes(link.sent.n);
    out.set_received_bytes(link.received.n);
  }
}
void get(Reader& reader, const v1::PipelineStats& from, PipelineStats& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.step = reader.count("step", from.step());
  to.queued = static_cast<std::int32_t>(reader.count("queued", from.queued()));
  to.in_flight = static_cast<std::int32_t>(reader.count("in_flight", from.in_flight()));
  to.service = Duration{reader.count("service_ns", from.service_ns())};
  to.microbatches = reader.count("microbatches", from.microbatches());
  to.recomputed = reader.count("recomputed", from.recomputed());
  to.dropped = reader.count("dropped", from.dropped());
  to.busy = reader.amount("busy", from.busy());
  for (const v1::LinkStats& link : from.links()) {
    const Reader::Inside inside(reader, "links");
    to.links.push_back({reader.id<ReplicaTag>("to", link.to()),
                        Duration{reader.count("round_trip_ns", link.round_trip_ns())},
                        reader.count("microbatches", link.microbatches()),
                        Bytes(reader.count("sent_bytes", link.sent_bytes())),
                        Bytes(reader.count("received_bytes", link.received_bytes()))});
  }
}

void put(const PipelineView& from, v1::PipelineView& to) {
  to.set_job(from.job.n);
  to.set_lineage(from.lineage);
  to.set_number(from.number);
  for (const PipelineMember& member : from.members) {
    v1::PipelineMember& out = *to.add_members();
    out.set_replica(member.replica.n);
    out.set_stage(member.stage);
    out.set_address(member.address);
    out.set_speed(member.speed);
  }
}
void get(Reader& reader, const v1::PipelineView& from, PipelineView& to) {
  to.job = reader.id<JobTag>("job", from.job());
  to.lineage = reader.count("lineage", from.lineage());
  to.number = reader.count("number", from.number());
  for (const v1::PipelineMember& member : from.members()) {
    const Reader::Inside inside(reader, "members");
    to.members.push_back({reader.id<ReplicaTag>("replica", member.replica()),
                          static_cast<StageIndex>(reader.count("stage", member.stage())),
                          member.address(), reader.amount("speed", member.speed())});
  }
}

}  // namespace shoal::proto
