// Any struct with a list of fields (base/fields.h) into the message of its name and back, by the
// reflection of protobuf: what is listed travels. A field of the message has the name of the list,
// a time with "_ns" behind it, a job's specification with "_json"; which belongs to which is looked
// up once per struct. A struct among the fields is a message of its own, or, where it is flat and
// the message has none by its name, its fields are among those around it.
//
// Reading refuses, by the name of the field: a negative or infinite number, an id of 0, a part that
// is missing and a word that its enum does not have, unless the list says otherwise; and what
// message_rules.h adds. Digests may be missing; they are zero then. The other way round nothing can
// fail. Thread-safe; allocates no more than the value and its message.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "proto/message_rules.h"
#include "proto/wire_fields.h"

namespace shoal::proto {

// ---- values: a place in a message is a field, and the index in a list

struct WritePlace {
  Message& message;
  const WireField& at;  // of a list: a new entry
};
void put(bool value, WritePlace to);
void put(std::int32_t value, WritePlace to);
void put(std::int64_t value, WritePlace to);
void put(std::uint64_t value, WritePlace to);
void put(double value, WritePlace to);
void put(const std::string& value, WritePlace to);
void put(const JobSpec& value, WritePlace to);
void put(const Digest& value, WritePlace to);
void put(const Label& value, WritePlace to);
Message& part(WritePlace of);

struct ReadPlace {
  const Message& message;
  const WireField& at;
  int index = -1;  // in a list
};
void get(Reader& reader, ReadPlace from, bool& to);
void get(Reader& reader, ReadPlace from, std::int32_t& to);
void get(Reader& reader, ReadPlace from, std::int64_t& to);
void get(Reader& reader, ReadPlace from, std::uint64_t& to);
void get(Reader& reader, ReadPlace from, double& to);
void get(Reader& reader, ReadPlace from, std::string& to);
void get(Reader& reader, ReadPlace from, JobSpec& to);
void get(Reader& reader, ReadPlace from, Digest& to);
void get(Reader& reader, ReadPlace from, Label& to);
// The text of a word, and its refusal.
const std::string& text_at(ReadPlace from, std::string& scratch);
void refuse_name(Reader& reader, ReadPlace from, const std::string& text);
void require_id(Reader& reader, ReadPlace from, bool given);
bool is_there(ReadPlace from);
const Message& part(ReadPlace of);
int length(Reader& reader, ReadPlace list);

// ---- structs

template <typename T>
void put_fields(const T& from, const WireFields& fields, Message& to);

template <typename T>
void put_value(const T& from, WritePlace to) {
  if constexpr (std::is_enum_v<T>) {
    put(std::string(to_string(from)), to);
  } else if constexpr (Time<T>) {
    put(from.ns, to);
  } else if constexpr (Counted<T>) {
    put(from.n, to);
  } else if constexpr (IsPart<T>) {
    put_fields(from, *to.at.inside, part(to));
  } else {
    put(from, to);
  }
}

template <typename T>
void put_member(const T& from, const WireField& field, Message& to) {
  if constexpr (Unwrapped<T>::kIsList) {
    for (const auto& entry : from) put_value(entry, {to, field});
  } else if constexpr (requires { from.has_value(); }) {
    if (from) put_value(*from, {to, field});
  } else {
    if constexpr (wire_type<T>() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field.info.rule.or_none && is_none(from)) return;
    }
    put_value(from, {to, field});
  }
}

template <typename T>
void put_fields(const T& from, const WireFields& fields, Message& to) {
  const WireField* field = fields.begin();
  for_each_field(from, [&](const FieldInfo&, const auto& member) {
    const WireField& here = *field++;
    if constexpr (IsPart<std::remove_cvref_t<decltype(member)>>) {
      if (here.field == nullptr) return put_fields(member, *here.inside, to);
    }
    put_member(member, here, to);
  });
}

template <typename T>
void get_fields(Reader& reader, const Message& from, const WireFields& fields, T& to);

template <typename T>
void get_value(Reader& reader, ReadPlace from, T& to) {
  if constexpr (std::is_enum_v<T>) {
    std::string scratch;
    const std::string& text = text_at(from, scratch);
    if (const auto word = parse_enumerator<T>(text)) {
      to = *word;
    } else {
      refuse_name(reader, from, text);
    }
  } else if constexpr (Time<T>) {
    get(reader, from, to.ns);
  } else if constexpr (Counted<T>) {
    get(reader, from, to.n);
    if constexpr (requires { static_cast<bool>(to); }) require_id(reader, from, to.n != 0);
  } else if constexpr (IsPart<T>) {
    get_fields(reader, part(from), *from.at.inside, to);
  } else {
    get(reader, from, to);
  }
}

template <typename T>
void get_list(Reader& reader, ReadPlace from, std::vector<T>& to) {
  const int count = length(reader, from);
  for (int i = 0; i < count && reader.ok(); ++i) {
    get_value(reader, {from.message, from.at, i}, to.emplace_back());
  }
}

template <typename T>
void get_part(Reader& reader, ReadPlace from, T& to) {
  if (is_there(from)) return get_value(reader, from, to);
  const bool may_miss = from.at.info.rule.or_none || std::is_same_v<T, Digest>;
  reader.require(may_miss, "", "is missing");
}

template <typename T>
void get_member(Reader& reader, ReadPlace from, T& to) {
  constexpr auto kType = wire_type<typename Unwrapped<T>::Type>();
  if constexpr (kType == FieldDescriptor::CPPTYPE_MESSAGE) {
    const Reader::Inside inside(reader, from.at.field->name());
    if constexpr (Unwrapped<T>::kIsList) {
      get_list(reader, from, to);
    } else if constexpr (requires { to.has_value(); }) {
      if (is_there(from)) get_value(reader, from, to.emplace());
    } else {
      get_part(reader, from, to);
    }
  } else if constexpr (Unwrapped<T>::kIsList) {
    get_list(reader, from, to);
  } else if constexpr (requires { to.has_value(); }) {  // without presence: 0 is none
    get_value(reader, from, to.emplace());
    if (*to == typename T::value_type{}) to.reset();
  } else {
    get_value(reader, from, to);
  }
}

template <typename T>
void get_fields(Reader& reader, const Message& from, const WireFields& fields, T& to) {
  const WireField* field = fields.begin();
  for_each_field(to, [&](const FieldInfo&, auto& member) {
    const WireField& here = *field++;
    if (!reader.ok()) return;
    if constexpr (IsPart<std::remove_cvref_t<decltype(member)>>) {
      if (here.field == nullptr) return get_fields(reader, from, *here.inside, member);
    }
    get_member(reader, {from, here}, member);
  });
  if constexpr (HasRule<T>) {
    if (reader.ok()) check(reader, to);
  }
}

// ---- whole messages; one of an empty struct says all by being there

template <typename T>
void write_fields(const T& from, Message& to) {
  if constexpr (!std::is_empty_v<T>) put_fields(from, wire_fields<T>(*to.GetDescriptor()), to);
}

// The value, or what is wrong with a message that is called so.
template <typename T>
Result<T> read_fields(const Message& message, std::string_view name = {}) {
  T value;
  if constexpr (!std::is_empty_v<T>) {
    Reader reader;
    const Reader::Inside inside(reader, name);
    get_fields(reader, message, wire_fields<T>(*message.GetDescriptor()), value);
    if (!reader.ok()) return reader.error();
  }
  return value;
}

}  // namespace shoal::proto
