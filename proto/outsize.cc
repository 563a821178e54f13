#include "proto/outsize.h"

namespace shoal::proto {
namespace {

std::string kind_of(const google::protobuf::Message& envelope) {
  const auto* descriptor = envelope.GetDescriptor();
  if (descriptor->oneof_decl_count() == 0) return descriptor->name();
  const auto* body =
      envelope.GetReflection()->GetOneofFieldDescriptor(envelope, descriptor->oneof_decl(0));
  return body == nullptr ? descriptor->name() : body->name();
}

}  // namespace

std::optional<std::string> outsize(const google::protobuf::Message& envelope,
                                   std::size_t bytes_max) {
  const std::size_t size = envelope.ByteSizeLong();
  if (size <= bytes_max) return std::nullopt;
  return kind_of(envelope) + ": " + std::to_string(size) + " bytes, of at most " +
         std::to_string(bytes_max);
}

}  // namespace shoal::proto
