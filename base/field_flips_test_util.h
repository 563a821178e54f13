// For tests: changes one field of a value after another, also inside of lists, optional values,
// variants and other structs, and expects another digest each time. Every change is undone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include <cxxabi.h>
#include <gtest/gtest.h>

#include "base/field_digest.h"
#include "base/flat_map.h"

namespace shoal {

class FieldFlips {
 public:
  template <typename T>
  void flip_all(T& value) {
    digest_ = [&value] { return digest_of_fields(value); };
    usual_ = digest_();
    flip(value, name_of<T>());
    EXPECT_EQ(digest_(), usual_) << name_of<T>() << " is as it was";
  }
  template <typename... Ts>
  void flip_all_of() {
    const auto one = [this]<typename T>(T value) { flip_all(value); };
    (one(Ts{}), ...);
  }

  // The listed structs that had their fields changed: "RoundKey".
  const std::set<std::string>& structs() const { return structs_; }

 private:
  template <typename T>
  static std::string name_of() {
    char* whole = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, nullptr);
    std::string name = whole;
    std::free(whole);
    name.resize(std::min(name.find('<'), name.size()));
    return name.substr(name.rfind(':') + 1);
  }

  void expect_another(const std::string& path) const { EXPECT_NE(digest_(), usual_) << path; }

  // Changes the fields of a value that another change has brought in.
  template <typename T>
  void flip_inside(T& value, const std::string& path) {
    const Digest outside = std::exchange(usual_, digest_());
    flip(value, path);
    usual_ = outside;
  }

  template <typename T>
  void flip(T& value, const std::string& path) {
    if constexpr (HasFields<T>) {
      structs_.insert(name_of<T>());
      for_each_state_field(value, [&](const FieldInfo& field, auto& member) {
        flip(member, path + "." + field.name);
      });
    } else if constexpr (HasEnumerators<T>) {
      const int next = (static_cast<int>(value) + 1) % static_cast<int>(enumerator_count<T>());
      if (enumerator_count<T>() > 1) replace(value, static_cast<T>(next), path);
    } else if constexpr (std::is_enum_v<T>) {
      replace(value, static_cast<T>(static_cast<int>(value) ^ 1), path);
    } else if constexpr (requires { value.n; }) {
      flip(value.n, path);
    } else if constexpr (requires { value.ns; }) {
      flip(value.ns, path);
    } else if constexpr (std::is_arithmetic_v<T>) {
      replace(value, value == T{1} ? T{0} : T{1}, path);
    } else if constexpr (!std::is_empty_v<T>) {
      flip_whole(value, path);
    }
  }

  template <typename T>
  void replace(T& value, T other, const std::string& path) {
    const T kept = std::exchange(value, other);
    expect_another(path);
    value = kept;
  }

  void flip_whole(Digest& value, const std::string& path) {
    flip(value.high, path);
    flip(value.low, path);
  }
  void flip_whole(std::string& value, const std::string& path) {
    value += 'x';
    expect_another(path);
    value.pop_back();
  }
  template <typename First, typename Second>
  void flip_whole(std::pair<First, Second>& value, const std::string& path) {
    flip(value.first, path);
    flip(value.second, path);
  }
  template <typename T, std::size_t kSize>
  void flip_whole(std::array<T, kSize>& value, const std::string& path) {
    for (T& entry : value) flip(entry, path);
  }
  template <typename T>
  void flip_whole(std::vector<T>& value, const std::string& path) {
    flip_inside(value.emplace_back(), path);
    expect_another(path);
    value.pop_back();
  }
  template <typename Key, typename Value>
  void flip_whole(FlatMap<Key, Value>& value, const std::string& path) {
    ASSERT_TRUE(value.empty()) << path;
    value[Key{}];
    expect_another(path);
    flip_inside(*value.begin(), path);
    value.clear();
  }
  template <typename T>
  void flip_whole(std::optional<T>& value, const std::string& path) {
    const std::optional<T> kept = std::exchange(value, std::nullopt);
    if (kept) expect_another(path);
    value.emplace();
    if (!kept) expect_another(path);
    flip_inside(*value, path);
    value = kept;
  }
  template <typename... Alternatives>
  void flip_whole(std::variant<Alternatives...>& value, const std::string& path) {
    const std::variant<Alternatives...> kept = value;
    const auto change_to = [&]<std::size_t kIndex>(std::integral_constant<std::size_t, kIndex>) {
      value.template emplace<kIndex>();
      if (kIndex != kept.index()) expect_another(path);
      flip_inside(std::get<kIndex>(value), path);
    };
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      (change_to(std::integral_constant<std::size_t, kIndex>()), ...);
    }
    (std::make_index_sequence<sizeof...(Alternatives)>());
    value = kept;
  }

  std::function<Digest()> digest_;
  Digest usual_;
  std::set<std::string> structs_;
};

}  // namespace shoal
