// The enumerators of an enum with their names, once: a table beside the enum, from which follow
// to_string(), the way back, all values and how many there are. The names are those of the API, the
// store and the wire, so they are written out and do not follow from the code.
//
//   enum class Dialed { kNever, kYes, kInVain };
//   constexpr auto enumerators_of(Of<Dialed>) {
//     using enum Dialed;
//     return enumerators<Dialed>({{kNever, "never"}, {kYes, "yes"}, {kInVain, "in_vain"}});
//   }
//
// A table that misses an enumerator does not compile where it is first used. An enum of another
// namespace than shoal needs `using shoal::to_string;` there.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace shoal {

// Names a type in a call, so that the function is found beside the type.
template <typename T>
struct Of {};

template <typename E>
struct Enumerator {
  E value;
  const char* text;
};

template <typename E, std::size_t kCount>
struct Enumerators {
  Enumerator<E> entries[kCount];  // in the order of the enumerators, from 0 without a gap
  constexpr const Enumerator<E>* begin() const { return entries; }
  constexpr const Enumerator<E>* end() const { return entries + kCount; }
};

template <typename E, std::size_t kCount>
constexpr Enumerators<E, kCount> enumerators(const Enumerator<E> (&entries)[kCount]) {
  Enumerators<E, kCount> table{};
  for (std::size_t i = 0; i < kCount; ++i) table.entries[i] = entries[i];
  return table;
}

namespace enumerators_detail {

// The compiler writes an enumerator by its name, another value as a cast: "… = (shoal::Order)7]".
template <auto kValue>
constexpr bool is_enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_suffix(1);
  while (!text.empty() && text.back() >= '0' && text.back() <= '9') text.remove_suffix(1);
  return text.back() != ')';
}

template <typename E>
constexpr bool in_order(const Enumerator<E>* begin, const Enumerator<E>* end) {
  for (const Enumerator<E>* one = begin; one != end; ++one) {
    if (static_cast<std::ptrdiff_t>(one->value) != one - begin) return false;
  }
  return true;
}

template <typename E>
constexpr bool differ(const Enumerator<E>* begin, const Enumerator<E>* end) {
  for (const Enumerator<E>* one = begin; one != end; ++one) {
    for (const Enumerator<E>* other = begin; other != one; ++other) {
      if (std::string_view(one->text) == other->text) return false;
    }
  }
  return true;
}

template <typename E>
struct Checked {
  static constexpr auto kTable = enumerators_of(Of<E>{});
  static constexpr std::size_t kCount = kTable.end() - kTable.begin();
  static_assert(in_order(kTable.begin(), kTable.end()), "names are not in the enumerators' order");
  static_assert(differ(kTable.begin(), kTable.end()), "two enumerators have the same name");
#ifndef __CUDACC__  // which may write the name of a function in another way
  static_assert(!is_enumerator<static_cast<E>(kCount)>(), "an enumerator has no name");
#endif
};

}  // namespace enumerators_detail

template <typename E>
concept HasEnumerators = std::is_enum_v<E> && requires {
  enumerators_of(Of<E>{});
};

// The table of an enum; for (const auto& [value, text] : kEnumerators<E>) goes over all of it.
template <HasEnumerators E>
inline constexpr auto kEnumerators = enumerators_detail::Checked<E>::kTable;

template <HasEnumerators E>
constexpr std::size_t enumerator_count() {
  return enumerators_detail::Checked<E>::kCount;
}

template <HasEnumerators E>
constexpr const char* to_string(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < enumerator_count<E>() ? kEnumerators<E>.entries[index].text : "unknown";
}

template <HasEnumerators E>
constexpr std::optional<E> parse_enumerator(std::string_view text) {
  for (const Enumerator<E>& one : kEnumerators<E>) {
    if (text == one.text) return one.value;
  }
  return std::nullopt;
}

}  // namespace shoal
