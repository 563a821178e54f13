// Which handler answers which path. Templates have whole segments in braces ("/api/v1/jobs/{job}");
// a last segment "{path...}" takes the rest of the path. The table in routes.cc is the only list of
// routes: dispatch, who may ask, the audit trail, the Allow header, the route label of the metrics
// and the check against api/openapi.json all read it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coordinator/service/http/message.h"
#include "coordinator/service/http/problem.h"
#include "identity/scopes.h"

namespace shoal::coordinator::rest {

struct Context;  // context.h

using Replier = std::function<void(Response)>;  // called once, from any thread
using Answer = Result<Response> (*)(Context&, const Request&);
using AnswerLater = void (*)(Context&, const Request&, Replier);

// How one gets in.
enum class Door {
  kAction,  // with a login whose scopes allow it
  kLogin,   // with any login
  kOpen,    // without: what the login page and probes need
  kProof,   // without: it asks for a proof itself, over TLS only
};

// The right to use a route, and the audit trail's word for what it changes; none: nothing.
struct Access {
  Door door;
  identity::Action action = {};  // of kAction
  std::string_view audit;
  constexpr Access(identity::Action allowed, std::string_view word = {})
      : door(Door::kAction), action(allowed), audit(word) {}
  constexpr Access(Door how, std::string_view word = {}) : door(how), audit(word) {}
};

struct Route {
  std::string_view method;
  std::string_view path;
  Access access;
  Answer answer = nullptr;                   // exactly one of the two is set
  AnswerLater answer_later = nullptr;        // for commands: replies when the cluster has answered
  std::vector<std::string_view> query = {};  // parameters it takes; others are refused
  bool on_io_thread = false;                 // needs no Reader and never waits
  bool any_query = false;                    // the query is for the page, not for the server
};

const std::vector<Route>& route_table();

struct Match {
  const Route* route = nullptr;
  std::vector<std::string_view> allowed;  // methods of the path, when no route has the method
};

// Fills request.parts. A null route and no allowed methods: no such path.
Match match_route(const std::vector<Route>& table, Request& request);

// The fitting of one template; decoded parts are appended on success.
bool match_path(std::string_view pattern, std::string_view path,
                std::vector<std::pair<std::string, std::string>>& parts);

}  // namespace shoal::coordinator::rest
