// shoal token, shoal ca, shoal agent revoke: the members of the cluster, and the people who use it.
#include <charconv>
#include <ctime>

#include "base/span_text.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

std::string in(const std::string& rfc3339) {
  const auto at = parse_rfc3339(rfc3339);
  if (!at) return "-";
  const double left = *at - static_cast<double>(::time(nullptr));
  return left <= 0 ? "over" : human_duration(left);
}

Result<int> show_authorities(const Context& context, const Json& answer) {
  if (context.json) return print(answer.dump(2) + "\n"), kExitOk;
  Table table({"CA", "ISSUES", "AGENTS", "SINCE", "TRUSTED FOR"});
  for (const Json& one : answer.at("items")) {
    const Json* issues = at_path(one, "issues");
    table.add({text_at(one, "fingerprint").substr(0, 16),
               issues != nullptr && *issues == true ? "yes" : "no", text_at(one, "machines"),
               text_at(one, "since"), in(text_at(one, "trusted_until"))});
  }
  print(table.render(terminal().stdout_color));
  return kExitOk;
}

}  // namespace

Result<int> token_create(const Context& context, const TokenOptions& options) {
  const std::string ttl = !options.ttl.empty() ? options.ttl : options.join ? "1h" : "30d";
  const auto ttl_s = parse_span(ttl);
  if (!ttl_s) {
    return Error{Code::kInvalidArgument, "must be a time above 0, got '" + ttl + "'", "--ttl",
                 "for example 30m, 1h or 2d"};
  }
  if (!options.join && (options.name.empty() || options.scope.empty())) {
    return Error{Code::kInvalidArgument, "a token needs --join, or --name and --scope", "",
                 "for example --name ada --scope submitter --ttl 30d"};
  }
  const Json body = options.join
                        ? Json{{"uses", options.uses}, {"ttl_s", *ttl_s}}
                        : Json{{"name", options.name}, {"scope", options.scope}, {"ttl_s", *ttl_s}};
  auto made =
      context.api.post(options.join ? "/join/tokens" : "/tokens", body.dump(), "application/json");
  if (!made) return made.error();
  if (context.json) return print(made->dump(2) + "\n"), kExitOk;
  print(text_at(*made, "token") + "\n");
  const std::string what =
      options.join ? "It lets " + plural(options.uses, "host") + " join within " + ttl
                   : "It lets " + options.name + " in as " + options.scope + " for " + ttl;
  say(what + "; it is a secret, and is not shown again.");
  return kExitOk;
}

// The join tokens and, for those who may see them, the tokens of people.
Result<int> token_ls(const Context& context) {
  auto hosts = context.api.get("/join/tokens");
  if (!hosts) return hosts.error();
  const auto people = context.api.get("/tokens");
  if (!people && people.error().code != Code::kPermissionDenied) return people.error();
  if (context.json) {
    if (people)
      for (const Json& token : people->at("items")) hosts->at("items").push_back(token);
    return print(hosts->dump(2) + "\n"), kExitOk;
  }
  Table table({"TOKEN", "FOR", "STATE", "EXPIRES IN"});
  for (const Json& token : hosts->at("items")) {
    table.add({text_at(token, "id"),
               "hosts, " + text_at(token, "uses") + " of " + text_at(token, "uses_max"),
               text_at(token, "state"), in(text_at(token, "expires_at"))});
  }
  const Json none = Json::array();
  for (const Json& token : people ? people->at("items") : none) {
    table.add({text_at(token, "id"), text_at(token, "name") + ", " + text_at(token, "scope"),
               text_at(token, "state"), in(text_at(token, "expires_at"))});
  }
  print(table.render(terminal().stdout_color));
  return kExitOk;
}

Result<int> token_rm(const Context& context, const std::string& token) {
  const bool joins = token.starts_with("join_");
  auto removed = context.api.remove((joins ? "/join/tokens/" : "/tokens/") + url_escape(token));
  if (!removed) return removed.error();
  if (context.json) return print(removed->dump(2) + "\n"), kExitOk;
  say(joins ? token + " is revoked: no host can join with it; hosts that have joined stay."
            : token + " is revoked, and browsers that logged in with it are logged out.");
  return kExitOk;
}

Result<int> ca_ls(const Context& context) {
  auto all = context.api.get("/authorities");
  if (!all) return all.error();
  return show_authorities(context, *all);
}

Result<int> ca_rotate(const Context& context) {
  auto all = context.api.post("/authorities/rotate", "", "application/json");
  if (!all) return all.error();
  if (!context.json)
    say("The new CA issues all certificates from now on; agents get one as they renew.");
  return show_authorities(context, *all);
}

Result<int> agent_revoke(const Context& context, const std::string& agent) {
  auto revoked =
      context.api.post("/agents/" + url_escape(agent) + "/revoke", "", "application/json");
  if (!revoked) return revoked.error();
  if (context.json) return print(revoked->dump(2) + "\n"), kExitOk;
  say("Agent " + text_at(*revoked, "name") +
      " is revoked: its session has ended, and its certificate is no longer accepted.");
  return kExitOk;
}

}  // namespace shoal::cli
