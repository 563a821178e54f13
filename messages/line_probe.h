// How long bytes take between the coordinator and an agent, over the agent's own stream. The
// coordinator sends MeasureLine, the agent answers at once with LineMeasured, and the coordinator
// takes the time (coordinator/service/line_ladder.h). One of the two payloads is large, so that the
// time is that of one direction. Neither message is sent again, stored or logged.
//
// The coordinator draws `id` for each message. On the wire it follows the payload, and the answer's
// payload is made from it, so an agent cannot answer before it has received the whole message, nor
// prepare its answer.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"

namespace shoal {

// Agents from this protocol on answer.
inline constexpr std::int32_t kMeasuresLinesSince = 7;

inline constexpr std::int64_t kLinePayloadMax = 1 << 20;  // bytes, either way

struct MeasureLine {
  std::string payload;
  std::uint64_t id = 0;
  std::int64_t answer_bytes = 0;  // of the answer's payload
  bool operator==(const MeasureLine&) const = default;
};
constexpr auto fields_of(Of<MeasureLine>) {
  using T = MeasureLine;
  return fields(field<&T::payload>(at_most(kLinePayloadMax)), field<&T::id>(),
                field<&T::answer_bytes>());
}

struct LineMeasured {
  std::string payload;  // line_payload() of the id
  std::uint64_t id = 0;
  bool operator==(const LineMeasured&) const = default;
};
constexpr auto fields_of(Of<LineMeasured>) {
  using T = LineMeasured;
  return fields(field<&T::payload>(at_most(kLinePayloadMax)), field<&T::id>());
}

// So many bytes that a tunnel cannot compress, the same on every machine.
std::string line_payload(std::uint64_t seed, std::int64_t bytes);

}  // namespace shoal
