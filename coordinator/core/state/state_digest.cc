// The digest of the durable state, out of the lists of fields that stand beside the records: what
// is listed counts, so a new field cannot be forgotten here.
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "coordinator/core/state/state.h"
#include "job/job_options.h"

namespace shoal::coordinator {
namespace {

template <typename T>
void add(Digester& d, const T& value);
template <typename First, typename Second>
void add(Digester& d, const std::pair<First, Second>& both);
template <typename T>
void add(Digester& d, const std::optional<T>& value);

template <typename T>
void add(Digester& d, const std::vector<T>& list) {
  d.add(static_cast<std::uint64_t>(list.size()));
  for (const T& item : list) add(d, item);
}

template <typename First, typename Second>
void add(Digester& d, const std::pair<First, Second>& both) {
  add(d, both.first);
  add(d, both.second);
}

template <typename T>
void add(Digester& d, const std::optional<T>& value) {
  d.add(value.has_value());
  if (value) add(d, *value);
}

template <typename T>
void add(Digester& d, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    d.add(to_string(value));
  } else if constexpr (std::is_same_v<T, JobSpec>) {
    add(d, options_of(value));
  } else if constexpr (HasFields<T>) {
    for_each_field(value, [&](const FieldInfo& field, const auto& member) {
      if (field.rule.not_kept == nullptr) add(d, member);
    });
  } else if constexpr (requires { value.n; }) {  // ids, incarnations, units
    d.add(value.n);
  } else if constexpr (requires { value.ns; }) {  // times
    d.add(value.ns);
  } else {
    d.add(value);
  }
}

template <typename Key, typename Value>
void add_all(Digester& d, const FlatMap<Key, Value>& map) {
  d.add(static_cast<std::uint64_t>(map.size()));
  for (const auto& [key, value] : map) add(d, value);
}

}  // namespace

Digest DurableState::digest() const {
  Digester d;
  add(d, counters);
  add_all(d, jobs);
  add_all(d, agents);
  add_all(d, replicas);
  add_all(d, rounds);
  add_all(d, contributions);
  add_all(d, checkpoints);
  add_all(d, links);
  return d.finish();
}

}  // namespace shoal::coordinator
