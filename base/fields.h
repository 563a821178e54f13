// The fields of a struct, once: a list beside the struct, which digest, SQL columns, JSON, messages
// on the wire and the records of tests go over. A list that misses a member, or has one twice, does
// not compile where it is used, so a new member cannot be forgotten in any of them.
//
//   struct LinkRecord { AgentId from, to; Duration round_trip; };
//   constexpr auto fields_of(Of<LinkRecord>) {
//     using T = LinkRecord;
//     return fields(field<&T::from>("from_agent"), field<&T::to>("to_agent"),
//                   field<&T::round_trip>("round_trip"));
//   }
//   static_assert(lists_every_field<LinkRecord>());
//
// The name is what the outside reads: it stays when the member is renamed. The unit is the type's
// (base/units.h, base/time.h), or ends the name. A member that is a struct with a list of its own
// is an object of its own, or with flat() a part of the one around it.
//
// Works for aggregates without base classes and arrays.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "base/enumerators.h"

namespace shoal {

// What an output does with a field beyond the usual.
struct FieldRule {
  const char* flat_prefix = nullptr;  // its fields stand beside those around it, with this before
                                      // their names
  const char* not_kept = nullptr;     // in no record, so neither stored nor in the digest: why
  bool added_later = false;           // texts that were stored without it have its default
  // Exceptions for messages, whose numbers are finite and not negative and whose ids are not 0:
  bool or_none = false;     // the id may be 0, the part may not be there; in answers 0 is null
  bool any_number = false;  // it may be negative, infinite or not a number
  std::size_t at_most = 0;  // entries of a list, bytes of a text; 0: no bound
};
constexpr FieldRule flat(const char* prefix = "") { return {.flat_prefix = prefix}; }
constexpr FieldRule not_kept(const char* why) { return {.not_kept = why}; }
constexpr FieldRule added_later() { return {.added_later = true}; }
constexpr FieldRule or_none() { return {.or_none = true}; }
constexpr FieldRule any_number() { return {.any_number = true}; }
constexpr FieldRule at_most(std::size_t count) { return {.at_most = count}; }
// Both rules.
constexpr FieldRule operator|(FieldRule a, const FieldRule& b) {
  if (b.flat_prefix != nullptr) a.flat_prefix = b.flat_prefix;
  if (b.not_kept != nullptr) a.not_kept = b.not_kept;
  a.added_later |= b.added_later;
  a.or_none |= b.or_none;
  a.any_number |= b.any_number;
  a.at_most = a.at_most > b.at_most ? a.at_most : b.at_most;
  return a;
}

struct FieldInfo {
  const char* name = "";
  FieldRule rule;
};

template <auto kMember>
struct Field : FieldInfo {};

template <auto kMember>
constexpr Field<kMember> field(const char* name, FieldRule rule = {}) {
  return {{name, rule}};
}

template <auto... kMembers>
struct FieldList {
  FieldInfo info[sizeof...(kMembers)];
  bool as_array = false;  // in JSON [a, b] instead of {"a": a, "b": b}
};

template <auto... kMembers>
constexpr FieldList<kMembers...> fields(const Field<kMembers>&... each) {
  return {{each...}};
}
template <auto... kMembers>
constexpr FieldList<kMembers...> fields_as_array(const Field<kMembers>&... each) {
  return {{each...}, true};
}

namespace fields_detail {

struct Anything {
  template <typename T>
  operator T() const;
};
template <std::size_t>
using AnythingAt = Anything;

template <typename T, std::size_t... kIndex>
constexpr bool takes(std::index_sequence<kIndex...>) {
  return requires { T{AnythingAt<kIndex>{}...}; };
}

template <auto kMember>
inline constexpr char kTag = 0;

template <auto... kMembers>
constexpr bool differ() {
  const char* tags[] = {&kTag<kMembers>...};
  for (const char* const& tag : tags) {
    for (const char* const* other = tags; other != &tag; ++other) {
      if (tag == *other) return false;
    }
  }
  return true;
}

template <typename T, auto... kMembers>
constexpr FieldList<kMembers...> checked(const FieldList<kMembers...>& list) {
  [[maybe_unused]] constexpr std::size_t kCount = sizeof...(kMembers);
  static_assert(differ<kMembers...>(), "a field is listed twice");
#ifndef __CUDACC__  // the compilers of the host have counted
  static_assert(takes<T>(std::make_index_sequence<kCount>()), "the fields cannot be counted");
  static_assert(!takes<T>(std::make_index_sequence<kCount + 1>()),
                "a field of the struct is not in its list");
#endif
  return list;
}

template <typename T, typename Visit, auto... kMembers>
constexpr void visit(const FieldList<kMembers...>& list, T& object, const Visit& visit) {
  const FieldInfo* info = list.info;
  (visit(*info++, object.*kMembers), ...);
}

}  // namespace fields_detail

// A number with a type of its own: an id, an incarnation, an amount.
template <typename T>
concept Counted = requires(T value) {
  value.n;
};

template <typename T>
concept HasFields = requires {
  fields_of(Of<T>{});
};

// The list of a type, complete.
template <HasFields T>
inline constexpr auto kFields = fields_detail::checked<T>(fields_of(Of<T>{}));

// For the static_assert beside the list. Does not compile when it would not be true.
template <HasFields T>
consteval bool lists_every_field() {
  return sizeof(kFields<T>) > 0;
}

// Calls visit(const FieldInfo&, member) for each field, in the order of the list.
template <typename T, typename Visit>
requires HasFields<std::remove_const_t<T>>
constexpr void for_each_field(T& object, const Visit& visit) {
  fields_detail::visit(kFields<std::remove_const_t<T>>, object, visit);
}

}  // namespace shoal
