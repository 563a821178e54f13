// What is about the server itself: problem pages, version, how to join, examples of jobs, contract,
// probes, metrics.
#include "coordinator/service/http/metrics.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/examples.h"
#include "coordinator/service/http/routes/openapi.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/url.h"

namespace shoal::coordinator::rest::api {
namespace {

Response page(std::string body, std::string type) {
  Response response;
  response.content_type = std::move(type);
  response.body = std::move(body);
  return response;
}

}  // namespace

Result<Response> problem_help(Context&, const Request& request) {
  std::string html;
  if (!problem_page(request.part("slug"), html))
    return Error{Code::kNotFound, "there is no problem \"" + request.part("slug") + "\"", "", ""};
  return page(std::move(html), "text/html; charset=utf-8");
}

Result<Response> version(Context& context, const Request&) {
  Json json;
  json["version"] = SHOAL_VERSION;
  json["api_level"] = 1;
  json["min_api_level"] = 1;
  json["agent_protocol"] = kProtocolVersion;
  json["min_agent_protocol"] = kProtocolVersionMin;
  json["boot_epoch"] = context.cluster.live()->boot_epoch;
  return json_response(json);
}

Result<Response> examples(Context&, const Request&) {
  Json items = Json::array();
  for (const ExampleJob& job : example_jobs())
    items.push_back(Json{{"name", job.name}, {"summary", job.summary}, {"toml", job.toml}});
  return json_response(page_json(std::move(items), std::nullopt, "examples"));
}

// What a host needs to join, except the secret, which is in the token's file.
Result<Response> how_to_join(Context& context, const Request&) {
  Json json;
  json["grpc"] = context.options.agents_address;
  json["token_file"] = context.options.token_file;
  return json_response(json);
}

Result<Response> openapi(Context&, const Request&) {
  return page(std::string(openapi_document()), "application/json");
}

// The process answers at all; nothing is looked at, so that a slow disk does not get it killed.
Result<Response> livez(Context&, const Request&) {
  return page("ok\n", "text/plain; charset=utf-8");
}

Result<Response> readyz(Context& context, const Request& request) {
  const auto verbose = read_flag(request, "verbose");
  if (!verbose.ok()) return verbose.error();
  Readiness readiness = context.cluster.readiness();
  if (const Status accepts = context.options.agents_port(); !accepts.ok()) {
    readiness.problems.emplace_back("agents_port", accepts.error().message);
  }
  std::string text = readiness.problems.empty() ? "ok\n" : "not ready\n";
  if (verbose.value())
    for (const auto& [check, sentence] : readiness.problems) text += check + ": " + sentence + "\n";
  Response response = page(std::move(text), "text/plain; charset=utf-8");
  if (!readiness.problems.empty()) {
    response.status = 503;
    response.headers.emplace_back("Retry-After", "2");
  }
  return response;
}

Result<Response> metrics(Context& context, const Request&) {
  auto text = context.metrics.scrape(context.cluster, *context.reader, outside_of(context.options));
  if (!text.ok()) return text.error();
  return page(std::move(text).value(), "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace shoal::coordinator::rest::api
