// The words of an enum, once: a table beside the enum, from which follow its text, the way back,
// all its values and how many there are. Words are names in the API, the store and on the wire, so
// they are written out and do not follow from the enumerators.
//
//   enum class Dialled { kNever, kYes, kInVain };
//   constexpr auto words_of(Of<Dialled>) {
//     using enum Dialled;
//     return words<Dialled>({{kNever, "never"}, {kYes, "yes"}, {kInVain, "in_vain"}});
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
struct Word {
  E value;
  const char* text;
};

template <typename E, std::size_t kCount>
struct Words {
  Word<E> entries[kCount];  // in the order of the enumerators, from 0 without a gap
  constexpr const Word<E>* begin() const { return entries; }
  constexpr const Word<E>* end() const { return entries + kCount; }
};

template <typename E, std::size_t kCount>
constexpr Words<E, kCount> words(const Word<E> (&entries)[kCount]) {
  Words<E, kCount> table{};
  for (std::size_t i = 0; i < kCount; ++i) table.entries[i] = entries[i];
  return table;
}

namespace words_detail {

// The compiler writes an enumerator by its name, another value as a cast: "… = (shoal::Order)7]".
template <auto kValue>
constexpr bool is_enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_suffix(1);
  while (!text.empty() && text.back() >= '0' && text.back() <= '9') text.remove_suffix(1);
  return text.back() != ')';
}

template <typename E>
constexpr bool in_order(const Word<E>* begin, const Word<E>* end) {
  for (const Word<E>* word = begin; word != end; ++word) {
    if (static_cast<std::ptrdiff_t>(word->value) != word - begin) return false;
  }
  return true;
}

template <typename E>
constexpr bool differ(const Word<E>* begin, const Word<E>* end) {
  for (const Word<E>* word = begin; word != end; ++word) {
    for (const Word<E>* other = begin; other != word; ++other) {
      if (std::string_view(word->text) == other->text) return false;
    }
  }
  return true;
}

template <typename E>
struct Checked {
  static constexpr auto kTable = words_of(Of<E>{});
  static constexpr std::size_t kCount = kTable.end() - kTable.begin();
  static_assert(in_order(kTable.begin(), kTable.end()), "words are not in the enumerators' order");
  static_assert(differ(kTable.begin(), kTable.end()), "two enumerators have the same word");
#ifndef __CUDACC__  // which may write the name of a function in another way
  static_assert(!is_enumerator<static_cast<E>(kCount)>(), "an enumerator has no word");
#endif
};

}  // namespace words_detail

template <typename E>
concept HasWords = std::is_enum_v<E> && requires {
  words_of(Of<E>{});
};

// The table of an enum; for (const auto& [value, text] : kWords<E>) goes over all of it.
template <HasWords E>
inline constexpr auto kWords = words_detail::Checked<E>::kTable;

template <HasWords E>
constexpr std::size_t word_count() {
  return words_detail::Checked<E>::kCount;
}

template <HasWords E>
constexpr const char* to_string(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < word_count<E>() ? kWords<E>.entries[index].text : "unknown";
}

template <HasWords E>
constexpr std::optional<E> parse_word(std::string_view text) {
  for (const Word<E>& word : kWords<E>) {
    if (text == word.text) return word.value;
  }
  return std::nullopt;
}

}  // namespace shoal
