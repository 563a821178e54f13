#include "coordinator/service/http/problem.h"

#include <array>

namespace shoal::coordinator::rest {
namespace {

constexpr std::array<ProblemKind, static_cast<std::size_t>(kLastProblem) + 1> kKinds = {{
    {400, "invalid-request", "The request cannot be understood",
     "A parameter, header or the path is malformed. `errors` names each one with what was given "
     "and what would be accepted."},
    {400, "malformed-spec", "The job is not valid JSON or TOML",
     "The body has a syntax error; `detail` says where. Send JSON with Content-Type "
     "application/json or TOML with application/toml."},
    {401, "unauthenticated", "The request is not authenticated",
     "It has no valid token, cookie or certificate."},
    {403, "permission-denied", "Not allowed", "The caller may not do this."},
    {403, "origin-not-allowed", "A page of another origin asked for a change",
     "Browsers send the Origin of the page that asks. Changes are accepted from this coordinator's "
     "own pages and from programs that send no Origin."},
    {404, "not-found", "Not found",
     "Nothing has this path, id or name. /api/v1/openapi.json lists every route; GET /api/v1/jobs "
     "and "
     "GET /api/v1/agents list what exists."},
    {405, "method-not-allowed", "The path is known, the method is not",
     "The Allow header of the answer lists the methods of this path."},
    {409, "name-taken", "A job of this name exists already",
     "Job names are unique among the jobs of a cluster. Choose another `name`."},
    {409, "conflict", "The state of the object forbids this",
     "For example cancelling a job that has ended, or downloading a checkpoint that is not stored "
     "yet. Look at the object's status."},
    {410, "cursor-expired", "The page cursor is no longer valid",
     "Cursors belong to one list and one version of the server. Start again without a cursor."},
    {413, "body-too-large", "The body is over the limit",
     "A job specification is a few kilobytes. `detail` says the limit."},
    {415, "unsupported-type", "The content type is not supported",
     "Send application/json or application/toml."},
    {416, "range-not-satisfiable", "The range lies outside the file",
     "The Content-Range header of the answer says the size of the file."},
    {421, "host-not-allowed", "The Host header is not one of this server's names",
     "IP addresses, localhost and configured names are accepted. This protects a coordinator on "
     "loopback against web pages that rebind their own name to it (DNS rebinding)."},
    {422, "invalid-spec", "The job is not accepted",
     "`errors` has one entry per refused field: a JSON pointer into the job and what would be "
     "accepted. POST /api/v1/jobs?dry_run=true checks a job without starting it."},
    {429, "too-many-requests", "This client sends too many requests",
     "Each client has a number of requests a second. Try again after Retry-After seconds."},
    {431, "header-too-large", "The request header is over the limit",
     "All header lines together have a limit. Send fewer or shorter ones."},
    {500, "internal", "The coordinator failed",
     "This is a defect. The coordinator's log has a line with the same request_id."},
    {500, "data-loss", "Stored data is damaged",
     "A file of a checkpoint is missing or does not have its recorded size. Take another "
     "checkpoint."},
    {503, "unavailable", "The coordinator cannot serve this now",
     "It is starting or stopping. Try again after Retry-After seconds; /readyz says what is "
     "missing."},
    {503, "overloaded", "A limit is reached",
     "Too many connections, streams or questions at once, or a full queue. Try again after "
     "Retry-After seconds."},
    {504, "timed-out", "The answer took too long",
     "A command may still have been carried out: look at the object before trying again."},
}};

Json fields_json(const std::vector<FieldError>& fields) {
  Json list = Json::array();
  for (const FieldError& field : fields)
    list.push_back(Json{{"pointer", field.pointer}, {"detail", field.detail}});
  return list;
}

}  // namespace

const ProblemKind& kind_of(Problem problem) { return kKinds[static_cast<std::size_t>(problem)]; }

Response problem_response(Problem problem, const Request& request, std::string detail,
                          std::vector<FieldError> fields, std::string hint) {
  const ProblemKind& kind = kind_of(problem);
  Json json;
  json["type"] = "/problems/" + std::string(kind.slug);
  json["title"] = kind.title;
  json["status"] = kind.status;
  json["detail"] = detail;
  json["instance"] = request.path;
  json["code"] = kind.slug;
  json["request_id"] = request.id;
  if (!fields.empty()) json["errors"] = fields_json(fields);
  if (!hint.empty()) json["hint"] = std::move(hint);

  Response response = json_response(json, kind.status);
  response.content_type = "application/problem+json";
  response.audited.after = std::move(detail);
  if (kind.status == 503) response.headers.emplace_back("Retry-After", "2");
  if (kind.status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

Problem problem_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return Problem::kInvalidRequest;
    case Code::kValidation:
      return Problem::kInvalidSpec;
    case Code::kNotFound:
      return Problem::kNotFound;
    case Code::kConflict:
      return Problem::kConflict;
    case Code::kUnauthenticated:
      return Problem::kUnauthenticated;
    case Code::kPermissionDenied:
      return Problem::kPermissionDenied;
    case Code::kUnavailable:
      return Problem::kUnavailable;
    case Code::kDeadlineExceeded:
      return Problem::kTimedOut;
    case Code::kResourceExhausted:
      return Problem::kOverloaded;
    case Code::kIncompatible:
      return Problem::kCursorExpired;
    case Code::kDataLoss:
      return Problem::kDataLoss;
    case Code::kCancelled:
      return Problem::kUnavailable;
    case Code::kInternal:
      return Problem::kInternal;
  }
  return Problem::kInternal;
}

Response problem_response(const Error& error, const Request& request) {
  std::vector<FieldError> fields;
  if (!error.field.empty()) fields.push_back({error.field, error.message});
  return problem_response(problem_of(error.code), request, error.message, std::move(fields),
                          error.remedy);
}

bool problem_page(std::string_view slug, std::string& html) {
  for (const ProblemKind& kind : kKinds) {
    if (kind.slug != slug) continue;
    html = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>" +
           std::string(kind.title) + "</title>\n<h1>" + std::string(kind.title) +
           "</h1>\n<p><code>" + std::string(kind.slug) + "</code>, HTTP " +
           std::to_string(kind.status) + "</p>\n<p>" + std::string(kind.help) + "</p>\n</html>\n";
    return true;
  }
  return false;
}

}  // namespace shoal::coordinator::rest
