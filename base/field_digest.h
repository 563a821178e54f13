// The digest of any value, from the lists of fields of its structs (base/fields.h): every listed
// member counts, and a list has every member, so no state is left out. Containers count with their
// lengths, optional values with whether they are there, variants with which alternative they hold.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/digest.h"
#include "base/fields.h"

namespace shoal {

enum class DigestOf {
  kState,    // every field but those with not_state()
  kRecords,  // without those with not_kept(), too: equal before and after a restart
};

class FieldDigester {
 public:
  explicit FieldDigester(DigestOf of) : of_(of) {}

  template <typename T>
  void add(const T& value) {
    if constexpr (HasFields<T>) {
      for_each_state_field(value, [this](const FieldInfo& field, const auto& member) {
        if (field.rule.not_kept == nullptr || of_ == DigestOf::kState) add(member);
      });
    } else if constexpr (HasEnumerators<T>) {
      digester_.add(to_string(value));
    } else if constexpr (std::is_enum_v<T>) {
      digester_.add(static_cast<std::int64_t>(value));
    } else if constexpr (requires { value.n; }) {  // ids, incarnations, units
      digester_.add(value.n);
    } else if constexpr (requires { value.ns; }) {  // times
      digester_.add(value.ns);
    } else if constexpr (requires { value.has_value(); }) {
      digester_.add(value.has_value());
      if (value) add(*value);
    } else if constexpr (requires { value.valueless_by_exception(); }) {
      digester_.add(static_cast<std::uint64_t>(value.index()));
      std::visit([this](const auto& alternative) { add(alternative); }, value);
    } else if constexpr (requires { value.second; }) {
      add(value.first);
      add(value.second);
    } else if constexpr (!std::is_empty_v<T>) {
      add_plain(value);
    }
  }

  Digest finish() const { return digester_.finish(); }

 private:
  template <typename T>
  void add_plain(const T& value) {
    static_assert(!std::is_pointer_v<T>, "a pointer is no state: not_state()");
    static_assert(
        !requires { typename T::hasher; }, "its order is not that of other machines");
    if constexpr (std::is_convertible_v<const T&, std::string_view> ||
                  !requires { value.begin(); }) {
      digester_.add(value);
    } else {
      digester_.add(static_cast<std::uint64_t>(value.size()));
      for (const auto& entry : value) add(entry);
    }
  }

  Digester digester_;
  DigestOf of_;
};

template <typename T>
Digest digest_of_fields(const T& value, DigestOf of = DigestOf::kState) {
  FieldDigester digester(of);
  digester.add(value);
  return digester.finish();
}

}  // namespace shoal
