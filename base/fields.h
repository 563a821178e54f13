// The fields of a struct, once: a list beside the struct, which digest, SQL columns, JSON, messages
// on the wire and the records of tests go over. A list that misses a member, or has one twice, does
// not compile, so a new member cannot be forgotten in any of them.
//
//   struct LinkRecord { AgentId from, to; Duration round_trip, jitter; };
//   constexpr auto fields_of(Of<LinkRecord>) {
//     using T = LinkRecord;
//     return fields(field<&T::from>("from_agent"), field<&T::to>("to_agent"),
//                   field<&T::round_trip>(), field<&T::jitter>(added_later()));
//   }
//
// A list of members without rules is fields<&T::first, &T::second>(). The name of a field is that
// of its member, without a trailing underscore. Readers outside know it: a member that is renamed
// keeps the old name as field<&T::renamed>("old_name"). The unit is the type's (base/units.h,
// base/time.h), or ends the name. A member that is a struct with a list of its own is an object of
// its own, or with flat() a part of the one around it.
//
// A class with private members lists them in a friend, and befriends FieldAccess, which counts
// them (base/field_count.h).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/enumerators.h"
#include "base/field_count.h"

namespace shoal {

// What an output does with a field beyond the usual.
struct FieldRule {
  const char* flat_prefix = nullptr;  // its fields stand beside those around it, with this before
                                      // their names
  const char* not_kept = nullptr;     // in no record, so neither stored nor in its digest: why
  const char* not_state = nullptr;    // in no digest at all: why
  bool added_later = false;           // texts that were stored without it have its default
  // Exceptions for messages, whose numbers are finite and not negative and whose ids are not 0:
  bool or_none = false;     // the id may be 0, the part may not be there; in answers 0 is null
  bool any_number = false;  // it may be negative, infinite or not a number
  std::size_t at_most = 0;  // entries of a list, bytes of a text; 0: no bound
};
constexpr FieldRule flat(const char* prefix = "") { return {.flat_prefix = prefix}; }
constexpr FieldRule not_kept(const char* why) { return {.not_kept = why}; }
constexpr FieldRule not_state(const char* why) { return {.not_state = why}; }
constexpr FieldRule added_later() { return {.added_later = true}; }
constexpr FieldRule or_none() { return {.or_none = true}; }
constexpr FieldRule any_number() { return {.any_number = true}; }
constexpr FieldRule at_most(std::size_t count) { return {.at_most = count}; }
// Both rules.
constexpr FieldRule operator|(FieldRule a, const FieldRule& b) {
  if (b.flat_prefix != nullptr) a.flat_prefix = b.flat_prefix;
  if (b.not_kept != nullptr) a.not_kept = b.not_kept;
  if (b.not_state != nullptr) a.not_state = b.not_state;
  a.added_later |= b.added_later;
  a.or_none |= b.or_none;
  a.any_number |= b.any_number;
  a.at_most = a.at_most > b.at_most ? a.at_most : b.at_most;
  return a;
}

struct FieldInfo {
  const char* name = nullptr;  // in a list as it is written: null for that of the member
  FieldRule rule;
};

template <auto kMember>
struct Field : FieldInfo {};

template <auto kMember>
constexpr Field<kMember> field(const char* name, FieldRule rule = {}) {
  return {{name, rule}};
}
template <auto kMember>
constexpr Field<kMember> field(FieldRule rule = {}) {
  return {{nullptr, rule}};
}

template <auto... kMembers>
struct FieldList {
  FieldInfo info[sizeof...(kMembers)];
  bool as_array = false;  // in JSON [a, b] instead of {"a": a, "b": b}
};

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

template <typename T>
struct ClassOf;
template <typename T, typename Member>
struct ClassOf<Member T::*> {
  using type = T;
};

// Lists every member of their class, once; else it does not compile.
template <auto kFirst, auto... kOthers>
constexpr void check() {
  using T = typename ClassOf<decltype(kFirst)>::type;
  [[maybe_unused]] constexpr std::size_t kCount = 1 + sizeof...(kOthers);
  static_assert(differ<kFirst, kOthers...>(), "a field is listed twice");
#ifndef __CUDACC__  // the compilers of the host have counted
  if constexpr (std::is_aggregate_v<T>) {
    static_assert(takes<T>(std::make_index_sequence<kCount>()), "the fields cannot be counted");
    static_assert(!takes<T>(std::make_index_sequence<kCount + 1>()),
                  "a field of the struct is not in its list");
  } else {
    static_assert(FieldAccess::has<T, kCount>());
  }
#endif
}

constexpr bool in_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Compilers end the name of a function with its argument: "… = &shoal::Place::city_]" -> "city".
constexpr std::string_view last_identifier(const char* text, std::size_t end) {
  while (end > 0 && !in_identifier(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && in_identifier(text[begin - 1])) --begin;
  if (end - begin > 1 && text[end - 1] == '_') --end;
  return {text + begin, end - begin};
}

template <auto kMember>
constexpr auto spelled() {
  return last_identifier(__PRETTY_FUNCTION__, sizeof(__PRETTY_FUNCTION__) - 1);
}

template <auto kMember>
constexpr auto terminated() {
  constexpr std::string_view kText = spelled<kMember>();
  std::array<char, kText.size() + 1> text{};
  for (std::size_t i = 0; i < kText.size(); ++i) text[i] = kText[i];
  return text;
}

// Derived once for each member, and only where a source goes over its list.
template <auto kMember>
inline constexpr auto kNameOf = terminated<kMember>();

template <auto... kMembers>
constexpr FieldList<kMembers...> named(FieldList<kMembers...> list) {
  FieldInfo* info = list.info;
  ((info->name = info->name != nullptr ? info->name : kNameOf<kMembers>.data(), ++info), ...);
  return list;
}

template <typename T, typename Visit, auto... kMembers>
constexpr void visit(const FieldList<kMembers...>& list, T& object, const Visit& visit) {
  const FieldInfo* info = list.info;
  (visit(*info++, object.*kMembers), ...);
}

}  // namespace fields_detail

template <auto... kMembers>
constexpr FieldList<kMembers...> fields(const Field<kMembers>&... each) {
  fields_detail::check<kMembers...>();
  return {{each...}};
}
template <auto... kMembers>
constexpr FieldList<kMembers...> fields_as_array(const Field<kMembers>&... each) {
  fields_detail::check<kMembers...>();
  return {{each...}, true};
}
// Without rules, under the names of the members.
template <auto... kMembers>
constexpr FieldList<kMembers...> fields() {
  fields_detail::check<kMembers...>();
  return {};
}

// A number with a type of its own: an id, an incarnation, an amount.
template <typename T>
concept Counted = requires(T value) {
  value.n;
};

template <typename T>
concept HasFields = requires {
  fields_of(Of<T>{});
};

// The list of a type, each field with its name.
template <HasFields T>
inline constexpr auto kFields = fields_detail::named(fields_of(Of<T>{}));

// Calls visit(const FieldInfo&, member) for each field, in the order of the list.
template <typename T, typename Visit>
requires HasFields<std::remove_const_t<T>>
constexpr void for_each_field(T& object, const Visit& visit) {
  fields_detail::visit(kFields<std::remove_const_t<T>>, object, visit);
}

namespace fields_detail {

template <typename T, std::size_t kIndex, auto kMember, typename Object, typename Visit>
constexpr void visit_if_state(Object& object, const Visit& visit) {
  constexpr const FieldInfo& kInfo = kFields<T>.info[kIndex];
  if constexpr (kInfo.rule.not_state == nullptr) visit(kInfo, object.*kMember);
}

template <typename T, typename Visit, auto... kMembers>
constexpr void visit_state(const FieldList<kMembers...>&, T& object, const Visit& visit) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (visit_if_state<std::remove_const_t<T>, kIndex, kMembers>(object, visit), ...);
  }
  (std::make_index_sequence<sizeof...(kMembers)>());
}

}  // namespace fields_detail

// The same, without the fields that are not_state().
template <typename T, typename Visit>
requires HasFields<std::remove_const_t<T>>
constexpr void for_each_state_field(T& object, const Visit& visit) {
  fields_detail::visit_state(kFields<std::remove_const_t<T>>, object, visit);
}

}  // namespace shoal
