// See stream_messages.h.
#include "outer_opt/transport/stream_messages.h"

namespace shoal::outer_opt {

std::shared_ptr<const wire::stream::ByteVector> body_of(
    const google::protobuf::MessageLite& message) {
  auto bytes = std::make_shared<wire::stream::ByteVector>(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(bytes->data()));
  return bytes;
}

bool parse(std::span<const std::byte> body, google::protobuf::MessageLite& message) {
  return message.ParseFromArray(body.data(), static_cast<int>(body.size()));
}

Error no_message() {
  return {Code::kInvalidArgument, "the stream carries no message of its kind", "",
          "run the same version on both hosts"};
}

}  // namespace shoal::outer_opt
