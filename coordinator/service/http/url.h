// Reading what a URL says: percent-decoding, query strings, page cursors and the checked query
// parameters that several routes share. Every refusal names the parameter ("/query/limit").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

// None for a broken escape or an embedded zero. `plus_is_space` for query strings.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

// "/a/b?x=1" into path and query. False for a target that is not a path or has broken escapes.
bool split_target(std::string_view target, Request& request);

// Opaque to clients. `list` names what is being paged, so a cursor of one list is refused by
// another.
std::string make_cursor(std::string_view list, std::int64_t key);

// Parameters limit (1..500, default 50), cursor and order (asc, desc). A cursor that was never one
// is kInvalidArgument; one of another list or version is kIncompatible.
Result<PageRequest> read_page(const Request& request, std::string_view list, bool newest_first);

// {"items": […], "next_cursor": …}
Json page_json(Json items, const std::optional<std::int64_t>& next, std::string_view list);

// Absent: `fallback`.
Result<std::int64_t> read_integer(const Request& request, std::string_view name, std::int64_t low,
                                  std::int64_t high, std::int64_t fallback);
Result<std::optional<double>> read_number(const Request& request, std::string_view name);
Result<bool> read_flag(const Request& request,
                       std::string_view name);  // true, false, 1, 0, or bare

Error bad_query(std::string_view name, std::string message);

// Refuses a parameter that the route does not know, naming those it does.
Status check_query_names(const Request& request, const std::vector<std::string_view>& known);

// Every word of a closed list, in the order of the enum.
template <typename Enum>
std::vector<std::string_view> all_words() {
  std::vector<std::string_view> all;
  for (const auto& word : kEnumerators<Enum>) all.emplace_back(word.text);
  return all;
}

}  // namespace shoal::coordinator::rest
