#include "coordinator/service/http/routes/plan.h"

#include <algorithm>

#include "coordinator/service/http/views.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator::rest {
namespace {

// 0: not known.
Json known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

// The line that binds; null: devices do.
Json line_json(const Forecast& forecast, const NameOf& name_of) {
  if (forecast.behind_line.empty()) return nullptr;
  Json json;
  json["agents"] = Json::array();
  for (const AgentId agent : forecast.behind_line) json["agents"].push_back(name_of(agent));
  json["bytes_per_second"] = forecast.line_bytes_per_s;
  return json;
}

Json devices_json(const PlacementDecision& decision) {
  Json json;
  json["free"] = decision.free;
  json["fitting"] = decision.fitting;
  json["refused"] = decision.refused;
  json["resting"] = decision.resting;
  json["wanted"] = decision.wanted;
  json["missing"] = std::max<std::int64_t>(0, decision.missing);
  return json;
}

Json places_json(const PlacementDecision& decision, const NameOf& name_of) {
  Json list = Json::array();
  for (const Place& place : decision.places) {
    Json json;
    json["agent"] = to_string(place.agent);
    json["agent_name"] = name_of(place.agent);
    json["device"] = place.device;
    json["stage"] = place.stage;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

Json forecast_json(const Forecast& forecast, const NameOf& name_of) {
  const bool is_known = forecast.tokens_per_s > 0;
  Json json;
  json["tokens_per_second"] = known(forecast.tokens_per_s);
  json["step_s"] = known(forecast.step_s);
  json["round_s"] = known(forecast.round_s);
  json["bubble"] = is_known ? Json(forecast.bubble) : Json(nullptr);
  json["average_s"] = is_known ? Json(forecast.average_s) : Json(nullptr);
  json["network"] = is_known ? Json(forecast.network) : Json(nullptr);
  json["line"] = line_json(forecast, name_of);
  json["lines_assumed"] = forecast.lines.assumed;
  json["lines_to_coordinator"] = forecast.lines.to_coordinator;
  json["lines_to_peers"] = forecast.lines.to_peers;
  const bool any = forecast.lines.to_coordinator + forecast.lines.to_peers > 0;
  json["lines_measured_at"] = any ? Json(rfc3339(forecast.lines.oldest)) : Json(nullptr);
  json["speeds_assumed"] = forecast.speeds_assumed;
  return json;
}

template <typename Device>
Json device_json(const Device& device, const NameOf& name_of) {
  Json json;
  json["agent"] = to_string(device.agent);
  json["agent_name"] = name_of(device.agent);
  json["device"] = device.device;
  return json;
}

Json left_out_json(const std::vector<LeftOut>& left_out, const NameOf& name_of) {
  Json list = Json::array();
  for (const LeftOut& left : left_out) {
    Json json = device_json(left, name_of);
    json["tokens_per_second_with"] = left.with;
    json["tokens_per_second_without"] = left.without;
    json["line_bytes_per_second"] = known(left.line_bytes_per_s);
    list.push_back(std::move(json));
  }
  return list;
}

Json loaded_json(const std::vector<LoadedDevice>& loaded, const NameOf& name_of) {
  Json list = Json::array();
  for (const LoadedDevice& one : loaded) {
    Json json = device_json(one, name_of);
    json["share"] = one.share;
    list.push_back(std::move(json));
  }
  return list;
}

Json cut_json(const JobSpec& spec, const std::vector<UnitRange>& cut) {
  const swarm::CostModel model(spec, swarm::cost_options(spec));
  Json list = Json::array();
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    const UnitRange units = cut[stage];
    Json json;
    json["stage"] = stage;
    json["units"] = Json{{"first", units.first}, {"last", units.last}};
    // Unit 0 is the embedding, the last one the head.
    json["layers"] = std::min(units.last, model.units() - 1) - std::max(units.first, 1);
    json["parameters"] = model.parameters(units);
    json["memory_bytes"] = model.memory(units).count();
    list.push_back(std::move(json));
  }
  return list;
}

Json plan_json(const JobSpec& spec, const PlacementDecision& decision, const NameOf& name_of) {
  Json json;
  json["placeable"] = decision.reason == PlacementReason::kPlaced;
  json["reason"] = to_string(decision.reason);
  json["detail"] = explain(decision);
  json["stages"] = cut_json(spec, decision.cut);
  json["placement"] = places_json(decision, name_of);
  json["forecast"] = forecast_json(decision.forecast, name_of);
  json["left_out"] = left_out_json(decision.left_out, name_of);
  json["used_by_others"] = loaded_json(decision.loaded, name_of);
  json["devices"] = devices_json(decision);
  json["memory_needed_bytes"] = decision.needed.count();
  json["memory_largest_bytes"] = decision.largest.count();
  return json;
}

}  // namespace shoal::coordinator::rest
