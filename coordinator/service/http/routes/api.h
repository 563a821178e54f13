// The handlers, by file. Each reads a Request, asks the Reader or the Cluster, and gives a Response
// or an Error that becomes a problem document. routes.cc says which path each one serves.
#pragma once

#include "coordinator/service/http/context.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/router.h"

namespace shoal::coordinator::rest::api {

// jobs.cc
Response command_refused(const Request& request, const Cluster::Answer& answer,
                         Problem on_conflict);
void create_job(Context& context, const Request& request, Replier reply);
void cancel_job(Context& context, const Request& request, Replier reply);
void pause_job(Context& context, const Request& request, Replier reply);
void resume_job(Context& context, const Request& request, Replier reply);
void remove_job(Context& context, const Request& request, Replier reply);
void change_job(Context& context, const Request& request, Replier reply);
Result<Response> list_jobs(Context& context, const Request& request);
Result<Response> get_job(Context& context, const Request& request);
Result<Response> get_job_spec(Context& context, const Request& request);
Result<Response> list_replicas(Context& context, const Request& request);
Result<JobRecord> find_job(Context& context, const Request& request);  // by part {job}: id or name

// network.cc
Result<Response> get_network(Context& context, const Request& request);

// topology.cc
Result<Response> get_topology(Context& context, const Request& request);

// placement.cc
Result<Response> get_placement(Context& context, const Request& request);

// rounds.cc
Result<Response> list_rounds(Context& context, const Request& request);
Result<Response> get_round(Context& context, const Request& request);
Result<Response> list_series(Context& context, const Request& request);
Result<Response> query_series(Context& context, const Request& request);

// checkpoints.cc
Result<Response> list_checkpoints(Context& context, const Request& request);
Result<Response> list_all_checkpoints(Context& context, const Request& request);
Result<Response> get_checkpoint(Context& context, const Request& request);
Result<Response> get_checkpoint_file(Context& context, const Request& request);

Result<CheckpointRecord> find_checkpoint(Context& context, const Request& request);
Result<FilePart> open_file(const std::string& folder, const FileEntry& entry);  // kDataLoss
// Whether a stored checkpoint lies in the object store.
bool is_in_bucket(const Context& context, CheckpointId id);

Response stored_file_response(const Request& request, const FileEntry& entry,
                              FilePart part);  // ranges

// files.cc
Result<Response> add_file(Context& context, const Request& request);
Result<Response> put_file(Context& context, const Request& request);
Result<Response> get_file(Context& context, const Request& request);
Result<Response> list_files(Context& context, const Request& request);
Result<Response> get_file_content(Context& context, const Request& request);
Result<Response> remove_file(Context& context, const Request& request);
void verify_file(Context& context, const Request& request, Replier reply);
Result<Response> add_dataset(Context& context, const Request& request);
Result<Response> list_datasets(Context& context, const Request& request);
Result<Response> get_dataset(Context& context, const Request& request);
Result<Response> list_shards(Context& context, const Request& request);
Result<Response> remove_dataset(Context& context, const Request& request);

// checkpoint_commands.cc
void pin_checkpoint(Context& context, const Request& request, Replier reply);
void unpin_checkpoint(Context& context, const Request& request, Replier reply);
void remove_checkpoint(Context& context, const Request& request, Replier reply);

// verify.cc
void verify_checkpoint(Context& context, const Request& request, Replier reply);

// logs.cc
void agent_logs(Context& context, const Request& request, Replier reply);
void job_logs(Context& context, const Request& request, Replier reply);

// agents.cc
Result<Response> list_agents(Context& context, const Request& request);
Result<Response> device_history(Context& context, const Request& request);
Result<Response> get_agent(Context& context, const Request& request);
void cordon_agent(Context& context, const Request& request, Replier reply);
void uncordon_agent(Context& context, const Request& request, Replier reply);
void drain_agent(Context& context, const Request& request, Replier reply);
void forget_agent(Context& context, const Request& request, Replier reply);
// By id, or by name: the one that is here, else the one that went last.
Result<AgentRecord> find_agent(Context& context, const std::string& text);
Result<Response> list_events(Context& context, const Request& request);
Result<Response> stream_events(Context& context, const Request& request);

// machines.cc
Result<Response> create_join_token(Context& context, const Request& request);
Result<Response> list_join_tokens(Context& context, const Request& request);
Result<Response> remove_join_token(Context& context, const Request& request);
Result<Response> enrol(Context& context, const Request& request);
Result<Response> renew(Context& context, const Request& request);
Result<Response> revoke_agent(Context& context, const Request& request);
Result<Response> list_authorities(Context& context, const Request& request);
Result<Response> rotate_authority(Context& context, const Request& request);

// people.cc
Result<Response> log_in(Context& context, const Request& request);
Result<Response> get_session(Context& context, const Request& request);
Result<Response> log_out(Context& context, const Request& request);
Result<Response> create_ticket(Context& context, const Request& request);
Result<Response> create_token(Context& context, const Request& request);
Result<Response> list_tokens(Context& context, const Request& request);
Result<Response> revoke_token(Context& context, const Request& request);
Result<Response> list_audit(Context& context, const Request& request);

// dashboard.cc
Result<Response> dashboard_page(Context& context, const Request& request);
Result<Response> dashboard_asset(Context& context, const Request& request);

// meta.cc
Result<Response> problem_help(Context& context, const Request& request);
Result<Response> examples(Context& context, const Request& request);
Result<Response> how_to_join(Context& context, const Request& request);
Result<Response> version(Context& context, const Request& request);
Result<Response> openapi(Context& context, const Request& request);
Result<Response> livez(Context& context, const Request& request);
Result<Response> readyz(Context& context, const Request& request);
Result<Response> metrics(Context& context, const Request& request);

}  // namespace shoal::coordinator::rest::api
