#include "coordinator/service/shelves/weights_anchor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace shoal::coordinator {
namespace {

constexpr std::size_t kLengthBytes = 8;

Error damaged(const std::string& why) {
  return {Code::kDataLoss, "is no file of weights: " + why, "", ""};
}

std::uint64_t length_of(const std::string& header) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = (length << 8) | static_cast<unsigned char>(header[i]);
  }
  return length;
}

// Bytes of all tensors, which have to be float32 and to lie back to back.
Result<std::int64_t> size_of_values(const nlohmann::json& header) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    if (tensor.at("dtype") != "F32") return damaged(name + " is not of float32");
    const auto& offsets = tensor.at("data_offsets");
    places.emplace_back(offsets.at(0).get<std::int64_t>(), offsets.at(1).get<std::int64_t>());
  }
  std::ranges::sort(places);
  std::int64_t end = 0;
  for (const auto& [first, last] : places) {
    if (first != end || last < first) return damaged("its tensors do not lie back to back");
    end = last;
  }
  return end;
}

}  // namespace

bool WeightsAnchor::header_is_complete() const {
  return header_.size() >= kLengthBytes && (length_of(header_) > kHeaderBytesMax ||
                                            header_.size() - kLengthBytes == length_of(header_));
}

void WeightsAnchor::add(std::span<const std::byte> bytes) {
  while (!bytes.empty() && !header_is_complete()) {
    const std::size_t whole = header_.size() < kLengthBytes
                                  ? kLengthBytes
                                  : kLengthBytes + static_cast<std::size_t>(length_of(header_));
    const auto piece = bytes.first(std::min(bytes.size(), whole - header_.size()));
    header_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    bytes = bytes.subspan(piece.size());
  }
  values_.add(bytes);
  value_bytes_ += std::ssize(bytes);
}

Result<Digest> WeightsAnchor::finish() const {
  if (!header_is_complete() || length_of(header_) > kHeaderBytesMax) {
    return damaged("it is shorter than its header");
  }
  try {
    const auto size = size_of_values(nlohmann::json::parse(header_.substr(kLengthBytes)));
    if (!size) return size.error();
    if (*size != value_bytes_) return damaged("it is not whole");
    return values_.finish();
  } catch (const nlohmann::json::exception& problem) {
    return damaged(problem.what());
  }
}

}  // namespace shoal::coordinator
