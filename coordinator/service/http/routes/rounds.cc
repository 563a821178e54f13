// Rounds with their contributions, and the time series of a job.
#include <charconv>

#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest::api {
namespace {

Result<Json> round_with_contributions(Context& context, const RoundRecord& round) {
  const auto contributions = context.reader->contributions(round.key);
  if (!contributions.ok()) return contributions.error();
  return round_json(round, contributions.value());
}

Error no_round(const std::string& text) {
  return Error{Code::kNotFound, "the job has no round \"" + text + "\"", "",
               "`shoal round ls JOB` lists its rounds"};
}

Result<SeriesQuery> read_series_query(const Request& request, JobId job) {
  SeriesQuery query;
  query.job = job;
  const std::string* name = request.query_value("name");
  if (name == nullptr || name->empty()) {
    Error error = bad_query("name", "must be the name of a series");
    error.remedy = "GET /api/v1/jobs/{job}/series lists the names";
    return error;
  }
  query.name = *name;
  if (const std::string* x = request.query_value("x")) {
    if (*x != "step" && *x != "round" && *x != "tokens" && *x != "time")
      return bad_query("x", "must be step, round, tokens or time, got \"" + *x + "\"");
    query.x = *x;
  }
  if (const std::string* by = request.query_value("by")) {
    if (*by != "job" && *by != "replica")
      return bad_query("by", "must be job or replica, got \"" + *by + "\"");
    query.by_replica = *by == "replica";
  }
  const auto from = read_number(request, "from"), to = read_number(request, "to");
  if (!from.ok()) return from.error();
  if (!to.ok()) return to.error();
  query.from = from.value();
  query.to = to.value();
  const auto points = read_integer(request, "max_points", 1, 10'000, query.max_points);
  if (!points.ok()) return points.error();
  query.max_points = static_cast<int>(points.value());
  return query;
}

}  // namespace

Result<Response> list_rounds(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto page = read_page(request, "rounds", false);
  if (!page.ok()) return page.error();
  const auto rounds = context.reader->rounds(job.value().id, page.value());
  if (!rounds.ok()) return rounds.error();
  Json items = Json::array();
  for (const RoundRecord& round : rounds.value().items) {
    auto item = round_with_contributions(context, round);
    if (!item.ok()) return item.error();
    items.push_back(std::move(item).value());
  }
  return json_response(page_json(std::move(items), rounds.value().next, "rounds"));
}

Result<Response> get_round(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const std::string& text = request.part("round");
  RoundNumber number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return no_round(text);

  PageRequest page;
  page.limit = 1;
  page.after = number - 1;
  const auto rounds = context.reader->rounds(job.value().id, page);
  if (!rounds.ok()) return rounds.error();
  if (rounds.value().items.empty() || rounds.value().items[0].key.round != number)
    return no_round(text);
  auto json = round_with_contributions(context, rounds.value().items[0]);
  if (!json.ok()) return json.error();
  return json_response(json.value());
}

Result<Response> list_series(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto series = context.reader->series_of(job.value().id);
  if (!series.ok()) return series.error();
  Json items = Json::array();
  for (const SeriesNewest& one : series.value()) {
    Json newest;
    if (one.newest) newest = {{"step", one.newest->step}, {"value", one.newest->value}};
    items.push_back({{"name", one.name}, {"newest", std::move(newest)}});
  }
  return json_response(page_json(std::move(items), std::nullopt, "series"));
}

Result<Response> query_series(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto query = read_series_query(request, job.value().id);
  if (!query.ok()) return query.error();
  const auto lines = context.reader->series(query.value());
  if (!lines.ok()) return lines.error();
  return json_response(series_json(query.value(), lines.value()));
}

}  // namespace shoal::coordinator::rest::api
