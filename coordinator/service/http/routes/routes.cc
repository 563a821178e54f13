// The route table: the only list of what this server answers.
#include "coordinator/service/http/router.h"
#include "coordinator/service/http/routes/api.h"

namespace shoal::coordinator::rest {
namespace {

std::vector<Route> dashboard_routes() {
  return {
      {"GET", "/", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/jobs", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/jobs/{path...}", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/agents", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/agents/{path...}", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/join", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/network", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/events", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/checkpoints", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/checkpoints/{path...}", api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/assets/{path...}", api::dashboard_asset, nullptr, {}, true},
  };
}

const std::vector<std::string_view> kLogQuery = {"tail",   "cursor",  "level",
                                                 "source", "replica", "q"};

std::vector<Route> api_routes() {
  return {
      {"POST", "/api/v1/jobs", nullptr, api::create_job, {"dry_run", "folder"}},
      {"GET", "/api/v1/jobs", api::list_jobs, nullptr, {"limit", "cursor", "order", "phase"}},
      {"GET", "/api/v1/jobs/{job}", api::get_job},
      {"PATCH", "/api/v1/jobs/{job}", nullptr, api::change_job},
      {"GET", "/api/v1/jobs/{job}/spec", api::get_job_spec},
      {"POST", "/api/v1/jobs/{job}/cancel", nullptr, api::cancel_job},
      {"POST", "/api/v1/jobs/{job}/pause", nullptr, api::pause_job},
      {"POST", "/api/v1/jobs/{job}/resume", nullptr, api::resume_job},
      {"GET", "/api/v1/jobs/{job}/rounds", api::list_rounds, nullptr, {"limit", "cursor", "order"}},
      {"GET", "/api/v1/jobs/{job}/rounds/{round}", api::get_round},
      {"GET",
       "/api/v1/jobs/{job}/replicas",
       api::list_replicas,
       nullptr,
       {"limit", "cursor", "order"}},
      {"GET", "/api/v1/jobs/{job}/topology", api::get_topology},
      {"GET",
       "/api/v1/jobs/{job}/checkpoints",
       api::list_checkpoints,
       nullptr,
       {"limit", "cursor", "order"}},
      {"GET", "/api/v1/jobs/{job}/logs", nullptr, api::job_logs, kLogQuery},
      {"GET", "/api/v1/jobs/{job}/series", api::list_series},
      {"GET",
       "/api/v1/jobs/{job}/series/query",
       api::query_series,
       nullptr,
       {"name", "x", "by", "from", "to", "max_points"}},
      {"GET", "/api/v1/checkpoints/{checkpoint}", api::get_checkpoint},
      {"GET", "/api/v1/checkpoints/{checkpoint}/files/{path...}", api::get_checkpoint_file},
      {"POST",
       "/api/v1/checkpoints/{checkpoint}/verify",
       nullptr,
       api::verify_checkpoint,
       {"file"}},
      {"GET", "/api/v1/examples", api::examples, nullptr, {}, true},
      {"GET", "/api/v1/join", api::how_to_join, nullptr, {}, true},
      {"GET", "/api/v1/agents", api::list_agents, nullptr, {"limit", "cursor", "order", "gone"}},
      {"GET", "/api/v1/agents/{agent}", api::get_agent},
      {"DELETE", "/api/v1/agents/{agent}", nullptr, api::forget_agent},
      {"GET", "/api/v1/agents/{agent}/logs", nullptr, api::agent_logs, kLogQuery},
      {"GET", "/api/v1/network", api::get_network},
      {"POST", "/api/v1/agents/{agent}/cordon", nullptr, api::cordon_agent},
      {"POST", "/api/v1/agents/{agent}/uncordon", nullptr, api::uncordon_agent},
      {"POST", "/api/v1/agents/{agent}/drain", nullptr, api::drain_agent},
      {"GET",
       "/api/v1/events",
       api::list_events,
       nullptr,
       {"limit", "cursor", "order", "job", "agent", "severity"}},
      {"GET",
       "/api/v1/events/stream",
       api::stream_events,
       nullptr,
       {"job", "agent", "severity", "from"}},
      {"GET", "/api/v1/version", api::version, nullptr, {}, true},
      {"GET", "/api/v1/openapi.json", api::openapi, nullptr, {}, true},
      // The dashboard: its page at every path of its own router, and what the page loads.
      {"GET", "/problems/{slug}", api::problem_help, nullptr, {}, true},
      {"GET", "/livez", api::livez, nullptr, {"verbose"}, true},
      {"GET", "/readyz", api::readyz, nullptr, {"verbose"}, true},
      {"GET", "/healthz", api::readyz, nullptr, {"verbose"}, true},
      {"GET", "/metrics", api::metrics},
  };
}

std::vector<Route> machine_routes() {
  return {
      {"POST", "/api/v1/agents/{agent}/revoke", api::revoke_agent},
      {"POST", "/api/v1/tokens", api::create_token},
      {"GET", "/api/v1/tokens", api::list_tokens},
      {"DELETE", "/api/v1/tokens/{token}", api::remove_token},
      {"GET", "/api/v1/authorities", api::list_authorities},
      {"POST", "/api/v1/authorities/rotate", api::rotate_authority},
      {"POST", "/api/v1/enrol", api::enrol, nullptr, {}, false, false, true},
      {"POST", "/api/v1/renew", api::renew, nullptr, {}, false, false, true},
  };
}

std::vector<Route> all_routes() {
  std::vector<Route> routes = api_routes();
  std::vector<Route> machines = machine_routes();
  for (Route& route : machines) routes.push_back(std::move(route));
  std::vector<Route> pages = dashboard_routes();
  for (Route& route : pages) routes.push_back(std::move(route));
  return routes;
}

}  // namespace

const std::vector<Route>& route_table() {
  static const std::vector<Route> kTable = all_routes();
  return kTable;
}

}  // namespace shoal::coordinator::rest
