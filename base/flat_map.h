// A map in a sorted vector: iteration order is the key order on every machine, copies are cheap,
// and a core may hold thousands of entries. References stay valid until the next insert or erase.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace shoal {

template <typename Key, typename Value>
class FlatMap {
 public:
  using Entry = std::pair<Key, Value>;

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  void clear() { entries_.clear(); }

  Value* find(const Key& key) {
    const auto it = lower(key);
    return it != entries_.end() && it->first == key ? &it->second : nullptr;
  }
  const Value* find(const Key& key) const { return const_cast<FlatMap*>(this)->find(key); }
  bool contains(const Key& key) const { return find(key) != nullptr; }

  Value& at(const Key& key) {
    Value* value = find(key);
    SHOAL_CHECK(value != nullptr, "no such key");
    return *value;
  }
  const Value& at(const Key& key) const { return const_cast<FlatMap*>(this)->at(key); }

  // Inserts a default value where there is none.
  Value& operator[](const Key& key) {
    const auto it = lower(key);
    if (it != entries_.end() && it->first == key) return it->second;
    return entries_.insert(it, Entry(key, Value{}))->second;
  }

  // Inserts or overwrites.
  Value& put(const Key& key, Value value) { return (*this)[key] = std::move(value); }

  bool erase(const Key& key) {
    const auto it = lower(key);
    if (it == entries_.end() || !(it->first == key)) return false;
    entries_.erase(it);
    return true;
  }

  bool operator==(const FlatMap&) const = default;

 private:
  auto lower(const Key& key) {
    return std::lower_bound(entries_.begin(), entries_.end(), key,
                            [](const Entry& entry, const Key& k) { return entry.first < k; });
  }
  std::vector<Entry> entries_;
};

}  // namespace shoal
