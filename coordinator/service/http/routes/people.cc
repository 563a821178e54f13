// People: a browser that logs in and out, tickets that log one in once, tokens, and the audit
// trail. The rules are in people/people.h and identity/scopes.h.
#include "coordinator/service/people/people.h"

#include "coordinator/service/http/answers/answer_json.h"
#include "coordinator/service/http/answers/people_answers.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/body.h"
#include "coordinator/service/http/server.h"

namespace shoal::coordinator::rest::api {
namespace {

constexpr std::int64_t kTtlMost = identity::kApiTokenLifeMost.ns / 1'000'000'000;

Result<People*> people_of(Context& context) {
  if (context.options.people != nullptr) return context.options.people;
  return Error{Code::kUnavailable, "this server has no registry of people, so nobody can log in",
               "", ""};
}

Json principal_json(const Principal& who) {
  PrincipalAnswer answer{.name = who.name,
                         .scope = to_string(who.scopes),
                         .token_id = who.token,
                         .expires_at_ms = who.expires.ns / 1'000'000};
  for (const auto& [action, word] : kEnumerators<identity::Action>) {
    const identity::Grant grant = identity::granted(who.scopes, action);
    if (grant != identity::Grant::kNone) answer.grants.emplace_back(word, to_string(grant));
  }
  return answer_json(answer);
}

// The browser keeps it until `life_s` is over, shows it to this server only, never to a script, and
// to no request that a page of another site has begun.
std::string set_cookie(const std::string& value, std::int64_t life_s, bool is_secure) {
  return std::string(kSessionCookie) + "=" + value +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(life_s) +
         (is_secure ? "; Secure" : "");
}

Result<NewSession> begin(People& people, Body& body) {
  const bool by_token = body.has("token");
  if (by_token == body.has("ticket")) {
    return Error{Code::kInvalidArgument, "give a token or a ticket, one of them", "/token", ""};
  }
  const std::string text = body.text(by_token ? "token" : "ticket");
  if (!body.status().ok()) return body.status().error();
  return by_token ? people.log_in(text) : people.log_in_with_ticket(text);
}

ApiTokenState state_of(const identity::ApiTokenRecord& token, Instant now) {
  if (token.revoked) return ApiTokenState::kRevoked;
  return now >= token.expires ? ApiTokenState::kExpired : ApiTokenState::kWorks;
}

Json token_json(const identity::ApiTokenRecord& token, Instant now) {
  return answer_json(ApiTokenAnswer{token.id, token.owner, to_string(token.scopes),
                                    state_of(token, now), token.created, token.expires});
}

// The rules name their fields, bodies theirs.
Error in_body(Error error) {
  if (error.field == "owner") error.field = "/name";
  if (error.field == "scopes") error.field = "/scope";
  if (error.field == "ttl") error.field = "/ttl_s";
  return error;
}

}  // namespace

Result<Response> log_in(Context& context, const Request& request) {
  const auto people = people_of(context);
  if (!people) return people.error();
  auto body = Body::read(request, {"token", "ticket"});
  if (!body) return body.error();
  auto session = begin(**people, *body);
  if (!session) return session.error();
  const Principal& who = session->principal;
  Response response = json_response(principal_json(who));
  const auto life_s = static_cast<std::int64_t>((who.expires - (*people)->now()).seconds());
  response.headers.emplace_back("Set-Cookie",
                                set_cookie(session->cookie, life_s, request.is_secure));
  response.audited = {.object = to_string(who.token),
                      .before = {},
                      .after = {},
                      .principal = who.name,
                      .token = to_string(who.token)};
  return response;
}

Result<Response> get_session(Context&, const Request& request) {
  return json_response(principal_json(request.principal));
}

Result<Response> log_out(Context& context, const Request& request) {
  const auto people = people_of(context);
  if (!people) return people.error();
  Response response;
  response.status = 204;
  response.headers.emplace_back("Set-Cookie", set_cookie("", 0, request.is_secure));
  const auto who = (*people)->log_out(request.cookie);
  if (!who && who.error().code != Code::kUnauthenticated) return who.error();
  if (who) {
    response.audited.object = to_string(who->token);
    response.audited.principal = who->name;
    response.audited.token = to_string(who->token);
  }
  return response;
}

Result<Response> create_ticket(Context& context, const Request& request) {
  const auto people = people_of(context);
  if (!people) return people.error();
  const People::Ticket ticket = (*people)->make_ticket(request.principal);
  Response response = json_response(answer_json(TicketAnswer{ticket.text, ticket.expires}), 201);
  response.audited.object = to_string(request.principal.token);
  return response;
}

Result<Response> create_token(Context& context, const Request& request) {
  const auto people = people_of(context);
  if (!people) return people.error();
  auto body = Body::read(request, {"name", "scope", "ttl_s"});
  if (!body) return body.error();
  const std::string name = body->text("name"), scope = body->text("scope");
  const std::int64_t ttl_s = std::clamp<std::int64_t>(body->integer("ttl_s"), 0, kTtlMost + 1);
  if (!body->status().ok()) return body->status().error();
  const auto scopes = identity::parse_scopes(scope);
  if (!scopes) return in_body(scopes.error());
  const auto made = (*people)->create_token(name, *scopes, seconds(ttl_s));
  if (!made) return in_body(made.error());
  const identity::ApiTokenRecord& token = made->record;
  Response response = json_response(
      answer_json(NewApiTokenAnswer{made->text, token.id, token.owner, to_string(token.scopes),
                                    ApiTokenState::kWorks, token.created, token.expires}),
      201);
  response.audited.object = to_string(token.id);
  response.audited.after = token.owner + ", " + to_string(token.scopes);
  return response;
}

Result<Response> list_tokens(Context& context, const Request&) {
  const auto people = people_of(context);
  if (!people) return people.error();
  Json items = Json::array();
  for (const identity::ApiTokenRecord& token : (*people)->tokens()) {
    items.push_back(token_json(token, (*people)->now()));
  }
  return json_response(page_json(std::move(items), std::nullopt, "tokens"));
}

Result<Response> revoke_token(Context& context, const Request& request) {
  const auto people = people_of(context);
  if (!people) return people.error();
  const std::string& text = request.part("token");
  const auto id = parse_id<identity::ApiTokenTag>(text);
  if (!id)
    return Error{Code::kNotFound, "there is no token \"" + text + "\"", "",
                 "`shoal token ls` lists them"};
  const auto revoked = (*people)->revoke_token(*id);
  if (!revoked) return revoked.error();
  Response response = json_response(token_json(*revoked, (*people)->now()));
  response.audited.object = text;
  response.audited.before = revoked->owner + ", " + to_string(revoked->scopes);
  response.audited.after = "revoked";
  return response;
}

Result<Response> list_audit(Context& context, const Request& request) {
  const auto page = read_page(request, "audit", true);
  if (!page.ok()) return page.error();
  const auto records = context.reader->audit(page.value());
  if (!records.ok()) return records.error();
  Json items = Json::array();
  for (const AuditRecord& record : records.value().items) {
    items.push_back(
        answer_json(AuditAnswer{record.seq, record.at, record.principal, record.token,
                                record.action, record.object, record.before, record.after}));
  }
  return json_response(page_json(std::move(items), records.value().next, "audit"));
}

}  // namespace shoal::coordinator::rest::api
