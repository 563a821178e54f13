#include "coordinator/service/http/gate.h"

#include <optional>

#include "coordinator/service/http/context.h"
#include "coordinator/service/http/routes/api.h"
#include "identity/api_token.h"

namespace shoal::coordinator::rest {
namespace {

// The job that the path is about; none: it is about no job, or there is none.
std::optional<JobRecord> job_of(Context& context, const Request& request) {
  if (!request.part("job").empty()) {
    auto job = api::find_job(context, request);
    return job ? std::optional(std::move(job).value()) : std::nullopt;
  }
  if (request.part("checkpoint").empty()) return std::nullopt;
  const auto checkpoint = api::find_checkpoint(context, request);
  if (!checkpoint) return std::nullopt;
  auto job = context.reader->job(checkpoint->key.job);
  return job ? std::move(job).value() : std::nullopt;
}

}  // namespace

Status admit_caller(const People* people, const Route& route, Request& request) {
  const Access& access = route.access;
  if (access.door == Door::kOpen || access.door == Door::kProof) return {};
  if (people == nullptr)
    return Error{Code::kUnavailable, "this server has no registry of people, so nobody can log in",
                 "", ""};
  auto principal = people->who(request.authorization, request.cookie);
  if (!principal) return principal.error();
  request.principal = std::move(principal).value();
  if (access.door == Door::kLogin) return {};
  const Principal& who = request.principal;
  if (identity::granted(who.scopes, access.action) != identity::Grant::kNone) return {};
  return identity::refused_by_scopes(who.name, who.scopes, access.action);
}

Status check_owner(Context& context, const Route& route, const Request& request) {
  if (route.access.door != Door::kAction) return {};
  const Principal& who = request.principal;
  if (identity::granted(who.scopes, route.access.action) != identity::Grant::kOwn) return {};
  const auto job = job_of(context, request);
  if (!job || job->owner == who.name) return {};
  const std::string owner = job->owner.empty() ? "nobody" : job->owner;
  return Error{Code::kPermissionDenied,
               "job " + job->spec.name + " is of " + owner + "; the scope " +
                   identity::to_string(who.scopes) + " of " + who.name + " allows " +
                   std::string(to_string(route.access.action)) + " for own jobs only",
               "", "ask its owner, or an admin for a token with a wider scope"};
}

}  // namespace shoal::coordinator::rest
