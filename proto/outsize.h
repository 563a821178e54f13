// Messages that their receiver refuses for their size. gRPC then ends the stream, and the sender,
// which keeps what was not acknowledged, would repeat the message in every further stream. So it is
// dropped before it is sent: logged with its kind, and counted by the sender.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <google/protobuf/message.h>

namespace shoal::proto {

inline constexpr std::size_t kToCoordinatorBytesMax = 8 << 20;  // what the coordinator receives
inline constexpr std::size_t kOnHostBytesMax = 16 << 20;        // agent and trainer, both ways
inline constexpr std::size_t kToAgentBytesMax = 16 << 20;

// "report: 9000000 bytes, of at most 8388608", with the body's name in the envelope; none: it fits.
std::optional<std::string> outsize(const google::protobuf::Message& envelope,
                                   std::size_t bytes_max);

}  // namespace shoal::proto
