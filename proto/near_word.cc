#include "proto/near_word.h"

#include <algorithm>
#include <vector>

namespace shoal::proto {

std::size_t edit_distance(std::string_view given, std::string_view word) {
  given = given.substr(0, 64);
  std::vector<std::size_t> row(word.size() + 1);
  for (std::size_t j = 0; j <= word.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= given.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= word.size(); ++j) {
      const std::size_t substituted = diagonal + (given[i - 1] == word[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[word.size()];
}

bool is_near(std::string_view given, std::string_view word) {
  return edit_distance(given, word) <= std::max<std::size_t>(1, (given.size() + 1) / 3);
}

}  // namespace shoal::proto
