// Membership: join tokens, a host that joins or renews its certificate, the revocation of an
// agent, and the cluster's CAs. The rules are in machines/admission.h.
#include "coordinator/service/machines/machines.h"

#include "coordinator/service/http/answers/answer_json.h"
#include "coordinator/service/http/answers/machine_answers.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/body.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest::api {
namespace {

Result<Machines*> machines_of(Context& context) {
  if (context.options.machines != nullptr) return context.options.machines;
  return Error{Code::kUnavailable, "this server has no registry of machines", "", ""};
}

constexpr std::int64_t kSecondsMax = std::int64_t{366} * 86'400;
constexpr std::int64_t kUnixMsMax = 4'102'444'800'000;  // the year 2100

Result<Instant> clock_of(Body& body) {
  const std::int64_t unix_ms = body.integer("clock_unix_ms");
  if (unix_ms < 0 || unix_ms > kUnixMsMax)
    return Error{Code::kInvalidArgument, "must be a time after 1970", "/clock_unix_ms",
                 "set the clock of this host"};
  return from_unix_ms(unix_ms);
}

// "00ff" to two bytes.
Result<std::string> from_hex(const std::string& text, const char* name) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) break;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  if (bytes.size() * 2 == text.size()) return bytes;
  return Error{Code::kInvalidArgument, "must be bytes as hex digits", name, ""};
}

Response certificate_response(const Result<IssuedCertificate>& issued, const Request& request) {
  if (!issued) return problem_response(issued.error(), request);
  return json_response(answer_json(
      CertificateAnswer{issued->machine, issued->cluster, issued->chain, issued->roots}));
}

TokenState state_of(const identity::JoinTokenRecord& token, Instant now) {
  if (token.revoked) return TokenState::kRevoked;
  if (now >= token.expires) return TokenState::kExpired;
  return token.uses >= token.uses_most ? TokenState::kUsedUp : TokenState::kWorks;
}

Json token_json(const identity::JoinTokenRecord& token, Instant now) {
  return answer_json(JoinTokenAnswer{token.id, state_of(token, now), token.uses, token.uses_most,
                                     token.created, token.expires});
}

Json authorities_json(const Machines& machines) {
  Json items = Json::array();
  for (const AuthorityView& view : machines.authorities()) {
    items.push_back(answer_json(AuthorityAnswer{view.record.fingerprint, view.record.cluster,
                                                view.record.until.ns == 0, view.machines,
                                                view.record.since, view.expires}));
  }
  return page_json(std::move(items), std::nullopt, "authorities");
}

std::string issuing_fingerprint(const Machines& machines) {
  for (const AuthorityView& view : machines.authorities()) {
    if (view.record.until.ns == 0) return view.record.fingerprint;
  }
  return {};
}

}  // namespace

Result<Response> create_join_token(Context& context, const Request& request) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  auto body = Body::read(request, {"uses", "ttl_s"});
  if (!body) return body.error();
  const std::int64_t uses = body->integer("uses"), ttl_s = body->integer("ttl_s");
  if (!body->status().ok()) return body->status().error();
  auto token = (*machines)->create_token(uses, seconds(std::min(ttl_s, kSecondsMax)));
  if (!token) return token.error();
  const auto made = identity::parse_join_token(*token);
  Response response = json_response(answer_json(NewJoinTokenAnswer{std::move(token).value()}), 201);
  response.audited.object = to_string(made->id);
  response.audited.after = std::to_string(uses) + " uses, " + std::to_string(ttl_s) + " s";
  return response;
}

Result<Response> list_join_tokens(Context& context, const Request&) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  Json items = Json::array();
  for (const identity::JoinTokenRecord& token : (*machines)->tokens()) {
    items.push_back(token_json(token, (*machines)->now()));
  }
  return json_response(page_json(std::move(items), std::nullopt, "tokens"));
}

Result<Response> remove_join_token(Context& context, const Request& request) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  const auto id = parse_id<identity::JoinTokenTag>(request.part("token"));
  if (!id)
    return Error{Code::kNotFound, "there is no join token \"" + request.part("token") + "\"", "",
                 "`shoal token ls` lists them"};
  if (const Status removed = (*machines)->remove_token(*id); !removed.ok()) return removed.error();
  for (const identity::JoinTokenRecord& token : (*machines)->tokens()) {
    if (token.id == *id) return json_response(token_json(token, (*machines)->now()));
  }
  return Error{Code::kInternal, "the token that was removed is gone", "", ""};
}

Result<Response> enrol(Context& context, const Request& request) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  auto body = Body::read(request, {"token", "csr", "uid", "name", "clock_unix_ms"});
  if (!body) return body.error();
  Enrolment asked{.token = body->text("token"),
                  .request = body->text("csr"),
                  .uid = body->text("uid"),
                  .name = body->text("name")};
  const auto clock = clock_of(*body);
  if (!body->status().ok()) return body->status().error();
  if (!clock) return clock.error();
  asked.clock = *clock;
  const auto issued = (*machines)->enrol(asked);
  Response response = certificate_response(issued, request);
  if (!issued) return response;
  const std::string token = to_string(identity::parse_join_token(asked.token)->id);
  response.audited = {.object = to_string(issued->machine),
                      .before = {},
                      .after = asked.name,
                      .principal = token,
                      .token = token};
  return response;
}

Result<Response> renew(Context& context, const Request& request) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  auto body = Body::read(request, {"chain", "csr", "proof", "clock_unix_ms"});
  if (!body) return body.error();
  Renewal asked{.chain = body->text("chain"), .request = body->text("csr")};
  auto proof = from_hex(body->text("proof"), "/proof");
  const auto clock = clock_of(*body);
  if (!body->status().ok()) return body->status().error();
  if (!proof) return proof.error();
  if (!clock) return clock.error();
  asked.proof = std::move(proof).value();
  asked.clock = *clock;
  return certificate_response((*machines)->renew(asked), request);
}

Result<Response> revoke_agent(Context& context, const Request& request) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  const auto agent = find_agent(context, request.part("agent"));
  if (!agent) return agent.error();
  if (const Status revoked = (*machines)->revoke(agent->id); !revoked.ok()) return revoked.error();
  Response response = json_response(agent_json(*agent, *context.cluster.live()));
  response.audited = {.object = to_string(agent->id), .before = "trusted", .after = "revoked"};
  return response;
}

Result<Response> list_authorities(Context& context, const Request&) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  return json_response(authorities_json(**machines));
}

Result<Response> rotate_authority(Context& context, const Request&) {
  const auto machines = machines_of(context);
  if (!machines) return machines.error();
  const std::string before = issuing_fingerprint(**machines);
  if (const Status rotated = (*machines)->rotate(); !rotated.ok()) return rotated.error();
  Response response = json_response(authorities_json(**machines));
  response.audited = {.object = "ca", .before = before, .after = issuing_fingerprint(**machines)};
  return response;
}

}  // namespace shoal::coordinator::rest::api
