// Puts what a request has changed into the audit trail before its answer is sent. Routes with a
// word (Access::audit) are noted when they succeed; the handler may say which object, and its value
// before and after (Response::audited). A dry run changes nothing and is not noted.
//
// The change itself is durable before its note: a crash between the two leaves a change without
// note, never a note without change.
#pragma once

#include <memory>

#include "coordinator/service/http/message.h"
#include "coordinator/service/http/router.h"

namespace shoal::coordinator::rest {

// `reply` is called once the note is durable; at once where there is nothing to note. `people` must
// outlive the server; null: nothing is noted.
Replier audited(People* people, const Route& route, std::shared_ptr<const Request> request,
                Replier reply);

}  // namespace shoal::coordinator::rest
