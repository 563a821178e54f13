// Lines that agents keep on their hosts: of one agent, or of the replicas of a job over all agents
// that serve it, in one order. They are asked for at the moment of the question; an agent that does
// not answer is named among the missing, so that silence is not taken for quiet.
#include <algorithm>
#include <charconv>
#include <map>

#include "base/base64.h"
#include "base/text.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"
#include "threads/mutex.h"

namespace shoal::coordinator::rest::api {
namespace {

constexpr int kReplicasMax = 500;       // of a job, the newest, whose agents are asked
constexpr std::size_t kAgentsMax = 64;  // asked for one answer
constexpr std::string_view kCursor = "logs:";

using Cursor = std::map<AgentId, Instant>;  // the last line that the client has, by agent

// "logs:1=1800000000123456789,2=…", so that a client need not know how many hosts there are.
std::string write_cursor(const Cursor& cursor) {
  std::string text(kCursor);
  for (const auto& [agent, at] : cursor)
    text += std::to_string(agent.n) + "=" + std::to_string(at.ns) + ",";
  return base64url(text);
}

template <typename Number>
bool take_number(std::string_view& text, char end, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<std::size_t>(stop - text.data());
  if (error != std::errc() || used >= text.size() || text[used] != end) return false;
  text.remove_prefix(used + 1);
  return true;
}

Result<Cursor> read_cursor(const Request& request) {
  const std::string* given = request.query_value("cursor");
  Cursor cursor;
  if (given == nullptr) return cursor;
  const auto decoded = from_base64url(*given);
  std::string_view text = decoded ? std::string_view(*decoded) : std::string_view();
  bool good = text.starts_with(kCursor);
  if (good) text.remove_prefix(kCursor.size());
  while (good && !text.empty()) {
    std::uint64_t agent = 0;
    std::int64_t ns = 0;
    good = take_number(text, '=', agent) && take_number(text, ',', ns) && agent > 0 && ns > 0;
    if (good) cursor[AgentId(agent)] = {ns};
  }
  if (!good) return bad_query("cursor", "must be the next_cursor of an answer about logs");
  return cursor;
}

struct Asked {
  AgentId agent;
  std::string name;
  std::vector<ReplicaId> replicas;  // empty: every line
};

struct Heard {
  Asked asked;
  Result<LogPage> page = LogPage{};
};

// One question to several agents and what came back, until all have answered.
struct Gathering {
  Request request;
  Replier reply;
  LogQuery query;
  bool follows = false;  // a cursor was given: the first lines after it, else the last ones
  bool of_one = false;   // its refusal is the answer
  Cursor cursor;
  mutable Mutex mutex;
  std::size_t pending SHOAL_GUARDED_BY(mutex) = 0;
  std::vector<Heard> heard SHOAL_GUARDED_BY(mutex);
};

struct Placed {
  const Asked* asked;
  const LogLine* line;
};

std::vector<Placed> merged(const Gathering& all) SHOAL_REQUIRES(all.mutex) {
  std::vector<Placed> lines;
  for (const Heard& one : all.heard) {
    if (!one.page.ok()) continue;
    for (const LogLine& line : one.page.value().lines) lines.push_back({&one.asked, &line});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Placed& a, const Placed& b) { return a.line->at < b.line->at; });
  const auto limit = static_cast<std::size_t>(all.query.limit);
  if (lines.size() <= limit) return lines;
  if (all.follows) {
    lines.resize(limit);
  } else {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(limit));
  }
  return lines;
}

Json line_json(const Placed& placed) {
  const LogLine& line = *placed.line;
  Json json;
  json["id"] = to_string(placed.asked->agent) + ":" + std::to_string(line.at.ns);
  json["at"] = rfc3339(line.at);
  json["level"] = to_string(line.level);
  json["agent"] = to_string(placed.asked->agent);
  json["agent_name"] = placed.asked->name;
  json["source"] = line.source;
  json["replica"] = line.replica ? Json(to_string(line.replica)) : Json(nullptr);
  json["text"] = line.text;
  return json;
}

// What the first question found and left out was older than what it gave: it is not asked again.
Cursor cursor_after(const Gathering& all, const std::vector<Placed>& given)
    SHOAL_REQUIRES(all.mutex) {
  Cursor cursor = all.cursor;
  if (!all.follows) {
    for (const Heard& one : all.heard) {
      if (one.page.ok() && !one.page.value().lines.empty())
        cursor[one.asked.agent] = one.page.value().lines.back().at;
    }
  }
  for (const Placed& placed : given) cursor[placed.asked->agent] = placed.line->at;
  return cursor;
}

