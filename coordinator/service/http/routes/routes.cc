// The route table: the only list of what this server answers, and to whom.
#include "coordinator/service/http/router.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/space.h"

namespace shoal::coordinator::rest {
namespace {

using identity::Action;

using Query = std::vector<std::string_view>;
const Query kPaged = {"limit", "cursor", "order"};
const Query kLogQuery = {"tail", "cursor", "level", "source", "replica", "q"};
const Query kPagedJobs = {"limit", "cursor", "order", "phase", "search"};
const Query kPagedAgents = {"limit", "cursor", "order", "gone"};
const Query kPagedCheckpoints = {"limit", "cursor", "order", "state"};
const Query kPagedEvents = {"limit", "cursor", "order", "job", "agent", "severity"};
const Query kStreamQuery = {"job", "agent", "severity", "from"};
const Query kSeriesQuery = {"name", "x", "by", "from", "to", "max_points"};

constexpr Access kSeeJob = Action::kViewJob;
constexpr Access kSeeCluster = Action::kViewCluster;
constexpr Access kReadLogs = Action::kReadLogs;
constexpr Access kReadAgentLogs = Action::kReadAgentLogs;
constexpr Access kDownload = Action::kDownloadCheckpoint;
constexpr Access kReadMetrics = Action::kReadMetrics;
constexpr Access kOpen = Door::kOpen;
constexpr Access kSubmit{Action::kSubmitJob, "submit_job"};
constexpr Access kChange{Action::kControlJob, "change_job"};
constexpr Access kCancel{Action::kControlJob, "cancel_job"};
constexpr Access kPause{Action::kControlJob, "pause_job"};
constexpr Access kResume{Action::kControlJob, "resume_job"};
constexpr Access kRemoveJob{Action::kControlJob, "remove_job"};
constexpr Access kPin{Action::kControlJob, "pin_checkpoint"};
constexpr Access kUnpin{Action::kControlJob, "unpin_checkpoint"};
constexpr Access kRemoveCheckpoint{Action::kControlJob, "remove_checkpoint"};
constexpr Access kCordon{Action::kControlAgent, "cordon_agent"};
constexpr Access kUncordon{Action::kControlAgent, "uncordon_agent"};
constexpr Access kDrain{Action::kControlAgent, "drain_agent"};
constexpr Access kForget{Action::kControlAgent, "forget_agent"};
constexpr Access kRevoke{Action::kRevokeAgent, "revoke_agent"};
constexpr Access kSeeJoinTokens = Action::kCreateJoinToken;
constexpr Access kMakeJoinToken{Action::kCreateJoinToken, "create_join_token"};
constexpr Access kRemoveJoinToken{Action::kCreateJoinToken, "remove_join_token"};
constexpr Access kRotate{Action::kRotateCa, "rotate_ca"};
constexpr Access kSeeTokens = Action::kManageTokens;
constexpr Access kMakeToken{Action::kManageTokens, "create_token"};
constexpr Access kRevokeToken{Action::kManageTokens, "revoke_token"};
constexpr Access kReadAudit = Action::kReadAudit;
constexpr Access kViewSpace = Action::kViewSpace;

constexpr Access kDownloadFile = Action::kDownloadData;
constexpr Access kAddFile{Action::kManageData, "add_file"};
constexpr Access kPutFile = Action::kManageData;  // its announcement is in the audit trail
constexpr Access kRemoveFile{Action::kManageData, "remove_file"};
constexpr Access kAddDataset{Action::kManageData, "add_dataset"};
constexpr Access kRemoveDataset{Action::kManageData, "remove_dataset"};

std::vector<Route> job_routes() {
  return {
      {"POST", "/api/v1/jobs", kSubmit, nullptr, api::create_job, {"dry_run", "folder"}},
      {"GET", "/api/v1/jobs", kSeeJob, api::list_jobs, nullptr, kPagedJobs},
      {"GET", "/api/v1/jobs/{job}", kSeeJob, api::get_job},
      {"PATCH", "/api/v1/jobs/{job}", kChange, nullptr, api::change_job},
      {"DELETE", "/api/v1/jobs/{job}", kRemoveJob, nullptr, api::remove_job},
      {"GET", "/api/v1/jobs/{job}/spec", kSeeJob, api::get_job_spec},
      {"POST", "/api/v1/jobs/{job}/cancel", kCancel, nullptr, api::cancel_job},
      {"POST", "/api/v1/jobs/{job}/pause", kPause, nullptr, api::pause_job},
      {"POST", "/api/v1/jobs/{job}/resume", kResume, nullptr, api::resume_job},
      {"GET", "/api/v1/jobs/{job}/rounds", kSeeJob, api::list_rounds, nullptr, kPaged},
      {"GET", "/api/v1/jobs/{job}/rounds/{round}", kSeeJob, api::get_round},
      {"GET", "/api/v1/jobs/{job}/replicas", kSeeJob, api::list_replicas, nullptr, kPaged},
      {"GET", "/api/v1/jobs/{job}/topology", kSeeJob, api::get_topology},
      {"GET", "/api/v1/jobs/{job}/placement", kSeeJob, api::get_placement},
      {"GET", "/api/v1/jobs/{job}/checkpoints", kSeeJob, api::list_checkpoints, nullptr, kPaged},
      {"GET", "/api/v1/jobs/{job}/logs", kReadLogs, nullptr, api::job_logs, kLogQuery},
      {"GET", "/api/v1/jobs/{job}/series", kSeeJob, api::list_series},
      {"GET", "/api/v1/jobs/{job}/series/query", kSeeJob, api::query_series, nullptr, kSeriesQuery},
  };
}

std::vector<Route> checkpoint_routes() {
  return {
      {"GET", "/api/v1/checkpoints", kSeeJob, api::list_all_checkpoints, nullptr,
       kPagedCheckpoints},
      {"GET", "/api/v1/checkpoints/{checkpoint}", kSeeJob, api::get_checkpoint},
      {"DELETE",
       "/api/v1/checkpoints/{checkpoint}",
       kRemoveCheckpoint,
       nullptr,
       api::remove_checkpoint,
       {"force"}},
      {"POST", "/api/v1/checkpoints/{checkpoint}/pin", kPin, nullptr, api::pin_checkpoint},
      {"POST", "/api/v1/checkpoints/{checkpoint}/unpin", kUnpin, nullptr, api::unpin_checkpoint},
      {"GET", "/api/v1/checkpoints/{checkpoint}/files/{path...}", kDownload,
       api::get_checkpoint_file},
      {"POST",
       "/api/v1/checkpoints/{checkpoint}/verify",
       kSeeJob,
       nullptr,
       api::verify_checkpoint,
       {"file"}},
  };
}

std::vector<Route> cluster_routes() {
  return {
      {"GET", "/api/v1/examples", kSeeCluster, api::examples, nullptr, {}, true},
      {"GET", "/api/v1/join", kSeeCluster, api::how_to_join, nullptr, {}, true},
      {"GET", "/api/v1/agents", kSeeCluster, api::list_agents, nullptr, kPagedAgents},
      {"GET", "/api/v1/agents/{agent}", kSeeCluster, api::get_agent},
      {"DELETE", "/api/v1/agents/{agent}", kForget, nullptr, api::forget_agent},
      {"GET",
       "/api/v1/agents/{agent}/devices/history",
       kSeeCluster,
       api::device_history,
       nullptr,
       {"hours"}},
      {"GET", "/api/v1/agents/{agent}/logs", kReadAgentLogs, nullptr, api::agent_logs, kLogQuery},
      {"GET", "/api/v1/network", kSeeCluster, api::get_network},
      {"POST", "/api/v1/agents/{agent}/cordon", kCordon, nullptr, api::cordon_agent},
      {"POST", "/api/v1/agents/{agent}/uncordon", kUncordon, nullptr, api::uncordon_agent},
      {"POST", "/api/v1/agents/{agent}/drain", kDrain, nullptr, api::drain_agent},
      {"GET", "/api/v1/events", kSeeCluster, api::list_events, nullptr, kPagedEvents},
      {"GET", "/api/v1/events/stream", kSeeCluster, api::stream_events, nullptr, kStreamQuery},
      {"GET", "/api/v1/space", kViewSpace, nullptr, api::get_space},
      {"GET", "/api/v1/version", kSeeCluster, api::version, nullptr, {}, true},
      {"GET", "/api/v1/openapi.json", kSeeCluster, api::openapi, nullptr, {}, true},
      {"GET", "/problems/{slug}", kOpen, api::problem_help, nullptr, {}, true},
      {"GET", "/livez", kOpen, api::livez, nullptr, {"verbose"}, true},
      {"GET", "/readyz", kOpen, api::readyz, nullptr, {"verbose"}, true},
      {"GET", "/healthz", kOpen, api::readyz, nullptr, {"verbose"}, true},
      {"GET", "/metrics", kReadMetrics, api::metrics},
  };
}

std::vector<Route> machine_routes() {
  return {
      {"POST", "/api/v1/agents/{agent}/revoke", kRevoke, api::revoke_agent},
      {"POST", "/api/v1/join/tokens", kMakeJoinToken, api::create_join_token},
      {"GET", "/api/v1/join/tokens", kSeeJoinTokens, api::list_join_tokens},
      {"DELETE", "/api/v1/join/tokens/{token}", kRemoveJoinToken, api::remove_join_token},
      {"GET", "/api/v1/authorities", kSeeCluster, api::list_authorities},
      {"POST", "/api/v1/authorities/rotate", kRotate, api::rotate_authority},
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
      {"POST", "/api/v1/tokens", kMakeToken, api::create_token},
      {"GET", "/api/v1/tokens", kSeeTokens, api::list_tokens},
      {"DELETE", "/api/v1/tokens/{token}", kRevokeToken, api::revoke_token},
      {"GET", "/api/v1/audit", kReadAudit, api::list_audit, nullptr, kPaged},
  };
}

std::vector<Route> data_routes() {
  return {
      {"POST", "/api/v1/files", kAddFile, api::add_file},
      {"GET", "/api/v1/files", kSeeJob, api::list_files, nullptr, kPaged},
      {"GET", "/api/v1/files/{sha256}", kSeeJob, api::get_file},
      {"PUT", "/api/v1/files/{sha256}", kPutFile, api::put_file, nullptr, {"from"}},
      {"DELETE", "/api/v1/files/{sha256}", kRemoveFile, api::remove_file},
      {"GET", "/api/v1/files/{sha256}/content", kDownloadFile, api::get_file_content},
      {"POST", "/api/v1/files/{sha256}/verify", kSeeJob, nullptr, api::verify_file},
      {"POST", "/api/v1/datasets", kAddDataset, api::add_dataset},
      {"GET", "/api/v1/datasets", kSeeJob, api::list_datasets, nullptr, kPaged},
      {"GET", "/api/v1/datasets/{dataset}", kSeeJob, api::get_dataset},
      {"DELETE", "/api/v1/datasets/{dataset}", kRemoveDataset, api::remove_dataset},
      {"GET", "/api/v1/datasets/{dataset}/shards", kSeeJob, api::list_shards, nullptr, kPaged},
  };
}

// The page at every path of its own router, and what it loads.
std::vector<Route> dashboard_routes() {
  return {
      {"GET", "/", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/jobs", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/jobs/{path...}", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/agents", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/agents/{path...}", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/login", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/tokens", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/audit", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/join", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/network", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/events", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/checkpoints", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/checkpoints/{path...}", kOpen, api::dashboard_page, nullptr, {}, true, true},
      {"GET", "/assets/{path...}", kOpen, api::dashboard_asset, nullptr, {}, true},
  };
}

std::vector<Route> all_routes() {
  std::vector<Route> routes = job_routes();
  for (auto more : {checkpoint_routes, cluster_routes, machine_routes, people_routes, data_routes,
                    dashboard_routes}) {
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
