// GET /api/v1/space: what takes the space.
#pragma once

#include "coordinator/service/http/context.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/router.h"

namespace shoal::coordinator::rest::api {

void get_space(Context& context, const Request& request, Replier reply);

}  // namespace shoal::coordinator::rest::api
