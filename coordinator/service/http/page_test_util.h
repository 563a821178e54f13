// Pages of what a test keeps in maps, as the store makes them of its tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "coordinator/store/reader.h"

namespace shoal::coordinator::testing {

// One page of a map whose keys are positive numbers.
template <typename Map, typename Keep, typename KeyOf>
auto page_of(const Map& map, const PageRequest& request, Keep keep, KeyOf key_of) {
  Page<typename Map::mapped_type> page;
  std::vector<const typename Map::value_type*> rows;
  for (const auto& row : map) rows.push_back(&row);
  if (request.newest_first) std::reverse(rows.begin(), rows.end());
  std::int64_t last = 0;
  for (const auto* row : rows) {
    const std::int64_t key = key_of(*row);
    if (request.after != 0 && (request.newest_first ? key >= request.after : key <= request.after))
      continue;
    if (!keep(row->second)) continue;
    if (static_cast<int>(page.items.size()) == request.limit) {
      page.next = last;
      break;
    }
    page.items.push_back(row->second);
    last = key;
  }
  return page;
}

}  // namespace shoal::coordinator::testing
