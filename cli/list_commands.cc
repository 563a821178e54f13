// shoal agent ls, shoal round ls, shoal events.
#include <map>

#include <time.h>

#include "cli/commands.h"
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

std::string seconds_at(const Json& object, std::string_view path) {
  return at_path(object, path) ? human_duration(number_at(object, path)) : "-";
}

std::string percent_at(const Json& object, std::string_view path) {
  return at_path(object, path) ? fixed(100 * number_at(object, path), 0) + " %" : "-";
}

std::string loss_at(const Json& object, std::string_view path) {
  return at_path(object, path) ? fixed(number_at(object, path), 3) : "-";
}

// The digest of the round's average when all members of a stage hold the same one.
std::string digests_of(const Json& round) {
  const Json* members = at_path(round, "contributions");
  if (!members || !members->is_array()) return "-";
  std::map<double, std::string> by_stage;
  for (const Json& member : *members) {
    const std::string digest = text_at(member, "digest", "");
    if (digest.empty()) continue;
    std::string& first = by_stage[number_at(member, "stage")];
    if (first.empty()) first = digest;
    if (digest != first) return "DIFFERENT";
  }
  return by_stage.empty() ? "-" : text_at(round, "digest", "-").substr(0, 8);
}

std::size_t size_at(const Json& object, std::string_view path) {
  const Json* list = at_path(object, path);
  return list && list->is_array() ? list->size() : 0;
}

double sum_at(const Json& round, const char* field) {
  double sum = 0;
  if (const Json* members = at_path(round, "contributions"); members && members->is_array()) {
    for (const Json& member : *members) sum += number_at(member, field);
  }
  return sum;
}

void show_event(const Json& event, bool json) {
  if (json) return print(event.dump() + "\n");
  const std::string severity = text_at(event, "severity");
  std::string level = severity + std::string(severity.size() < 7 ? 7 - severity.size() : 0, ' ');
  print(text_at(event, "at") + "  " +
        paint(level, severity == "info" ? Colour::kNone : colour_of_state(severity),
              terminal().stdout_colour) +
        "  " + text_at(event, "kind") + "  " + text_at(event, "message", "") + "\n");
}

}  // namespace

Result<int> agent_ls(const Context& context, bool with_gone) {
  auto agents = context.api.list(with_gone ? "/agents?gone=true" : "/agents");
  if (!agents) return agents.error();
  if (context.json) return print(agents->dump(2) + "\n"), kExitOk;
  Table table({"NAME", "STATE", "HEALTH", "DEVICES", "HOST", "VERSION", "LAST SEEN"});
  for (const Json& agent : agents->at("items")) {
    const std::string state = text_at(agent, "state"), health = text_at(agent, "health");
    table.add({text_at(agent, "name"),
               {state, colour_of_state(state)},
               {health, colour_of_state(health)},
               devices_of(agent),
               text_at(agent, "host"),
               text_at(agent, "version"),
               human_age(text_at(agent, "last_seen_at"), now_unix_s())});
  }
  if (table.empty()) say("No agents. `shoal up --agents 4` starts some on this host.");
  print(table.render(terminal().stdout_colour));
  return kExitOk;
}

Result<int> round_ls(const Context& context, const std::string& job) {
  auto rounds = context.api.list("/jobs/" + url_escape(job) + "/rounds");
  if (!rounds) return rounds.error();
  if (context.json) return print(rounds->dump(2) + "\n"), kExitOk;
  Table table({">ROUND", "STATE", ">STEP", ">MEMBERS", ">TRAIN", ">VALIDATION", ">SENT",
               ">TRAINING", ">REDUCE", ">BUSY", "DIGEST"});
  for (const Json& round : rounds->at("items")) {
    const std::string state = text_at(round, "state");
    table.add({text_at(round, "round"),
               {state, colour_of_state(state)},
               text_at(round, "to_step"),
               std::to_string(size_at(round, "contributions")),
               loss_at(round, "train_loss"),
               loss_at(round, "validation_loss"),
               human_bytes(sum_at(round, "bytes_sent")),
               seconds_at(round, "seconds/train"),
               seconds_at(round, "seconds/reduce"),
               percent_at(round, "compute_utilisation"),
               digests_of(round)});
  }
  if (table.empty()) say("No rounds yet.");
  print(table.render(terminal().stdout_colour));
  return kExitOk;
}

Result<int> events(const Context& context, const EventsOptions& options) {
  const std::size_t count = static_cast<std::size_t>(std::max(1, options.last));
  auto newest = context.api.list("/events?order=desc", count);
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
    auto ended = context.api.follow("/events/stream", last_id,
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
