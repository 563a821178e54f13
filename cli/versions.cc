#include "cli/versions.h"

#include <array>
#include <charconv>
#include <optional>

namespace shoal::cli {
namespace {

using Numbers = std::array<int, 3>;

// "1.2.3", with anything behind it ("1.2.3-rc1").
std::optional<Numbers> numbers_of(std::string_view version) {
  Numbers numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && !version.starts_with('.')) return std::nullopt;
    if (i > 0) version.remove_prefix(1);
    const char* end = version.data() + version.size();
    const auto [stop, error] = std::from_chars(version.data(), end, numbers[i]);
    if (error != std::errc() || numbers[i] < 0) return std::nullopt;
    version.remove_prefix(static_cast<std::size_t>(stop - version.data()));
  }
  return numbers;
}

}  // namespace

std::string version_advice(std::string_view own, std::string_view coordinator) {
  const auto ours = numbers_of(own), theirs = numbers_of(coordinator);
  if (!ours || !theirs || *ours == *theirs) return {};
  const char* older = *ours < *theirs ? "shoal" : "the coordinator";
  return "this shoal is " + std::string(own) + " and the coordinator " + std::string(coordinator) +
         ": upgrade " + older;
}

}  // namespace shoal::cli
