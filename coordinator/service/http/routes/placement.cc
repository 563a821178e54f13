// How a job is placed now and why: what limits it, who is left out, which free devices others use,
// the newest look at the balance of its stages, the move that was considered last, and whether
// another placement would be faster. The coordinator shows it about every 30 s
// (coordinator/core/decisions/placement_report.h).
#include "coordinator/core/decisions/placement_report.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/plan.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest {
namespace {

Json look_json(const std::optional<PlacementReport::Look>& look) {
  if (!look) return nullptr;
  Json json;
  json["at"] = rfc3339(look->at);
  json["verdict"] = to_string(look->verdict);
  json["weakest_stage"] = look->weakest_stage;
  json["weakest_tokens_per_second"] = look->weakest;
  json["mean_tokens_per_second"] = look->mean;
  json["reason"] = look->reason;
  return json;
}

Json move_json(const std::optional<MoveReport>& move, const NameOf& name_of) {
  if (!move) return nullptr;
  Json json;
  json["at"] = rfc3339(move->at);
  json["replica"] = to_string(move->replica);
  json["agent"] = to_string(move->agent);
  json["agent_name"] = name_of(move->agent);
  json["from_stage"] = move->from;
  json["to_stage"] = move->to;
  json["tokens_per_second_gained"] = move->worth.gain;
  json["download_bytes"] = move->worth.download.count();
  json["bytes_per_second"] = move->worth.bytes_per_s;
  json["takes_s"] = move->worth.away.seconds();
  json["payback_s"] = move->worth.payback.seconds();
  json["bound_s"] = move->worth.bound.seconds();
  json["verdict"] = to_string(move->verdict);
  json["reason"] = move->reason;
  return json;
}

Json comparison_json(const std::optional<PlanComparison>& compared) {
  if (!compared) return nullptr;
  Json json;
  json["at"] = rfc3339(compared->at);
  json["tokens_per_second_now"] = compared->present;
  json["tokens_per_second_anew"] = compared->best;
  return json;
}

}  // namespace

namespace api {

Result<Response> get_placement(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto live = context.cluster.live();
  const NameOf name_of = [&](AgentId id) {
    const auto agent = context.reader->agent(id);
    return agent.ok() && agent.value() ? (*agent)->name : to_string(id);
  };
  const bool trains = !holds_nothing(job.value().phase);
  const auto* shown = trains ? live->placements.find(job.value().id) : nullptr;
  const PlacementReport report = shown == nullptr ? PlacementReport{} : **shown;
  Json json;
  json["job"] = to_string(job.value().id);
  json["at"] = shown == nullptr ? Json(nullptr) : Json(rfc3339(report.at));
  json["forecast"] = forecast_json(report.forecast, name_of);
  json["left_out"] = left_out_json(report.left_out, name_of);
  json["used_by_others"] = loaded_json(report.loaded, name_of);
  json["balance"] = look_json(report.look);
  json["move"] = move_json(report.move, name_of);
  json["plan"] = comparison_json(report.plan);
  return json_response(json);
}

}  // namespace api
}  // namespace shoal::coordinator::rest
