#include "identity/names.h"

#include <limits>
#include <optional>

#include "base/overloaded.h"

namespace shoal::identity {
namespace {

constexpr std::string_view kScheme = "shoal://";
constexpr std::size_t kClusterNameMin = 3;
constexpr std::size_t kQuotedMax = 60;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_cluster_name(std::string_view text) {
  if (text.size() < kClusterNameMin || text.size() > kClusterNameMax) return false;
  for (const char c : text) {
    if (!is_lower(c) && !is_digit(c) && c != '-') return false;
  }
  return is_lower(text.front()) && text.back() != '-';
}

// Takes "/word/" and what follows up to the next slash off the front of a path.
class Path {
 public:
  explicit Path(std::string_view rest) : rest_(rest) {}

  std::optional<std::string_view> take(std::string_view word) {
    if (!rest_.starts_with('/')) return std::nullopt;
    std::string_view path = rest_.substr(1);
    if (!path.starts_with(word)) return std::nullopt;
    path.remove_prefix(word.size());
    if (!path.starts_with('/')) return std::nullopt;
    path.remove_prefix(1);
    const std::string_view value = path.substr(0, path.find('/'));
    rest_ = path.substr(value.size());
    return value;
  }
  template <typename AnyId>
  std::optional<AnyId> take_id(std::string_view word) {
    const auto value = take(word);
    if (!value) return std::nullopt;
    const auto n = parse_prefixed(*value, to_prefix(AnyId()));
    return n ? std::optional(AnyId(*n)) : std::nullopt;
  }
  // 0 or more, without leading zeros.
  std::optional<std::int64_t> take_count(std::string_view word, std::int64_t most) {
    const auto value = take(word);
    if (!value) return std::nullopt;
    if (*value == "0") return 0;
    const auto n = parse_prefixed(*value, "");
    if (!n || *n > static_cast<std::uint64_t>(most)) return std::nullopt;
    return static_cast<std::int64_t>(*n);
  }
  bool at_end() const { return rest_.empty(); }

 private:
  template <typename Tag>
  static std::string_view to_prefix(Id<Tag>) {
    return Tag::kPrefix;
  }
  std::string_view rest_;
};

std::optional<ReplicaName> take_replica(AgentId agent, Path path) {
  const auto job = path.take_id<JobId>("job");
  if (!job) return std::nullopt;
  const auto stage = path.take_count("stage", std::numeric_limits<StageIndex>::max());
  if (!stage) return std::nullopt;
  const auto epoch = path.take_count("epoch", std::numeric_limits<std::int64_t>::max());
  if (!epoch) return std::nullopt;
  const auto replica = path.take_id<ReplicaId>("replica");
  if (!replica || !path.at_end()) return std::nullopt;
  return ReplicaName{agent, *job, static_cast<StageIndex>(*stage), *epoch, *replica};
}

std::optional<PeerName> take_name(std::string_view uri) {
  if (uri.size() > kNameMax || !uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::string_view cluster = uri.substr(0, uri.find('/'));
  if (!is_cluster_name(cluster)) return std::nullopt;
  uri.remove_prefix(cluster.size());
  PeerName name{{std::string(cluster)}, CoordinatorName()};
  if (uri == "/coordinator") return name;
  Path path(uri);
  const auto agent = path.take_id<AgentId>("agent");
  if (!agent) return std::nullopt;
  name.who = *agent;
  if (path.at_end()) return name;
  const auto replica = take_replica(*agent, path);
  if (!replica) return std::nullopt;
  name.who = *replica;
  return name;
}

std::string path_of(const ReplicaName& replica) {
  return "/agent/" + to_string(replica.agent) + "/job/" + to_string(replica.job) + "/stage/" +
         std::to_string(replica.stage) + "/epoch/" + std::to_string(replica.epoch) + "/replica/" +
         to_string(replica.replica);
}

}  // namespace

Result<ClusterName> parse_cluster_name(std::string_view text) {
  if (is_cluster_name(text)) return ClusterName{std::string(text)};
  return Error{Code::kInvalidArgument, quoted(text) + " is not a name of a cluster", "cluster",
               "give 3 to 32 lower-case letters, digits and hyphens, a letter first"};
}

PeerKind kind_of(const PeerName& name) { return static_cast<PeerKind>(name.who.index()); }

AgentId agent_of(const PeerName& name) {
  return std::visit(
      Overloaded{[](const CoordinatorName&) { return AgentId(); }, [](AgentId id) { return id; },
                 [](const ReplicaName& replica) { return replica.agent; }},
      name.who);
}

bool is_valid(const PeerName& name) {
  const auto parsed = take_name(to_string(name));
  return parsed && *parsed == name;
}

std::string to_string(const PeerName& name) {
  const std::string path =
      std::visit(Overloaded{[](const CoordinatorName&) { return std::string("/coordinator"); },
                            [](AgentId id) { return "/agent/" + to_string(id); },
                            [](const ReplicaName& replica) { return path_of(replica); }},
                 name.who);
  return std::string(kScheme) + name.cluster.text + path;
}

Result<PeerName> parse_name(std::string_view uri) {
  if (auto name = take_name(uri)) return std::move(*name);
  return Error{Code::kInvalidArgument, quoted(uri) + " is not the name of a member of a cluster",
               "name", "use a certificate that this cluster's coordinator issued"};
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kQuotedMax)) {
    out += c >= ' ' && c <= '~' && c != '"' ? c : '?';
  }
  return out + (text.size() > kQuotedMax ? "...\"" : "\"");
}

}  // namespace shoal::identity
