// Strong identifiers. The coordinator hands them out from counters that never go back, so an id
// names one thing for the life of a cluster. Zero means "none". Text form: a prefix and the number
// ("job_7").
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal {

template <typename Tag>
struct Id {
  std::uint64_t n = 0;
  constexpr Id() = default;
  constexpr explicit Id(std::uint64_t value) : n(value) {}
  auto operator<=>(const Id&) const = default;
  constexpr explicit operator bool() const { return n != 0; }
};

struct JobTag {
  static constexpr std::string_view kPrefix = "job_";
};
struct AgentTag {
  static constexpr std::string_view kPrefix = "agt_";
};
struct ReplicaTag {
  static constexpr std::string_view kPrefix = "rep_";
};
struct CheckpointTag {
  static constexpr std::string_view kPrefix = "ckpt_";
};

using JobId = Id<JobTag>;
using AgentId = Id<AgentTag>;
using ReplicaId = Id<ReplicaTag>;
using CheckpointId = Id<CheckpointTag>;

template <typename Tag>
std::string to_string(Id<Tag> id) {
  return std::string(Tag::kPrefix) + std::to_string(id.n);
}

// "job_7" -> 7; nothing else is accepted (no sign, no leading zero, no overflow).
std::optional<std::uint64_t> parse_prefixed(std::string_view text, std::string_view prefix);

template <typename Tag>
std::optional<Id<Tag>> parse_id(std::string_view text) {
  const auto n = parse_prefixed(text, Tag::kPrefix);
  return n ? std::optional(Id<Tag>(*n)) : std::nullopt;
}

// One start of an agent daemon; only grows. Messages of an older incarnation are dropped.
struct Incarnation {
  std::uint64_t n = 0;
  auto operator<=>(const Incarnation&) const = default;
};

using RoundNumber = std::int64_t;  // 1 is the first round; 0 is the initial parameters
using StageIndex = std::int32_t;

}  // namespace shoal
