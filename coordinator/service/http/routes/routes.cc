// The route table: the only list of what this server answers, and to whom.
#include "coordinator/service/http/router.h"
#include "coordinator/service/http/routes/api.h"

namespace shoal::coordinator::rest {
namespace {

using identity::Action;

std::vector<Route> dashboard_routes() {
  return {
      {"GET", "/", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/jobs", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/jobs/{path...}", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/agents", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/agents/{path...}", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/login", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/tokens", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/audit", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/join", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/network", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/events", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/checkpoints", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/checkpoints/{path...}", Door::kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/assets/{path...}", Door::kOpen, api::dashboard_asset, nullptr, {}, true},
  };
}

const std::vector<std::string_view> kLogQuery = {"tail",   "cursor",  "level",
                                                 "source", "replica", "q"};

std::vector<Route> api_routes() {
  return {
      {"POST", "/api/v1/jobs", {Action::kSubmitJob, "submit_job"}, nullptr, api::create_job, {"dry_run", "folder"}},
      {"GET", "/api/v1/jobs", Action::kViewJob, api::list_jobs, nullptr, {"limit", "cursor", "order", "phase"}},
      {"GET", "/api/v1/jobs/{job}", Action::kViewJob, api::get_job},
      {"PATCH", "/api/v1/jobs/{job}", {Action::kControlJob, "change_job"}, nullptr, api::change_job},
      {"GET", "/api/v1/jobs/{job}/spec", Action::kViewJob, api::get_job_spec},
      {"POST", "/api/v1/jobs/{job}/cancel", {Action::kControlJob, "cancel_job"}, nullptr, api::cancel_job},
      {"POST", "/api/v1/jobs/{job}/pause", {Action::kControlJob, "pause_job"}, nullptr, api::pause_job},
      {"POST", "/api/v1/jobs/{job}/resume", {Action::kControlJob, "resume_job"}, nullptr, api::resume_job},
      {"GET", "/api/v1/jobs/{job}/rounds", Action::kViewJob, api::list_rounds, nullptr, {"limit", "cursor", "order"}},
      {"GET", "/api/v1/jobs/{job}/rounds/{round}", Action::kViewJob, api::get_round},
      {"GET",
       "/api/v1/jobs/{job}/replicas",
       Action::kViewJob,
       api::list_replicas,
       nullptr,
       {"limit", "cursor", "order"}},
      {"GET", "/api/v1/jobs/{job}/topology", Action::kViewJob, api::get_topology},
      {"GET",
       "/api/v1/jobs/{job}/checkpoints",
       Action::kViewJob,
       api::list_checkpoints,
       nullptr,
       {"limit", "cursor", "order"}},
      {"GET", "/api/v1/jobs/{job}/logs", Action::kReadLogs, nullptr, api::job_logs, kLogQuery},
      {"GET", "/api/v1/jobs/{job}/series", Action::kViewJob, api::list_series},
      {"GET",
       "/api/v1/jobs/{job}/series/query",
       Action::kViewJob,
       api::query_series,
       nullptr,
       {"name", "x", "by", "from", "to", "max_points"}},
      {"GET", "/api/v1/checkpoints/{checkpoint}", Action::kViewJob, api::get_checkpoint},
      {"GET", "/api/v1/checkpoints/{checkpoint}/files/{path...}", Action::kDownloadCheckpoint, api::get_checkpoint_file},
      {"POST",
       "/api/v1/checkpoints/{checkpoint}/verify",
       Action::kViewJob,
       nullptr,
       api::verify_checkpoint,
       {"file"}},
      {"GET", "/api/v1/examples", Action::kViewCluster, api::examples, nullptr, {}, true},
      {"GET", "/api/v1/join", Action::kViewCluster, api::how_to_join, nullptr, {}, true},
      {"GET", "/api/v1/agents", Action::kViewCluster, api::list_agents, nullptr, {"limit", "cursor", "order", "gone"}},
      {"GET", "/api/v1/agents/{agent}", Action::kViewCluster, api::get_agent},
      {"GET", "/api/v1/agents/{agent}/logs", Action::kReadAgentLogs, nullptr, api::agent_logs, kLogQuery},
      {"GET", "/api/v1/network", Action::kViewCluster, api::get_network},
      {"POST", "/api/v1/agents/{agent}/cordon", {Action::kControlAgent, "cordon_agent"}, nullptr, api::cordon_agent},
      {"POST", "/api/v1/agents/{agent}/uncordon", {Action::kControlAgent, "uncordon_agent"}, nullptr, api::uncordon_agent},
      {"POST", "/api/v1/agents/{agent}/drain", {Action::kControlAgent, "drain_agent"}, nullptr, api::drain_agent},
      {"GET",
       "/api/v1/events",
       Action::kViewCluster,
       api::list_events,
       nullptr,
       {"limit", "cursor", "order", "job", "agent", "severity"}},
      {"GET",
       "/api/v1/events/stream",
       Action::kViewCluster,
       api::stream_events,
       nullptr,
       {"job", "agent", "severity", "from"}},
      {"GET", "/api/v1/version", Action::kViewCluster, api::version, nullptr, {}, true},
      {"GET", "/api/v1/openapi.json", Action::kViewCluster, api::openapi, nullptr, {}, true},
      // The dashboard: its page at every path of its own router, and what the page loads.
      {"GET", "/problems/{slug}", Door::kOpen, api::problem_help, nullptr, {}, true},
      {"GET", "/livez", Door::kOpen, api::livez, nullptr, {"verbose"}, true},
      {"GET", "/readyz", Door::kOpen, api::readyz, nullptr, {"verbose"}, true},
      {"GET", "/healthz", Door::kOpen, api::readyz, nullptr, {"verbose"}, true},
      {"GET", "/metrics", Action::kReadMetrics, api::metrics},
  };
}

std::vector<Route> machine_routes() {
  constexpr Access kMakeToken{Action::kCreateJoinToken, "create_join_token"};
  constexpr Access kRemoveToken{Action::kCreateJoinToken, "remove_join_token"};
  return {
      {"POST",
       "/api/v1/agents/{agent}/revoke",
       {Action::kRevokeAgent, "revoke_agent"},
       api::revoke_agent},
      {"POST", "/api/v1/join/tokens", kMakeToken, api::create_join_token},
      {"GET", "/api/v1/join/tokens", Action::kCreateJoinToken, api::list_join_tokens},
      {"DELETE", "/api/v1/join/tokens/{token}", kRemoveToken, api::remove_join_token},
      {"GET", "/api/v1/authorities", Action::kViewCluster, api::list_authorities},
      {"POST",
       "/api/v1/authorities/rotate",
       {Action::kRotateCa, "rotate_ca"},
       api::rotate_authority},
      {"POST", "/api/v1/enrol", {Door::kProof, "join"}, api::enrol},
      {"POST", "/api/v1/renew", Door::kProof, api::renew},
  };
}

std::vector<Route> people_routes() {
  return {
      {"POST", "/api/v1/session", {Door::kOpen, "log_in"}, api::log_in},
      {"GET", "/api/v1/session", Door::kLogin, api::get_session},
      {"DELETE", "/api/v1/session", {Door::kOpen, "log_out"}, api::log_out},
      {"POST", "/api/v1/tickets", {Door::kLogin, "create_ticket"}, api::create_ticket},
      {"POST", "/api/v1/tokens", {Action::kManageTokens, "create_token"}, api::create_token},
      {"GET", "/api/v1/tokens", Action::kManageTokens, api::list_tokens},
      {"DELETE",
       "/api/v1/tokens/{token}",
       {Action::kManageTokens, "revoke_token"},
       api::revoke_token},
      {"GET", "/api/v1/audit", Action::kReadAudit, api::list_audit, nullptr, {"limit", "cursor", "order"}},
  };
}

std::vector<Route> all_routes() {
  std::vector<Route> routes = api_routes();
  for (auto more : {machine_routes, people_routes, dashboard_routes}) {
    for (Route& route : more()) routes.push_back(std::move(route));
  }
  return routes;
}

}  // namespace

const std::vector<Route>& route_table() {
  static const std::vector<Route> kTable = all_routes();
  return kTable;
}

}  // namespace shoal::coordinator::rest
