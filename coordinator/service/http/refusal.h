// Which answers turn somebody away, as which refusal they count, and which of them the audit trail
// tells: logins, tokens that were shown, hosts that would join or renew, and objects that a job
// names but its submitter may not use. What is wrong with a job's text or an id that is not there
// refuse nobody.
#pragma once

#include <optional>
#include <string>

#include "coordinator/service/http/message.h"
#include "coordinator/service/http/router.h"
#include "coordinator/service/people/refusals.h"

namespace shoal::coordinator::rest {

// `route` null: the request named none.
std::optional<RefusalReason> refusal_of(const Route* route, int status);

// Counts and tells. `client`: client_of() the connection.
void note_refusal(Refusals& refusals, const Route* route, const Request& request,
                  const Response& response, const std::string& client);

}  // namespace shoal::coordinator::rest
