// See logged_values.h.
#include "replica/runtime/logged_values.h"

#include <algorithm>
#include <utility>

namespace shoal::replica {

void keep_newest(std::vector<LoggedValue>& kept, std::vector<LoggedValue> values) {
  for (LoggedValue& value : values) {
    const auto same = std::ranges::find(kept, value.name, &LoggedValue::name);
    if (same != kept.end()) {
      *same = std::move(value);
    } else if (kept.size() < kLoggedValuesMax) {
      kept.push_back(std::move(value));
    }
  }
}

}  // namespace shoal::replica
