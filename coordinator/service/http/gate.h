// Identifies who sent a request, and checks that against its route's Access (router.h).
#pragma once

#include "base/result.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/router.h"

namespace shoal::coordinator::rest {

// Fills request.principal. Never waits for a disk. Codes: unauthenticated, no good token and no
// good cookie; permission_denied, no scope of the token allows it for any object; unavailable,
// there is nobody who knows people. What needs no login is let through as it is.
Status admit_caller(const People* people, const Route& route, Request& request);

// Where the scopes allow an action on the caller's own jobs only: whether the job of the path is
// one. Asks the Reader, so on a worker. Code permission_denied. What is not found is the handler's
// to say.
Status check_owner(Context& context, const Route& route, const Request& request);

}  // namespace shoal::coordinator::rest
