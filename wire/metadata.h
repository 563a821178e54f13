// Numbers and texts in the metadata of a gRPC call, by which the two ends of a stream name it.
#pragma once

#include <charconv>
#include <map>
#include <string>

#include <grpcpp/support/string_ref.h>

namespace shoal::wire {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Metadata of a trainer's call to its agent: the nonce that it was started with.
inline constexpr const char* kTrainerNonceName = "shoal-trainer-nonce";

// False, and `value` as it was, unless the entry is there and is a whole decimal number that fits.
template <typename T>
bool read_number(const Metadata& metadata, const char* name, T& value) {
  const auto it = metadata.find(name);
  if (it == metadata.end()) return false;
  const char* end = it->second.data() + it->second.size();
  T number{};
  const auto parsed = std::from_chars(it->second.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  value = number;
  return true;
}

// Empty when there is no such entry.
inline std::string read_text(const Metadata& metadata, const char* name) {
  const auto it = metadata.find(name);
  return it == metadata.end() ? std::string() : std::string(it->second.data(), it->second.size());
}

}  // namespace shoal::wire
