// Agents and their commands, the history of events, and the start of an event stream (stream.h
// continues it).
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest::api {
namespace {

Result<EventFilter> read_filter(Context& context, const Request& request) {
  EventFilter filter;
  if (const std::string* text = request.query_value("job")) {
    Request named;
    named.parts.emplace_back("job", *text);
    const auto job = find_job(context, named);
    if (!job.ok()) return job.error();
    filter.job = job.value().id;
  }
  if (const std::string* text = request.query_value("agent")) {
    const auto agent = find_agent(context, *text);
    if (!agent.ok()) return agent.error();
    filter.agent = agent.value().id;
  }
  if (const std::string* text = request.query_value("severity")) {
    const auto words = all_words<Severity>();
    const auto it = std::find(words.begin(), words.end(), *text);
    if (it == words.end())
      return bad_query("severity", "must be one of " + joined(words) +
                                       " (the least severity to show), got \"" + *text + "\"");
    filter.severity_min = static_cast<Severity>(it - words.begin());
  }
  return filter;
}

// seq of the newest or oldest event in the store; 0: there is none.
Result<std::int64_t> end_of_history(Context& context, bool newest) {
  PageRequest page;
  page.limit = 1;
  page.newest_first = newest;
  const auto events = context.reader->events(EventFilter{}, page);
  if (!events.ok()) return events.error();
  return events.value().items.empty() ? 0 : events.value().items[0].seq;
}

// Where the client wants to continue: none when it does not say; -1 when what it says was never a
// seq.
std::optional<std::int64_t> resume_point(const Request& request) {
  const std::string* from = request.query_value("from");
  const std::string& text = !request.last_event_id.empty() ? request.last_event_id
                            : from != nullptr              ? *from
                                                           : request.last_event_id;
  if (text.empty()) return std::nullopt;
  std::int64_t seq = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seq);
  if (error != std::errc() || end != text.data() + text.size() || seq < 0) return -1;
  return seq;
}

std::string state_text(const AgentRecord& agent) {
  return std::string(to_string(agent.state)) + (agent.cordoned ? ", cordoned" : "");
}

// The record after a command.
Response show_agent(Context& context, const Request& request, AgentId id) {
  const auto agent = context.reader->agent(id);
  if (!agent.ok()) return problem_response(agent.error(), request);
  if (!agent.value())
    return problem_response(Problem::kInternal, request, to_string(id) + " is not in the store");
  Response response = json_response(agent_json(**agent, *context.cluster.live()), 202);
  response.audited = {.object = to_string(id), .before = {}, .after = state_text(**agent)};
  return response;
}

void command(Context& context, const Request& request, AgentVerb verb, Replier reply) {
  const auto agent = find_agent(context, request.part("agent"));
  if (!agent.ok()) return reply(problem_response(agent.error(), request));
  auto done = [on_worker = context.on_worker, request, before = agent.value(),
               reply](Cluster::Answer answer) {
    on_worker([=](Context& worker) {
      if (!answer.result.ok()) return reply(problem_response(answer.result.error(), request));
      Response response = show_agent(worker, request, before.id);
      response.audited.before = state_text(before);
      reply(std::move(response));
    });
  };
  context.cluster.command_agent(agent.value().id, verb, std::move(done));
}

}  // namespace

namespace {

// The one that is here; else the one that went last.
Result<std::optional<AgentRecord>> agent_named(Context& context, const std::string& name) {
  std::optional<AgentRecord> gone;
  PageRequest page;
  page.limit = 500;
  for (;;) {
    auto agents = context.reader->agents(page, true);
    if (!agents.ok()) return agents.error();
    for (AgentRecord& agent : agents.value().items) {
      if (agent.name != name) continue;
      if (agent.state != AgentState::kGone) return std::optional(std::move(agent));
      if (!gone || gone->updated_at <= agent.updated_at) gone = std::move(agent);
    }
    if (!agents.value().next) return gone;
    page.after = *agents.value().next;
  }
}

}  // namespace

Result<AgentRecord> find_agent(Context& context, const std::string& text) {
  if (const auto id = parse_id<AgentTag>(text)) {
    auto agent = context.reader->agent(*id);
    if (!agent.ok()) return agent.error();
    if (agent.value()) return std::move(**agent);
  } else {
    auto named = agent_named(context, text);
    if (!named.ok()) return named.error();
    if (named.value()) return std::move(**named);
  }
  return Error{Code::kNotFound, "there is no agent \"" + text + "\"", "",
               "`shoal agent ls` lists ids and names; --gone adds those that have left"};
}

