// The lines between agents as they were measured, one item per ordered pair, for a matrix.
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest {
namespace {

Json measured(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json link_json(const LinkRecord& link, Instant now) {
  Json json;
  json["from"] = to_string(link.from);
  json["to"] = to_string(link.to);
  json["reached"] = link.way != PeerWay::kUnreachable;
  json["way"] = to_string(link.way);
  json["round_trip_s"] = measured(link.round_trip.seconds());
  json["bytes_per_second"] = measured(link.bytes_per_s);
  json["at_least"] = link.at_least;
  json["measured_at"] = rfc3339(link.measured_at);
  json["age_s"] = (now - link.measured_at).seconds();
  return json;
}

}  // namespace

namespace api {

Result<Response> get_network(Context& context, const Request&) {
  const auto links = context.reader->links();
  if (!links.ok()) return links.error();
  const auto live = context.cluster.live();
  Json list = Json::array();
  for (const LinkRecord& link : *links) {
    const bool here = live->agents.contains(link.from) && live->agents.contains(link.to);
    if (here) list.push_back(link_json(link, live->now));
  }
  Json json;
  json["items"] = std::move(list);
  return json_response(json);
}

}  // namespace api
}  // namespace shoal::coordinator::rest
