// Vectors of values with names: the state that an outer optimizer keeps, each vector as long as the
// parameters. Digests, joins and checkpoints go through them in this order. A name has static
// storage: job/job_spec_enums.h lists them.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace shoal {

struct NamedVector {
  std::string_view name;
  std::vector<float> values;
  bool operator==(const NamedVector&) const = default;
};
using NamedVectors = std::vector<NamedVector>;

struct NamedValues {  // a view of a vector
  std::string_view name;
  std::span<const float> values;
};

// Zeros, `size` of each name.
inline NamedVectors zero_vectors(std::span<const std::string_view> names, std::size_t size) {
  NamedVectors vectors;
  for (const std::string_view name : names) vectors.push_back({name, std::vector<float>(size)});
  return vectors;
}

inline std::vector<NamedValues> views_of(const NamedVectors& vectors) {
  std::vector<NamedValues> views;
  for (const NamedVector& vector : vectors) views.push_back({vector.name, vector.values});
  return views;
}

// Null: there is no such vector.
inline const std::vector<float>* find_vector(const NamedVectors& vectors, std::string_view name) {
  const auto found = std::ranges::find(vectors, name, &NamedVector::name);
  return found == vectors.end() ? nullptr : &found->values;
}

// The vector of this name, which is there.
inline const std::vector<float>& vector_of(const NamedVectors& vectors, std::string_view name) {
  const std::vector<float>* found = find_vector(vectors, name);
  SHOAL_CHECK(found != nullptr, "the state has no such vector");
  return *found;
}
inline std::vector<float>& vector_of(NamedVectors& vectors, std::string_view name) {
  return const_cast<std::vector<float>&>(vector_of(std::as_const(vectors), name));
}

}  // namespace shoal
