// Which replicas hold which stage of a job, how busy they are and what crosses the links between
// them: the records of the store joined with what the trainers said last.
#include <algorithm>

#include "coordinator/core/state/state.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/plan.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest {
namespace {

constexpr Duration kLiveFor = seconds(15);
constexpr int kRowsPerPage = 500, kPagesMax = 40;

Json measured(double value) { return value > 0 ? Json(value) : Json(nullptr); }

// One stage is cut before anything is placed.
std::vector<UnitRange> stages_of(const JobRecord& job) {
  const bool whole = job.stages.empty() && job.spec.swarm.stages == 1;
  return whole ? whole_model(job.spec) : cut_of(job);
}

// Null when the replica has said nothing within the last 15 s, or has no pipeline.
const PipelineLive* traffic_of(const LiveView& live, ReplicaId replica) {
  const PipelineLive* found = live.pipeline.find(replica);
  return found != nullptr && live.now - found->at <= kLiveFor ? found : nullptr;
}

double gflops_of(const AgentRecord& agent, std::int32_t index) {
  for (const Device& device : agent.devices) {
    if (device.index == index) return device.gflops;
  }
  return 0;
}

Json replica_json(const ReplicaRecord& replica, const AgentRecord* agent, const LiveView& live) {
  const AgentLive* seen = live.agents.find(replica.agent);
  const PipelineLive* traffic = traffic_of(live, replica.id);
  const auto from_traffic = [&](auto value) {
    return traffic != nullptr ? Json(value(*traffic)) : Json(nullptr);
  };
  Json json;
  json["id"] = to_string(replica.id);
  json["agent"] = to_string(replica.agent);
  json["agent_name"] = agent != nullptr ? Json(agent->name) : Json(nullptr);
  json["device"] = replica.device;
  json["stage"] = replica.stage;
  json["state"] = to_string(replica.state);
  json["health"] = seen != nullptr ? to_string(seen->health) : to_string(Health::kRed);
  json["gflops"] = agent != nullptr ? measured(gflops_of(*agent, replica.device)) : Json(nullptr);
  json["queued"] = from_traffic([](const PipelineLive& t) { return t.stats.queued; });
  json["in_flight"] = from_traffic([](const PipelineLive& t) { return t.stats.in_flight; });
  json["service_s"] =
      traffic != nullptr ? measured(traffic->stats.service.seconds()) : Json(nullptr);
  json["microbatches"] = from_traffic([](const PipelineLive& t) { return t.stats.microbatches; });
  json["microbatches_per_second"] =
      from_traffic([](const PipelineLive& t) { return t.microbatches_per_s; });
  json["recomputed"] = from_traffic([](const PipelineLive& t) { return t.stats.recomputed; });
  json["added_again"] = from_traffic([](const PipelineLive& t) { return t.stats.added_again; });
  json["dropped"] = from_traffic([](const PipelineLive& t) { return t.stats.dropped; });
  json["busy"] = from_traffic([](const PipelineLive& t) { return t.stats.busy; });
  return json;
}

Json link_json(ReplicaId from, const LinkStats& link, const LinkRate* rate) {
  const bool known = rate != nullptr;
  Json json;
  json["from"] = to_string(from);
  json["to"] = to_string(link.to);
  json["bytes_per_second"] = known ? Json(rate->sent_per_s + rate->received_per_s) : Json(nullptr);
  json["sent_per_second"] = known ? Json(rate->sent_per_s) : Json(nullptr);
  json["received_per_second"] = known ? Json(rate->received_per_s) : Json(nullptr);
  json["sent_bytes"] = link.sent.count();
  json["received_bytes"] = link.received.count();
  json["microbatches"] = link.microbatches;
  json["round_trip_s"] = measured(link.round_trip.seconds());
  return json;
}

// Between two live replicas only.
Json links_json(const std::vector<ReplicaRecord>& replicas, const LiveView& live) {
  const auto is_here = [&](ReplicaId id) {
    return std::any_of(replicas.begin(), replicas.end(), [&](const auto& r) { return r.id == id; });
  };
  Json list = Json::array();
  for (const ReplicaRecord& replica : replicas) {
    const PipelineLive* traffic = traffic_of(live, replica.id);
    if (traffic == nullptr) continue;
    for (const LinkStats& link : traffic->stats.links) {
      if (is_here(link.to))
        list.push_back(link_json(replica.id, link, traffic->links.find(link.to)));
    }
  }
  return list;
}

// Among the newest 20,000 of the job, ended ones included.
Result<std::vector<ReplicaRecord>> live_replicas_of(Reader& reader, JobId job) {
  std::vector<ReplicaRecord> live;
  PageRequest page{.limit = kRowsPerPage, .after = 0, .newest_first = true};
  for (int i = 0; i < kPagesMax; ++i) {
    auto rows = reader.replicas(job, page);
    if (!rows.ok()) return rows.error();
    for (ReplicaRecord& replica : rows.value().items) {
      if (!is_terminal(replica.state)) live.push_back(std::move(replica));
    }
    if (!rows.value().next) break;
    page.after = *rows.value().next;
  }
  std::reverse(live.begin(), live.end());
  std::stable_sort(live.begin(), live.end(), [](const ReplicaRecord& a, const ReplicaRecord& b) {
    return a.stage < b.stage;
  });
  return live;
}

}  // namespace

namespace api {

Result<Response> get_topology(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto replicas = live_replicas_of(*context.reader, job.value().id);
  if (!replicas.ok()) return replicas.error();
  const auto live = context.cluster.live();
  Json list = Json::array();
  for (const ReplicaRecord& replica : replicas.value()) {
    const auto agent = context.reader->agent(replica.agent);
    if (!agent.ok()) return agent.error();
    list.push_back(replica_json(replica, agent.value() ? &**agent : nullptr, *live));
  }
  Json json;
  json["job"] = to_string(job.value().id);
  json["stages"] = cut_json(job.value().spec, stages_of(job.value()));
  json["replicas"] = std::move(list);
  json["links"] = links_json(replicas.value(), *live);
  return json_response(json);
}

}  // namespace api
}  // namespace shoal::coordinator::rest
