// What somebody probably meant by a word that is not known.
#pragma once

#include <string_view>

namespace shoal::proto {

// Levenshtein distance of the first 64 characters of `given` to `word`, which is short.
std::size_t edit_distance(std::string_view given, std::string_view word);

// Whether one may have been meant by the other: about a third of it is wrong at most.
bool is_near(std::string_view given, std::string_view word);

}  // namespace shoal::proto
