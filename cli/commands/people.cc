// shoal login, shoal link, shoal context, shoal audit: who one is, at which coordinator, and who
// changed what there.
#include <ctime>
#include <filesystem>
#include <iostream>

#include <termios.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

// Without showing what is typed.
class Unseen {
 public:
  Unseen() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    changed_ = tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) == 0;
  }
  ~Unseen() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }

 private:
  termios before_{};
  bool changed_ = false;
};

std::string typed_token() {
  const bool asks = isatty(STDIN_FILENO) != 0;
  if (asks) say("Paste the token; it is not shown:");
  const Unseen unseen;
  std::string line;
  std::getline(std::cin, line);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

// "https://shoal.example:7070" to "shoal.example".
std::string host_of(const std::string& origin) {
  std::string host = origin.substr(origin.find("://") + 3);
  host = host.substr(0, host.find('/'));
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']') == std::string::npos) host.resize(colon);
  std::erase_if(host, [](char c) { return c == '[' || c == ']' || c == ':'; });
  return host;
}

// Where the coordinator does not answer, or does not know the token, nothing is kept.
Result<Json> check_login(const SavedContext& context, bool clear_allowed) {
  const Api api(context.addr, {},
                {.token = context.token, .ca = context.ca, .clear_allowed = clear_allowed});
  return api.get("/session");
}

std::string until(const Json& session) {
  const double left =
      number_at(session, "expires_at_ms") / 1000 - static_cast<double>(::time(nullptr));
  return human_duration(left);
}

}  // namespace

Result<int> login(const LoginOptions& options, bool json) {
  const auto file = contexts_file();
  if (!file) return file.error();
  Wanted wanted = options.wanted;
  wanted.addr = options.addr;
  Chosen chosen = choose({}, with_environment(std::move(wanted)));
  if (!chosen.credentials.problem.ok()) return chosen.credentials.problem.error();
  SavedContext context{.name = options.name,
                       .addr = Api(chosen.addr).origin(),
                       .token = chosen.credentials.token,
                       .token_file = {},
                       .ca = chosen.credentials.ca};
  if (context.token.empty()) context.token = typed_token();
  if (context.name.empty()) context.name = host_of(context.addr);
  if (Status good = check_context_name(context.name); !good) return good.error();
  if (!context.ca.empty()) context.ca = std::filesystem::absolute(context.ca).lexically_normal();
  const auto session = check_login(context, options.wanted.clear_allowed);
  if (!session) return session.error();
  const Status kept = change_contexts(*file, [&](Contexts& contexts) {
    contexts.put(context);
    contexts.current = context.name;
  });
  if (!kept.ok()) return kept.error();
  if (json) return print(session->dump(2) + "\n"), kExitOk;
  say("Logged in at " + context.addr + " as " + text_at(*session, "name") + " (" +
      text_at(*session, "scope") + ") for " + until(*session) + "; it is the context " +
      context.name + ".");
  return kExitOk;
}

Result<int> link(const Context& context) {
  const auto ticket = context.api.post("/tickets", "", "application/json");
  if (!ticket) return ticket.error();
  if (context.json) return print(ticket->dump(2) + "\n"), kExitOk;
  print(context.api.origin() + "/login#ticket=" + text_at(*ticket, "ticket") + "\n");
  say("It logs a browser in once, within ten minutes, as you.");
  return kExitOk;
}

Result<int> audit(const Context& context, int last) {
  const std::size_t count = static_cast<std::size_t>(last);
  auto newest = context.api.list("/audit?order=desc", count);
  if (!newest) return newest.error();
  Json& items = newest->at("items");
  while (items.size() > count) items.erase(items.size() - 1);
  if (context.json) return print(newest->dump(2) + "\n"), kExitOk;
  Table table({"AT", "WHO", "TOKEN", "ACTION", "OBJECT", "BEFORE", "AFTER"});
  for (std::size_t i = items.size(); i > 0; --i) {
    const Json& one = items[i - 1];
    table.add({text_at(one, "at"), text_at(one, "principal"), text_at(one, "token"),
               text_at(one, "action"), text_at(one, "object"), text_at(one, "before"),
               text_at(one, "after")});
  }
  print(table.render(terminal().stdout_color));
  return kExitOk;
}

Result<int> context_ls(bool json) {
  const auto file = contexts_file();
  if (!file) return file.error();
  const auto contexts = load_contexts(*file);
  if (!contexts) return contexts.error();
  Json items = Json::array();
  Table table({"", "CONTEXT", "ADDRESS", "TOKEN", "CA"});
  for (const SavedContext& one : contexts->all) {
    const bool current = one.name == contexts->current;
    const std::string token = one.token_file.empty() ? "kept" : one.token_file;
    items.push_back(Json{{"name", one.name}, {"addr", one.addr}, {"current", current}});
    table.add({current ? "*" : "", one.name, one.addr, token, one.ca.empty() ? "-" : one.ca});
  }
  if (json) return print(Json{{"items", items}}.dump(2) + "\n"), kExitOk;
  if (table.empty()) say("No contexts. `shoal login https://HOST:7070` keeps one.");
  print(table.render(terminal().stdout_color));
  return kExitOk;
}

Result<int> context_use(const std::string& name) {
  const auto file = contexts_file();
  if (!file) return file.error();
  bool found = false;
  const Status changed = change_contexts(*file, [&](Contexts& contexts) {
    found = contexts.find(name) != nullptr;
    if (found) contexts.current = name;
  });
  if (!changed.ok()) return changed.error();
  if (found) return kExitOk;
  return Error{Code::kNotFound, "there is no context '" + name + "'", "",
               "`shoal context ls` lists them"};
}

Result<int> context_rm(const std::string& name) {
  const auto file = contexts_file();
  if (!file) return file.error();
  bool found = false;
  const Status changed =
      change_contexts(*file, [&](Contexts& contexts) { found = contexts.remove(name); });
  if (!changed.ok()) return changed.error();
  if (found) return kExitOk;
  return Error{Code::kNotFound, "there is no context '" + name + "'", "",
               "`shoal context ls` lists them"};
}

}  // namespace shoal::cli
