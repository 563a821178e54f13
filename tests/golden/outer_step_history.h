// The history of outer_step.txt, for every implementation: three members with weights 1, 1 and 2
// average small integers and take Nesterov steps with lr 0.7 and momentum 0.9. Value 0 is 1 at
// every member in every round, so its anchor falls by 1.33, 1.897, 2.4073, 2.86657: the numbers
// that the definition gives by hand.
#pragma once

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt::golden {

inline constexpr std::int64_t kFrameValues = 2;
inline constexpr std::size_t kValues = 6;
inline constexpr int kMembers = 3;
inline constexpr OuterSpec kOuter{0.7, 0.9};

inline ReducePlan plan_of(CodecKind codec, RoundNumber round) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, round};
  plan.attempt = 1;
  plan.codec = codec;
  plan.frame_values = kFrameValues;
  plan.value_count = static_cast<std::int64_t>(kValues);
  for (int i = 0; i < kMembers; ++i) {
    plan.members.push_back(
        {ReplicaId(static_cast<std::uint64_t>(i) + 1), "m", i == 2 ? 2.0 : 1.0, 1.0, 0, 0});
  }
  assign_parts(plan, {1, 1, 1});
  return plan;
}

struct Vectors {
  std::vector<float> average, momentum, anchor;
};

// Averages the inputs as the plan says and takes the outer step.
using TakeRound = std::function<void(const ReducePlan& plan,
                                     const std::vector<std::vector<float>>& inputs, Vectors&)>;

inline std::string line(const char* name, const std::vector<float>& values) {
  std::string text = name;
  for (const float value : values) {
    char number[32];
    std::snprintf(number, sizeof number, " %.9g", static_cast<double>(value));
    text += number;
  }
  return text + "\n";
}

inline std::string history(CodecKind codec, const TakeRound& take_round) {
  std::string text = std::string(to_string(codec)) + "\n";
  Vectors vectors{std::vector<float>(kValues), std::vector<float>(kValues),
                  std::vector<float>(kValues)};
  for (RoundNumber round = 1; round <= 4; ++round) {
    std::vector<std::vector<float>> inputs(kMembers, std::vector<float>(kValues));
    for (std::size_t m = 0; m < kMembers; ++m) {
      for (std::size_t i = 0; i < kValues; ++i) {
        inputs[m][i] = i == 0 ? 1.0f : static_cast<float>(static_cast<int>(m * 3 + i * 2) - round);
      }
    }
    take_round(plan_of(codec, round), inputs, vectors);
    text += "round " + std::to_string(round) + "\n" + line("  average ", vectors.average) +
            line("  momentum", vectors.momentum) + line("  anchor  ", vectors.anchor);
  }
  return text;
}

inline std::string written(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace shoal::outer_opt::golden
