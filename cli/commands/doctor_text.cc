#include "cli/commands/doctor_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/format.h"

namespace shoal::cli {
namespace {

struct Agent {
  std::string name, host, relay;
};
using Agents = std::map<std::string, Agent>;  // by id
using Pair = std::pair<std::string, std::string>;

Agents read_agents(const Json& items) {
  Agents agents;
  for (const Json& item : items) {
    agents[text_at(item, "id")] = {text_at(item, "name"), text_at(item, "host"),
                                   text_at(item, "relay", "")};
  }
  return agents;
}

std::map<Pair, std::string> read_ways(const Json& links, const Agents& agents) {
  std::map<Pair, std::string> ways;
  for (const Json& link : links) {
    const Pair pair{text_at(link, "from"), text_at(link, "to")};
    if (pair.first == pair.second || !agents.contains(pair.first) || !agents.contains(pair.second))
      continue;
    std::string way = text_at(link, "way", "unknown");
    if (way == "unknown" && text_at(link, "reached") == "false") way = "unreachable";
    ways[pair] = way;
  }
  return ways;
}

std::string relays_text(const Agents& agents) {
  std::string text;
  for (const auto& [id, agent] : agents) {
    if (!agent.relay.empty()) text += (text.empty() ? "" : ", ") + agent.relay;
  }
  return text;
}

std::string remedy_for_relay(const Agents& agents) {
  const std::string relays = relays_text(agents);
  if (relays.empty()) {
    return "or run a relay on a host that both can dial: shoal-agent --role relay";
  }
  return "or let both dial a relay: " + relays;
}

// One sentence for both directions; the ends are in the order of their names.
Finding about_pair(FindingKind kind, const Agent& one, const Agent& other, const Agents& agents) {
  const std::string open = "open --peer-ports (7100-7199 unless configured otherwise) of " +
                           one.name + " (" + one.host + ") for " + other.name + ", or of " +
                           other.name + " (" + other.host + ") for " + one.name;
  Finding finding{kind, {one.name, other.name}, {}, {}};
  switch (kind) {
    case FindingKind::kUnreachable:
      finding.what = one.name + " and " + other.name + " have no way to each other";
      finding.remedy = open + "; " + remedy_for_relay(agents);
      break;
    case FindingKind::kRelayed:
      finding.what = one.name + " and " + other.name + " reach each other over a relay only";
      finding.remedy = "to spare the relay, " + open;
      break;
    case FindingKind::kReverse:
      finding.what = one.name + " cannot dial " + other.name + ", which dials it instead";
      break;
    case FindingKind::kAbsent:
      break;
  }
  return finding;
}

bool either_is(const std::map<Pair, std::string>& ways, const Pair& pair, const char* way) {
  const auto is = [&](const Pair& each) {
    const auto known = ways.find(each);
    return known != ways.end() && known->second == way;
  };
  return is(pair) || is({pair.second, pair.first});
}

void diagnose_pair(const Pair& pair, const std::map<Pair, std::string>& ways, const Agents& agents,
                   std::vector<Finding>& findings) {
  const Agent &one = agents.at(pair.first), &other = agents.at(pair.second);
  const auto add = [&](FindingKind kind, const Agent& from, const Agent& to) {
    findings.push_back(about_pair(kind, from, to, agents));
  };
  if (either_is(ways, pair, "unreachable")) return add(FindingKind::kUnreachable, one, other);
  if (either_is(ways, pair, "relayed")) return add(FindingKind::kRelayed, one, other);
  for (const auto& [from, to] : {pair, Pair(pair.second, pair.first)}) {
    const auto known = ways.find({from, to});
    if (known == ways.end() || known->second != "reverse") continue;
    add(FindingKind::kReverse, agents.at(from), agents.at(to));
  }
}

void diagnose_absent(const Json& items, std::vector<Finding>& findings) {
  for (const Json& item : items) {
    if (text_at(item, "state") == "gone" || text_at(item, "health") != "red") continue;
    const std::string name = text_at(item, "name");
    findings.push_back(
        {FindingKind::kAbsent,
         {name},
         name + " (" + text_at(item, "host") + ") has no session with the coordinator",
         "is its agent running? From that host the coordinator's ports, 7070 and 7071 "
         "unless configured otherwise, must be open"});
  }
}

}  // namespace

std::vector<Finding> diagnose(const Json& items, const Json& links) {
  const Agents agents = read_agents(items);
  const auto ways = read_ways(links, agents);
  const auto name = [&](const std::string& id) { return agents.at(id).name; };
  std::set<Pair> pairs;
  for (const auto& [pair, way] : ways) {
    const bool turned = comes_before(name(pair.second), name(pair.first));
    pairs.insert(turned ? Pair(pair.second, pair.first) : pair);
  }
  std::vector<Pair> in_order(pairs.begin(), pairs.end());
  std::ranges::sort(in_order, [&](const Pair& a, const Pair& b) {
    if (a.first != b.first) return comes_before(name(a.first), name(b.first));
    return comes_before(name(a.second), name(b.second));
  });
  std::vector<Finding> findings;
  diagnose_absent(items, findings);
  for (const Pair& pair : in_order) diagnose_pair(pair, ways, agents, findings);
  std::ranges::stable_sort(findings, {}, &Finding::kind);
  return findings;
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += finding.is_fault() ? "FAULT  " : "ok     ";
    text += finding.what + "\n";
    if (!finding.remedy.empty()) text += "       " + finding.remedy + "\n";
  }
  return text;
}

Json to_json(const std::vector<Finding>& findings) {
  static constexpr const char* kWords[] = {"absent", "unreachable", "relayed", "reverse"};
  Json items = Json::array();
  for (const Finding& finding : findings) {
    items.push_back({{"kind", kWords[static_cast<int>(finding.kind)]},
                     {"agents", finding.agents},
                     {"what", finding.what},
                     {"remedy", finding.remedy}});
  }
  return {{"items", items}};
}

}  // namespace shoal::cli
