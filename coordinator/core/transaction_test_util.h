// For the tests of single rules: what one transaction over a constructed state has said and told.
#pragma once

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

inline Effects effects_of(Transaction& tx) {
  Effects effects;
  tx.finish(effects);
  return effects;
}

// Messages of one type, in their order: to one connection, or (zero) to anybody.
template <typename T>
std::vector<T> messages(const Effects& effects, ConnectionId connection = {}) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr || (connection.n != 0 && send->connection != connection)) continue;
    if (const T* message = std::get_if<T>(&send->message)) found.push_back(*message);
  }
  return found;
}

inline std::int64_t count_events(const Effects& effects, std::string_view kind) {
  return std::ranges::count_if(effects, [&](const Effect& effect) {
    const auto* persist = std::get_if<Persist>(&effect);
    const auto* event = persist == nullptr ? nullptr : std::get_if<EventRecord>(&persist->record);
    return event != nullptr && event->kind == kind;
  });
}

}  // namespace shoal::coordinator
