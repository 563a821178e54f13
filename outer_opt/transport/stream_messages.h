// Protobuf messages as the bodies of stream messages.
#pragma once

#include <memory>
#include <span>

#include <google/protobuf/message_lite.h>

#include "base/result.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {

std::shared_ptr<const wire::stream::ByteVector> body_of(
    const google::protobuf::MessageLite& message);

bool parse(std::span<const std::byte> body, google::protobuf::MessageLite& message);

// What the other end is told whose message cannot be parsed, or lacks.
Error no_message();

}  // namespace shoal::outer_opt
