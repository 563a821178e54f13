// Jobs: create, cancel, list, show, and their replicas. Commands are parsed on a worker, answered
// by the cluster's core, and shown as the stored record.
#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "base/text.h"
#include "coordinator/service/files/resolve.h"
#include "coordinator/service/http/access.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/dry_run.h"
#include "coordinator/service/http/routes/plan.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"
#include "job/data_rules.h"
#include "job/job_rules.h"
#include "proto/job_spec_text.h"

namespace shoal::coordinator::rest::api {
namespace {

constexpr std::size_t kSpecMax = 64 << 10;  // the texts of all jobs are kept

Response spec_refused(const Request& request, const proto::SpecProblems& problems) {
  return problem_response(
      problems.syntax ? Problem::kMalformedSpec : Problem::kInvalidSpec, request, problems.summary,
      problems.fields, problems.syntax ? "" : "correct the fields that are named, then try again");
}

bool is_measured(const AgentRecord& agent, std::int32_t index) {
  return std::any_of(agent.devices.begin(), agent.devices.end(), [&](const Device& device) {
    return device.index == index && device.gflops > 0;
  });
}

// Empty: no job that has not ended has the name.
std::string who_has_the_name(Context& context, const std::string& name) {
  const auto job = context.reader->job_by_name(name);
  if (!job.ok() || !job.value() || is_terminal((*job)->phase)) return {};
  return to_string((*job)->id) + ", which is " + to_string((*job)->phase);
}

DryRunFacts facts_of(Context& context, const JobSpec& spec, const PlacementDecision& plan) {
  DryRunFacts facts;
  facts.name_taken_by = who_has_the_name(context, spec.name);
  facts.data = look_at_data(spec, context.options.data_roots);
  for (const Place& place : plan.places) {
    const auto agent = context.reader->agent(place.agent);
    const bool known = agent.ok() && agent.value().has_value();
    facts.agents.push_back({known ? (*agent)->name : to_string(place.agent),
                            known && is_measured(**agent, place.device)});
  }
  return facts;
}

// What a dry run says: the job as it would run, what it would need, where it would be placed, and
// what may surprise about it.
Response dry_run_accepted(Context& context, const JobSpec& accepted,
                          const PlacementDecision& plan) {
  const JobSpec spec = with_derived_fields(accepted);
  Json estimate;
  estimate["parameters"] = parameter_count(spec.model);
  estimate["training_memory_bytes"] = training_memory(spec).count();
  estimate["rounds"] = rounds_or_null(spec);
  Json json;
  json["dry_run"] = true;
  json["spec"] = proto::spec_to_json(spec);
  json["estimate"] = std::move(estimate);
  json["plan"] = plan_json(spec, plan, [&](AgentId id) {
    const auto agent = context.reader->agent(id);
    return agent.ok() && agent.value() ? (*agent)->name : to_string(id);
  });
  const DryRunFacts facts = facts_of(context, spec, plan);
  json["data"] = data_json(facts.data);
  json["notes"] = dry_run_notes(spec, plan, facts);
  return json_response(json);
}

// The record after a command, with the status that the command promises.
Response show_job(Context& context, const Request& request, JobId id, int status) {
  const auto job = context.reader->job(id);
  if (!job.ok()) return problem_response(job.error(), request);
  if (!job.value()) {
    return problem_response(Problem::kInternal, request,
                            to_string(id) + " was accepted but is not in the store");
  }
  Response response = json_response(job_json(**job, *context.cluster.live()), status);
  response.audited.object = to_string(id);
  response.audited.after = to_string((*job)->desired);
  if (status == 201) response.headers.emplace_back("Location", "/api/v1/jobs/" + to_string(id));
  return response;
}

Response show_new_job(Context& context, const Request& request, JobId id) {
  Response response = show_job(context, request, id, 201);
  const auto job = context.reader->job(id);
  if (job.ok() && job.value()) response.audited.after = (*job)->spec.name;
  return response;
}

std::string_view media_type(std::string_view text) {
  return trimmed(text.substr(0, text.find(';')));
}

// Where the submitter's relative paths begin; empty: they stay relative.
Result<std::string> read_folder(const Request& request) {
  const std::string* folder = request.query_value("folder");
  if (folder == nullptr) return std::string();
  if (!folder->starts_with('/')) return bad_query("folder", "must be an absolute path");
  return *folder;
}

std::string path_from(const std::string& folder, const std::string& path) {
  if (path.empty() || !parse_data_path(path).root.empty()) return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

// Makes relative paths absolute. What is refused then: a path that became too long.
std::vector<FieldError> begin_paths_at(const std::string& folder, JobSpec& spec) {
  if (folder.empty()) return {};
  spec.data.train = path_from(folder, spec.data.train);
  spec.data.tokenizer_file = path_from(folder, spec.data.tokenizer_file);
  return validate(spec);
}

Result<std::vector<JobPhase>> read_phases(const Request& request) {
  const auto words = all_words<JobPhase>();
  std::vector<JobPhase> phases;
  for (const auto& [name, text] : request.query) {
    if (name != "phase") continue;
    for (std::size_t start = 0; start <= text.size();) {
      const std::size_t end = std::min(text.find(',', start), text.size());
      const std::string word = text.substr(start, end - start);
      const auto it = std::find(words.begin(), words.end(), word);
      if (it == words.end())
        return bad_query("phase", "must be of " + joined(words) + "; got \"" + word + "\"");
      phases.push_back(static_cast<JobPhase>(it - words.begin()));
      start = end + 1;
    }
  }
  return phases;
}

// {"outer_lr": 0.4, "priority": 60}, or one of them.
Result<ChangeJob> read_change(const Request& request) {
  const auto bad = [](std::string detail, std::string pointer = "") {
    return Error{
        Code::kInvalidArgument, std::move(detail), std::move(pointer),
        "send {\"outer_lr\": 0.4} or {\"priority\": 60}: they are what can be changed while "
        "a job runs"};
  };
  const Json body = Json::parse(request.body, nullptr, false);
  if (!body.is_object() || body.empty()) return bad("the body must be a JSON object with a field");
  ChangeJob change;
  for (const auto& [key, value] : body.items()) {
    if (key == "outer_lr") {
      if (!value.is_number()) return bad("outer_lr must be a number", "/outer_lr");
      change.outer_lr = value.get<double>();
    } else if (key == "priority") {
      if (!value.is_number_integer()) return bad("priority must be a whole number", "/priority");
      change.priority = value.get<std::int64_t>();
    } else {
      return bad("unknown field \"" + key + "\"");
    }
  }
  return change;
}

// The words of the audit trail for what a change asks; of `job`, as it was, where one is given.
std::string text_of(const ChangeJob& change, const JobRecord* job = nullptr) {
  std::string text;
  const auto add = [&](const char* name, const Json& value) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " = " + value.dump();
  };
  if (change.outer_lr) add("outer_lr", job == nullptr ? *change.outer_lr : job->outer_lr);
  if (change.priority) add("priority", job == nullptr ? *change.priority : job->priority);
  return text;
}

// Only people who answer for the whole cluster may raise a priority above the default. Otherwise
// users would outbid each other without end.
std::optional<Response> refused_priority(const Request& request, std::int64_t priority,
                                         const char* pointer) {
  const Principal& who = request.principal;
  const bool may = identity::allowed(who.scopes, identity::Action::kRaisePriority, true);
  if (may || priority <= kPriorityDefault) return std::nullopt;
  const std::string most = std::to_string(kPriorityDefault);
  return problem_response(
      Problem::kPermissionDenied, request, "the priority is not accepted",
      {{pointer, "must be at most " + most + " (the default) with the scope " +
                     to_string(who.scopes) + ", got " + std::to_string(priority)}},
      "ask for at most " + most +
          ", or let an operator or admin raise it: `shoal job set JOB "
          "--priority " +
          std::to_string(priority) + "`");
}

// What a job names must be stored before the job is accepted, because agents fetch it by its hash;
// and one of the users may read it. `what` begins the answer. None: all is well.
std::optional<Response> refuse_uploads(Context& context, const Request& request,
                                       const JobSpec& spec, std::span<const ObjectUser> users,
                                       const char* what) {
  const FileStore* files = context.options.files;
  std::vector<FieldError> refused;
  if (files != nullptr) refused = refused_uploads(spec, *files, users);
  if (files == nullptr && !spec.trainer.code.empty()) {
    refused.push_back({"/trainer/code", spec.trainer.code + " was not uploaded"});
  }
  if (refused.empty()) return std::nullopt;
  const bool is_code = refused.front().pointer == "/trainer/code";
  Response response = problem_response(
      Problem::kInvalidSpec, request, what, std::move(refused),
      is_code ? "`shoal job submit FILE --code FOLDER` sends the files of a folder with the job"
              : "`shoal dataset add` sends a dataset");
  if (files != nullptr) response.forbidden = forbidden_uploads(spec, *files, users);
  return response;
}

using JobCommand = void (Cluster::*)(JobId, std::function<void(Cluster::Answer)>);

// Shows the job as it is after a command: accepted, the phase follows.
std::function<void(Cluster::Answer)> shown_later(Context& context, const Request& request,
                                                 const JobRecord& before, Replier reply) {
  return [on_worker = context.on_worker, request, before, reply](Cluster::Answer answer) {
    on_worker([=](Context& worker) {
      if (!answer.result.ok()) return reply(command_refused(request, answer, Problem::kConflict));
      Response response = show_job(worker, request, before.id, 202);
      response.audited.before = to_string(before.desired);
      reply(std::move(response));
    });
  };
}

void command_job(Context& context, const Request& request, JobCommand command, Replier reply) {
  const auto job = find_job(context, request);
  if (!job.ok()) return reply(problem_response(job.error(), request));
  (context.cluster.*command)(job->id, shown_later(context, request, *job, std::move(reply)));
}

Result<std::vector<CheckpointRecord>> set_aside(Context& context, JobId job) {
  std::vector<CheckpointRecord> aside;
  PageRequest page{.limit = 500};
  for (;;) {
    auto read = context.reader->checkpoints(job, page);
    if (!read.ok()) return read.error();
    for (CheckpointRecord& checkpoint : read->items) {
      if (checkpoint.state == CheckpointState::kFailed) aside.push_back(std::move(checkpoint));
    }
    if (!read->next) return aside;
    page.after = *read->next;
  }
}

}  // namespace

Response command_refused(const Request& request, const Cluster::Answer& answer,
                         Problem on_conflict) {
  const Error& error = answer.result.error();
  const Problem problem = error.code == Code::kConflict ? on_conflict : problem_of(error.code);
  std::vector<FieldError> fields = answer.fields;
  if (fields.empty() && !error.field.empty()) fields.push_back({error.field, error.message});
  Response response =
      problem_response(problem, request, error.message, std::move(fields), error.remedy);
  response.forbidden = answer.forbidden;
  return response;
}

namespace {

// Fills in the hashes of its datasets, and how its sequences are best leased.
Status resolve(Context& context, Cluster::NewJob& job) {
  if (datasets_of(job.spec.data).empty()) return {};
  const FileStore* files = context.options.files;
  if (files == nullptr) {
    return Error{Code::kUnavailable, "this server keeps no datasets", "", ""};
  }
  if (Status s = resolve_datasets(job.spec, *files, job.owner); !s.ok()) {
    Error error = s.error();
    std::ranges::replace(error.field, '.', '/');
    if (!error.field.empty()) error.field = "/" + error.field;
    return error;
  }
  job.lease_unit = lease_unit_of(job.spec, *files);
  return {};
}

}  // namespace

void create_job(Context& context, const Request& request, Replier reply) {
  const auto dry_run = read_flag(request, "dry_run");
  if (!dry_run.ok()) return reply(problem_response(dry_run.error(), request));
  const auto folder = read_folder(request);
  if (!folder.ok()) return reply(problem_response(folder.error(), request));
  const std::string_view type = media_type(request.content_type);
  if (type != "application/json" && type != "application/toml") {
    return reply(problem_response(Problem::kUnsupportedType, request,
                                  "Content-Type is \"" + request.content_type + "\"", {},
                                  "send application/json or application/toml"));
  }
  if (request.body.size() > kSpecMax) {
    return reply(problem_response(Problem::kBodyTooLarge, request,
                                  "a job has at most " + std::to_string(kSpecMax) +
                                      " bytes, this one has " +
                                      std::to_string(request.body.size())));
  }
  proto::SpecOrProblems read = type == "application/json" ? proto::read_spec_json(request.body)
                                                          : proto::read_spec_toml(request.body);
  if (read.problems) return reply(spec_refused(request, *read.problems));
  if (auto no = refused_priority(request, read.spec.swarm.priority, "/swarm/priority")) {
    return reply(std::move(*no));
  }
  if (auto fields = begin_paths_at(folder.value(), read.spec); !fields.empty()) {
    return reply(spec_refused(request, {"the folder makes a path too long", std::move(fields)}));
  }

  Cluster::NewJob job{.spec = std::move(read.spec),
                      .owner = object_user(request.principal),
                      .submitted = {{}, std::string(type), request.body}};
  if (Status s = resolve(context, job); !s.ok()) {
    Response refused = problem_response(s.error(), request);
    if (context.options.files != nullptr) {
      refused.forbidden = forbidden_uploads(job.spec, *context.options.files, {&job.owner, 1});
    }
    return reply(std::move(refused));
  }
  // The code of a dry run is sent with the job itself.
  auto no_uploads = dry_run.value() ? std::nullopt
                                    : refuse_uploads(context, request, job.spec, {&job.owner, 1},
                                                     "the job is not accepted");
  if (no_uploads) return reply(std::move(*no_uploads));
  Request kept = request;
  kept.body.clear();
  auto done = [on_worker = context.on_worker, kept = std::move(kept), spec = job.spec,
               dry = dry_run.value(), reply](Cluster::Answer answer) {
    on_worker([=](Context& worker) {
      if (!answer.result.ok()) return reply(command_refused(kept, answer, Problem::kNameTaken));
      reply(dry ? dry_run_accepted(worker, spec, *answer.plan)
                : show_new_job(worker, kept, answer.result.value()));
    });
  };
  context.cluster.submit(std::move(job), dry_run.value(), std::move(done));
}

void cancel_job(Context& context, const Request& request, Replier reply) {
  command_job(context, request, &Cluster::cancel, std::move(reply));
}

void pause_job(Context& context, const Request& request, Replier reply) {
  command_job(context, request, &Cluster::pause, std::move(reply));
}

// What the job names is authorized again (core/object_access.h): for its owner or for the person
// who resumes it.
void resume_job(Context& context, const Request& request, Replier reply) {
  const auto job = find_job(context, request);
  if (!job.ok()) return reply(problem_response(job.error(), request));
  const std::array users{ObjectUser{.name = job->owner}, object_user(request.principal)};
  if (job->phase == JobPhase::kPaused) {
    auto no = refuse_uploads(context, request, job->spec, users, "the job cannot continue");
    if (no) return reply(std::move(*no));
  }
  context.cluster.resume(job->id, users.back(), shown_later(context, request, *job, reply));
}

// Answered with the job as it was.
void remove_job(Context& context, const Request& request, Replier reply) {
  const auto job = find_job(context, request);
  if (!job.ok()) return reply(problem_response(job.error(), request));
  auto aside = set_aside(context, job.value().id);
  if (!aside.ok()) return reply(problem_response(aside.error(), request));
  Response removed = json_response(job_json(job.value(), *context.cluster.live()));
  removed.audited.object = to_string(job.value().id);
  removed.audited.before = job.value().spec.name;
  auto done = [request, reply, removed](const Cluster::Answer& answer) {
    if (!answer.result.ok()) return reply(command_refused(request, answer, Problem::kConflict));
    reply(removed);
  };
  context.cluster.remove_job(job.value().id, std::move(aside).value(), std::move(done));
}

void change_job(Context& context, const Request& request, Replier reply) {
  const auto job = find_job(context, request);
  if (!job.ok()) return reply(problem_response(job.error(), request));
  auto change = read_change(request);
  if (!change.ok()) return reply(problem_response(change.error(), request));
  if (auto no = refused_priority(request, change->priority.value_or(0), "/priority")) {
    return reply(std::move(*no));
  }
  change->job = job.value().id;
  auto done = [on_worker = context.on_worker, request, before = job.value(),
               change = change.value(), reply](Cluster::Answer answer) {
    on_worker([=](Context& worker) {
      if (!answer.result.ok()) return reply(command_refused(request, answer, Problem::kConflict));
      Response response = show_job(worker, request, before.id, 200);
      response.audited.before = text_of(change, &before);
      response.audited.after = text_of(change);
      reply(std::move(response));
    });
  };
  context.cluster.change(change.value(), std::move(done));
}

Result<JobRecord> find_job(Context& context, const Request& request) {
  const std::string& text = request.part("job");
  const auto id = parse_id<JobTag>(text);
  auto job = id ? context.reader->job(*id) : context.reader->job_by_name(text);
  if (!job.ok()) return job.error();
  if (!job.value()) {
    return Error{Code::kNotFound, "there is no job \"" + text + "\"", "",
                 "`shoal job ls` lists ids and names"};
  }
  return std::move(**job);
}

Result<Response> list_jobs(Context& context, const Request& request) {
  const auto page = read_page(request, "jobs", true);
  if (!page.ok()) return page.error();
  const auto phases = read_phases(request);
  if (!phases.ok()) return phases.error();
  const std::string* search = request.query_value("search");
  const auto jobs = context.reader->jobs(
      page.value(), {phases.value(), search == nullptr ? std::string() : *search});
  if (!jobs.ok()) return jobs.error();
  const auto live = context.cluster.live();
  Json items = Json::array();
  for (const JobRecord& job : jobs.value().items) items.push_back(job_json(job, *live));
  return json_response(page_json(std::move(items), jobs.value().next, "jobs"));
}

Result<Response> get_job(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  return json_response(job_json(job.value(), *context.cluster.live()));
}

// Byte for byte what was submitted, comments included.
Result<Response> get_job_spec(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto submitted = context.reader->submitted_text(job.value().id);
  if (!submitted.ok()) return submitted.error();
  if (!submitted.value()) {
    return Error{Code::kNotFound, to_string(job.value().id) + " has no submitted text", "",
                 "its spec is in GET /api/v1/jobs/" + to_string(job.value().id)};
  }
  Response response;
  response.content_type = (*submitted)->media_type + "; charset=utf-8";
  response.body = (*submitted)->text;
  return response;
}

Result<Response> list_replicas(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto page = read_page(request, "replicas", false);
  if (!page.ok()) return page.error();
  const auto replicas = context.reader->replicas(job.value().id, page.value());
  if (!replicas.ok()) return replicas.error();
  const auto live = context.cluster.live();
  Json items = Json::array();
  for (const ReplicaRecord& replica : replicas.value().items)
    items.push_back(replica_json(replica, *live));
  return json_response(page_json(std::move(items), replicas.value().next, "replicas"));
}

}  // namespace shoal::coordinator::rest::api
