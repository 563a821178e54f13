#include "coordinator/service/http/audit.h"

#include "coordinator/service/http/problem.h"

namespace shoal::coordinator::rest {
namespace {

bool changes_something(const Route& route, const Request& request, const Response& response) {
  if (route.access.audit.empty() || response.status >= 300) return false;
  const std::string* dry = request.query_value("dry_run");
  return dry == nullptr || *dry == "false" || *dry == "0";
}

std::string parts_of(const Request& request) {
  std::string text;
  for (const auto& [name, value] : request.parts) text += (text.empty() ? "" : "/") + value;
  return text;
}

AuditRecord record_of(const Route& route, const Request& request, const Audited& said) {
  const Principal& who = request.principal;
  const std::string token = who.token ? to_string(who.token) : std::string();
  return {.principal = said.principal.empty() ? who.name : said.principal,
          .token = said.token.empty() ? token : said.token,
          .action = std::string(route.access.audit),
          .object = said.object.empty() ? parts_of(request) : said.object,
          .before = said.before,
          .after = said.after};
}

}  // namespace

Replier audited(People* people, const Route& route, std::shared_ptr<const Request> request,
                Replier reply) {
  if (people == nullptr || route.access.audit.empty()) return reply;
  return [people, &route, request = std::move(request),
          reply = std::move(reply)](Response response) {
    if (!changes_something(route, *request, response)) return reply(std::move(response));
    AuditRecord record = record_of(route, *request, response.audited);
    if (record.principal.empty()) return reply(std::move(response));  // nobody was logged in
    people->note(std::move(record), [request, reply, response = std::move(response)](Status noted) {
      reply(noted.ok() ? response : problem_response(noted.error(), *request));
    });
  };
}

}  // namespace shoal::coordinator::rest