void cordon_agent(Context& context, const Request& request, Replier reply) {
  command(context, request, AgentVerb::kCordon, std::move(reply));
}

void uncordon_agent(Context& context, const Request& request, Replier reply) {
  command(context, request, AgentVerb::kUncordon, std::move(reply));
}

void drain_agent(Context& context, const Request& request, Replier reply) {
  command(context, request, AgentVerb::kDrain, std::move(reply));
}

// Answered with the agent as it was.
void forget_agent(Context& context, const Request& request, Replier reply) {
  const auto agent = find_agent(context, request.part("agent"));
  if (!agent.ok()) return reply(problem_response(agent.error(), request));
  const Json before = agent_json(*agent, *context.cluster.live());
  auto done = [request, reply, before](const Cluster::Answer& answer) {
    if (!answer.result.ok()) return reply(problem_response(answer.result.error(), request));
    reply(json_response(before));
  };
  context.cluster.command_agent(agent->id, AgentVerb::kForget, std::move(done));
}

Result<Response> list_agents(Context& context, const Request& request) {
  const auto page = read_page(request, "agents", false);
  if (!page.ok()) return page.error();
  const auto gone = read_flag(request, "gone");
  if (!gone.ok()) return gone.error();
  const auto agents = context.reader->agents(page.value(), gone.value());
  if (!agents.ok()) return agents.error();
  const auto live = context.cluster.live();
  Json items = Json::array();
  for (const AgentRecord& agent : agents.value().items) {
    items.push_back(agent_json(agent, *live, AgentDetail::kListed));
  }
  return json_response(page_json(std::move(items), agents.value().next, "agents"));
}

Result<Response> get_agent(Context& context, const Request& request) {
  const auto agent = find_agent(context, request.part("agent"));
  if (!agent.ok()) return agent.error();
  return json_response(agent_json(agent.value(), *context.cluster.live()));
}

// What its devices did in the last hours; nothing of those that were not heard of.
Result<Response> device_history(Context& context, const Request& request) {
  constexpr std::int64_t kDay = 24, kWeek = 7 * kDay;
  const auto agent = find_agent(context, request.part("agent"));
  if (!agent.ok()) return agent.error();
  const auto hours = read_integer(request, "hours", 1, kWeek, kDay);
  if (!hours.ok()) return hours.error();
  const Instant from = context.cluster.live()->now - seconds(3600 * hours.value());
  const auto lines = context.reader->device_history(agent.value().id, from);
  if (!lines.ok()) return lines.error();
  Json items = Json::array();
  for (const DeviceLine& line : lines.value()) items.push_back(device_history_json(line));
  return json_response(page_json(std::move(items), std::nullopt, "device_history"));
}

Result<Response> list_events(Context& context, const Request& request) {
  const auto page = read_page(request, "events", true);
  if (!page.ok()) return page.error();
  const auto filter = read_filter(context, request);
  if (!filter.ok()) return filter.error();
  const auto events = context.reader->events(filter.value(), page.value());
  if (!events.ok()) return events.error();
  Json items = Json::array();
  for (const EventRecord& event : events.value().items) items.push_back(event_json(event));
  return json_response(page_json(std::move(items), events.value().next, "events"));
}

Result<Response> stream_events(Context& context, const Request& request) {
  const auto filter = read_filter(context, request);
  if (!filter.ok()) return filter.error();
  const auto newest = end_of_history(context, true), oldest = end_of_history(context, false);
  if (!newest.ok()) return newest.error();
  if (!oldest.ok()) return oldest.error();

  StreamStart start;
  start.filter = filter.value();
  start.ndjson = request.accept.find("application/x-ndjson") != std::string::npos;
  start.after = newest.value();
  if (const auto from = resume_point(request)) {
    // 0 asks for everything there is; any other point must lie in what is still stored.
    const bool known = *from == 0 || (*from <= newest.value() && *from >= oldest.value() - 1);
    start.reset = !known;
    if (known) start.after = *from;
  }
  Response response;
  response.content_type = start.ndjson ? "application/x-ndjson" : "text/event-stream";
  response.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  if (const People* people = context.options.people; people != nullptr) {
    start.may_go_on = [people, who = request.principal] { return people->is_still(who); };
  }
  response.stream = std::move(start);
  return response;
}

}  // namespace shoal::coordinator::rest::api
