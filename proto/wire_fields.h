// Which field of a message belongs to each field of a struct (base/fields.h), for reflect.h: looked
// up by name once per struct.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/fields.h"
#include "base/time.h"
#include "job/job_spec.h"
#include "proto/agent.pb.h"

namespace shoal::proto {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename T>
struct Unwrapped {  // T of lists and optionals of T
  using Type = T;
  static constexpr bool kIsList = false;
};
template <typename T>
struct Unwrapped<std::vector<T>> : Unwrapped<T> {
  static constexpr bool kIsList = true;
};
template <typename T>
struct Unwrapped<std::optional<T>> : Unwrapped<T> {};

using Label = std::pair<std::string, std::string>;
// Others than a job's specification, which is one text.
template <typename T>
concept IsPart = HasFields<T> && !std::is_same_v<T, JobSpec>;
template <typename T>
concept Text = std::is_same_v<T, std::string> || std::is_same_v<T, JobSpec> || std::is_enum_v<T>;

// The C++ type that protobuf has for a value.
template <typename T>
constexpr FieldDescriptor::CppType wire_type() {
  if constexpr (Text<T>) {
    return FieldDescriptor::CPPTYPE_STRING;
  } else if constexpr (Time<T>) {
    return FieldDescriptor::CPPTYPE_INT64;
  } else if constexpr (Counted<T>) {
    return wire_type<decltype(T::n)>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return FieldDescriptor::CPPTYPE_BOOL;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return FieldDescriptor::CPPTYPE_INT32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return FieldDescriptor::CPPTYPE_INT64;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return FieldDescriptor::CPPTYPE_UINT64;
  } else if constexpr (std::is_same_v<T, double>) {
    return FieldDescriptor::CPPTYPE_DOUBLE;
  } else {
    static_assert(IsPart<T> || std::is_same_v<T, Digest> || std::is_same_v<T, Label>);
    return FieldDescriptor::CPPTYPE_MESSAGE;
  }
}

template <typename T>
std::string wire_name(const char* listed) {
  if constexpr (Time<T>) return std::string(listed) + "_ns";
  if constexpr (std::is_same_v<T, JobSpec>) return std::string(listed) + "_json";
  return listed;
}

class WireFields;

struct WireField {
  FieldInfo info;
  const Reflection* reflection = nullptr;
  const FieldDescriptor* field = nullptr;  // none: flat
  const WireFields* inside = nullptr;      // of a struct
};

class WireFields {
 public:
  explicit WireFields(const Descriptor& message);
  // `part`: what a message that is no struct must be.
  void add(const FieldInfo& info, const std::string& name, FieldDescriptor::CppType type,
           bool is_list, const Descriptor* part);

  const Descriptor& message() const { return message_; }
  WireField* begin() { return fields_.data(); }
  const WireField* begin() const { return fields_.data(); }
  WireField& last() { return fields_.back(); }
  // What does not fit, in words; else every field has its own.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  const Descriptor& message_;
  const Reflection& reflection_;
  std::vector<WireField> fields_;
  std::vector<std::string> problems_;
};

template <typename T>
const WireFields& wire_fields(const Descriptor& message);

template <typename T>
const Descriptor* part_type() {
  if constexpr (std::is_same_v<T, Digest>) return v1::Digest::descriptor();
  if constexpr (std::is_same_v<T, Label>) return v1::Label::descriptor();
  return nullptr;
}

template <HasFields T>
WireFields find_wire_fields(const Descriptor& message) {
  WireFields found(message);
  T value{};
  for_each_field(value, [&](const FieldInfo& info, auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    using Type = typename Unwrapped<Member>::Type;
    found.add(info, wire_name<Type>(info.name), wire_type<Type>(), Unwrapped<Member>::kIsList,
              part_type<Type>());
    if constexpr (IsPart<Type>) {
      const FieldDescriptor* field = found.last().field;
      const Descriptor* part = field == nullptr ? &message : field->message_type();
      if (part != nullptr && found.problems().empty()) {
        found.last().inside = &wire_fields<Type>(*part);
      }
    }
  });
  return found;
}

// A struct goes into one kind of message.
template <typename T>
const WireFields& wire_fields(const Descriptor& message) {
  static const WireFields kFound = find_wire_fields<T>(message);
  SHOAL_CHECK(&kFound.message() == &message, message.full_name());
  SHOAL_CHECK(kFound.problems().empty(), kFound.problems().front());
  return kFound;
}

}  // namespace shoal::proto
