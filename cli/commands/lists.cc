// shoal agent ls, shoal events.
#include <algorithm>

#include <time.h>

#include "cli/commands/agent_text.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

double now_unix_s() { return static_cast<double>(::time(nullptr)); }

std::string devices_of(const Json& agent) {
  const Json* devices = at_path(agent, "devices");
  if (!devices || !devices->is_array() || devices->empty()) return "-";
  std::string text;
  for (const Json& device : *devices) {
    const std::string kind = text_at(device, "kind"), name = text_at(device, "name", "");
    text += (text.empty() ? "" : ", ") + kind + (name == kind ? "" : " " + name);
  }
  return text;
}

std::string padded(std::string text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

void show_event(const Json& event, bool json) {
  if (json) return print(event.dump() + "\n");
  const std::string severity = text_at(event, "severity");
  print(text_at(event, "at") + "  " +
        paint(padded(severity, 7), severity == "info" ? Color::kNone : color_of_state(severity),
              terminal().stdout_color) +
        "  " + padded(text_at(event, "job"), 7) + "  " + padded(text_at(event, "kind"), 20) + "  " +
        text_at(event, "message", "") + "\n");
}

// "?" and what the options ask for, ready for one more.
std::string query_of(const EventsOptions& options) {
  std::string query = "?";
  for (const auto& [name, value] :
       {std::pair("severity=", options.level), {"job=", options.job}, {"agent=", options.agent}}) {
    if (!value.empty()) query += name + url_escape(value) + "&";
  }
  return query;
}

}  // namespace

Result<int> agent_ls(const Context& context, bool with_gone) {
  if (context.json) {
    auto agents = context.api.list(with_gone ? "/agents?gone=true" : "/agents");
    if (!agents) return agents.error();
    return print(agents->dump(2) + "\n"), kExitOk;
  }
  auto all = context.api.list("/agents?gone=true");
  if (!all) return all.error();
  Json& items = all->at("items");
  std::stable_sort(items.begin(), items.end(), [](const Json& one, const Json& other) {
    return comes_before(text_at(one, "name"), text_at(other, "name"));
  });
  Table table({"NAME", "STATE", "HEALTH", "DEVICES", "HOST", "VERSION", "LAST SEEN"});
  for (const Json& agent : items) {
    if (!with_gone && text_at(agent, "state") == "gone") continue;
    const std::string state = state_of(agent), health = text_at(agent, "health");
    table.add({text_at(agent, "name"),
               {state, color_of_state(text_at(agent, "state"))},
               {health, color_of_state(health)},
               devices_of(agent),
               text_at(agent, "host"),
               text_at(agent, "version"),
               human_age(last_seen(agent), now_unix_s())});
  }
  if (table.empty()) say("No agents. `shoal up --agents 4` starts some on this host.");
  print(table.render(terminal().stdout_color));
  if (const std::string unwell = unwell_text(items); !unwell.empty()) say(unwell);
  const std::string gone = with_gone ? "" : gone_text(items, now_unix_s());
  if (!gone.empty()) say(gone);
  return kExitOk;
}

Result<int> events(const Context& context, const EventsOptions& options) {
  const std::size_t count = static_cast<std::size_t>(options.last);
  auto newest = context.api.list("/events" + query_of(options) + "order=desc", count);
  if (!newest) return newest.error();
  Json& items = newest->at("items");
  std::string last_id = "0";
  if (!items.empty()) last_id = text_at(items.front(), "seq");
  if (context.json && !options.follow) return print(newest->dump(2) + "\n"), kExitOk;
  for (std::size_t i = std::min(count, items.size()); i > 0; --i) {
    show_event(items[i - 1], context.json);
  }
  if (!options.follow) return kExitOk;

  catch_interrupts();
  for (double silent_s = 0; silent_s < 120 && !interrupted();) {
    auto ended = context.api.follow("/events/stream" + query_of(options), last_id,
                                    [&](const std::string& id, const std::string& data) {
                                      const Json event = Json::parse(data, nullptr, false);
                                      if (!id.empty()) last_id = id;
                                      if (event.is_object()) show_event(event, context.json);
                                      silent_s = 0;
                                      return !interrupted();
                                    });
    if (!ended.ok() && ended.error().code != Code::kUnavailable &&
        ended.error().code != Code::kDeadlineExceeded && ended.error().code != Code::kCancelled) {
      return ended.error();
    }
    if (!pause_for(1)) break;
    silent_s += 1;
  }
  return interrupted() ? kExitInterrupted : kExitUnreachable;
}

}  // namespace shoal::cli