Response answer(const Gathering& all) SHOAL_EXCLUDES(all.mutex) {
  const MutexLock guard(all.mutex);
  const Heard* first = all.heard.empty() ? nullptr : &all.heard.front();
  if (all.of_one && first != nullptr && !first->page.ok())
    return problem_response(first->page.error(), all.request);
  const std::vector<Placed> lines = merged(all);
  Json items = Json::array(), missing = Json::array();
  for (const Placed& placed : lines) items.push_back(line_json(placed));
  for (const Heard& one : all.heard) {
    if (one.page.ok()) continue;
    missing.push_back(Json{{"agent", to_string(one.asked.agent)},
                           {"agent_name", one.asked.name},
                           {"problem", one.page.error().message}});
  }
  Json json;
  json["items"] = std::move(items);
  json["next_cursor"] = write_cursor(cursor_after(all, lines));
  json["missing"] = std::move(missing);
  Response response = json_response(json);
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

void take(const std::shared_ptr<Gathering>& all, const Asked& asked, Result<LogPage> page) {
  {
    const MutexLock guard(all->mutex);
    all->heard.push_back({asked, std::move(page)});
    if (--all->pending > 0) return;
  }
  all->reply(answer(*all));
}

void gather(Context& context, std::shared_ptr<Gathering> all, const std::vector<Asked>& asked) {
  {
    const MutexLock guard(all->mutex);
    all->pending = asked.size();
  }
  if (asked.empty()) return all->reply(answer(*all));
  for (const Asked& one : asked) {
    LogQuery query = all->query;
    query.replicas = one.replicas;
    // An agent that had no line, or was not there, has all its lines still to give.
    const auto last = all->cursor.find(one.agent);
    if (all->follows) query.after = last == all->cursor.end() ? Instant{1} : last->second;
    context.cluster.read_logs(
        one.agent, query, [all, one](Result<LogPage> page) { take(all, one, std::move(page)); });
  }
}

Result<LogQuery> read_query(const Request& request) {
  LogQuery query;
  const auto tail = read_integer(request, "tail", 1, kLogLinesMax, query.limit);
  if (!tail.ok()) return tail.error();
  query.limit = static_cast<int>(tail.value());
  if (const std::string* text = request.query_value("level")) {
    const auto level = parse_enumerator<LogLevel>(*text);
    if (!level) {
      return bad_query("level", "must be one of " + joined(all_words<LogLevel>()) +
                                    " (the least severity to show), got \"" + *text + "\"");
    }
    query.level_min = *level;
  }
  if (const std::string* text = request.query_value("source")) query.source = *text;
  if (const std::string* text = request.query_value("q")) query.text = *text;
  return query;
}

Result<std::optional<ReplicaId>> read_replica(const Request& request) {
  const std::string* text = request.query_value("replica");
  if (text == nullptr) return std::optional<ReplicaId>();
  const auto id = parse_id<ReplicaTag>(*text);
  if (!id) return bad_query("replica", "must be the id of a replica, got \"" + *text + "\"");
  return id;
}

Result<std::shared_ptr<Gathering>> new_gathering(const Request& request, Replier reply) {
  const auto query = read_query(request);
  if (!query.ok()) return query.error();
  const auto cursor = read_cursor(request);
  if (!cursor.ok()) return cursor.error();
  auto all = std::make_shared<Gathering>();
  all->request = request;
  all->reply = std::move(reply);
  all->query = query.value();
  all->cursor = cursor.value();
  all->follows = request.query_value("cursor") != nullptr;
  return all;
}

// The agents of a job's replicas, newest first, each with the replicas that it has or had.
Result<std::vector<Asked>> agents_of(Context& context, JobId job, std::optional<ReplicaId> only) {
  PageRequest page;
  page.limit = kReplicasMax;
  page.newest_first = true;
  const auto replicas = context.reader->replicas(job, page);
  if (!replicas.ok()) return replicas.error();
  std::vector<Asked> asked;
  for (const ReplicaRecord& replica : replicas.value().items) {
    if (!replica.agent || (only && replica.id != *only)) continue;
    const auto known = std::find_if(asked.begin(), asked.end(),
                                    [&](const Asked& one) { return one.agent == replica.agent; });
    if (known != asked.end()) {
      known->replicas.push_back(replica.id);
      continue;
    }
    if (asked.size() == kAgentsMax) break;
    const auto agent = context.reader->agent(replica.agent);
    if (!agent.ok()) return agent.error();
    asked.push_back(
        {replica.agent, agent.value() ? (*agent)->name : to_string(replica.agent), {replica.id}});
  }
  return asked;
}

}  // namespace

void agent_logs(Context& context, const Request& request, Replier reply) {
  const auto agent = find_agent(context, request.part("agent"));
  if (!agent.ok()) return reply(problem_response(agent.error(), request));
  const auto replica = read_replica(request);
  if (!replica.ok()) return reply(problem_response(replica.error(), request));
  const auto all = new_gathering(request, reply);
  if (!all.ok()) return reply(problem_response(all.error(), request));
  all.value()->of_one = true;
  Asked asked{agent.value().id, agent.value().name, {}};
  if (replica.value()) asked.replicas.push_back(*replica.value());
  gather(context, all.value(), {asked});
}

void job_logs(Context& context, const Request& request, Replier reply) {
  const auto job = find_job(context, request);
  if (!job.ok()) return reply(problem_response(job.error(), request));
  const auto replica = read_replica(request);
  if (!replica.ok()) return reply(problem_response(replica.error(), request));
  const auto all = new_gathering(request, reply);
  if (!all.ok()) return reply(problem_response(all.error(), request));
  const auto asked = agents_of(context, job.value().id, replica.value());
  if (!asked.ok()) return reply(problem_response(asked.error(), request));
  gather(context, all.value(), asked.value());
}

}  // namespace shoal::coordinator::rest::api
