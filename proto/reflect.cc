#include "proto/reflect.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/wire_text.h"
#include "proto/agent.pb.h"
#include "proto/job_spec_text.h"
#include "proto/sent_spec.h"

namespace shoal::proto {
namespace {

std::int64_t checked_count(Reader& reader, ReadPlace from, std::int64_t value) {
  if (value < 0) {
    reader.refuse(from.at.field->name(), "must not be negative, got " + std::to_string(value));
  }
  return value;
}

// The most bytes of a text; the bound of a list is one of its length.
std::size_t room(const WireField& at) {
  const bool is_bounded = !at.field->is_repeated() && at.info.rule.at_most > 0;
  return is_bounded ? at.info.rule.at_most : std::numeric_limits<std::size_t>::max();
}

}  // namespace

// ---- writing

void put(bool value, WritePlace to) {
  const auto& [info, r, field, inside] = to.at;
  field->is_repeated() ? r->AddBool(&to.message, field, value)
                       : r->SetBool(&to.message, field, value);
}

void put(std::int32_t value, WritePlace to) {
  const auto& [info, r, field, inside] = to.at;
  field->is_repeated() ? r->AddInt32(&to.message, field, value)
                       : r->SetInt32(&to.message, field, value);
}

void put(std::int64_t value, WritePlace to) {
  const auto& [info, r, field, inside] = to.at;
  field->is_repeated() ? r->AddInt64(&to.message, field, value)
                       : r->SetInt64(&to.message, field, value);
}

void put(std::uint64_t value, WritePlace to) {
  const auto& [info, r, field, inside] = to.at;
  field->is_repeated() ? r->AddUInt64(&to.message, field, value)
                       : r->SetUInt64(&to.message, field, value);
}

void put(double value, WritePlace to) {
  const auto& [info, r, field, inside] = to.at;
  field->is_repeated() ? r->AddDouble(&to.message, field, value)
                       : r->SetDouble(&to.message, field, value);
}

// A text that is not UTF-8, or longer than its field permits, would make the receiver refuse the
// whole message.
void put(const std::string& value, WritePlace to) {
  const auto& [info, r, field, inside] = to.at;
  std::string sent =
      field->type() == FieldDescriptor::TYPE_STRING ? valid_text(value, room(to.at)) : value;
  field->is_repeated() ? r->AddString(&to.message, field, std::move(sent))
                       : r->SetString(&to.message, field, std::move(sent));
}

// The default spec is not valid: it stands for no spec.
void put(const JobSpec& value, WritePlace to) {
  if (value != JobSpec{}) put(sent_spec(value), to);
}

void put(const Digest& value, WritePlace to) {
  auto& wire = static_cast<v1::Digest&>(part(to));
  wire.set_high(value.high);
  wire.set_low(value.low);
}

void put(const Label& value, WritePlace to) {
  auto& wire = static_cast<v1::Label&>(part(to));
  wire.set_key(valid_text(value.first));
  wire.set_value(valid_text(value.second));
}

Message& part(WritePlace of) {
  const auto& [info, r, field, inside] = of.at;
  return field->is_repeated() ? *r->AddMessage(&of.message, field)
                              : *r->MutableMessage(&of.message, field);
}

// ---- reading

void get(Reader&, ReadPlace from, bool& to) {
  const auto& [info, r, field, inside] = from.at;
  to = from.index < 0 ? r->GetBool(from.message, field)
                      : r->GetRepeatedBool(from.message, field, from.index);
}

void get(Reader& reader, ReadPlace from, std::int32_t& to) {
  const auto& [info, r, field, inside] = from.at;
  to = from.index < 0 ? r->GetInt32(from.message, field)
                      : r->GetRepeatedInt32(from.message, field, from.index);
  checked_count(reader, from, to);
}

void get(Reader& reader, ReadPlace from, std::int64_t& to) {
  const auto& [info, r, field, inside] = from.at;
  to = from.index < 0 ? r->GetInt64(from.message, field)
                      : r->GetRepeatedInt64(from.message, field, from.index);
  checked_count(reader, from, to);
}

// Ids and counters are kept in SQLite, whose integers are signed.
void get(Reader& reader, ReadPlace from, std::uint64_t& to) {
  const auto& [info, r, field, inside] = from.at;
  to = from.index < 0 ? r->GetUInt64(from.message, field)
                      : r->GetRepeatedUInt64(from.message, field, from.index);
  reader.require(to <= kStoredNumberMax, field->name(), "must be below 2^63");
}

void get(Reader& reader, ReadPlace from, double& to) {
  const auto& [info, r, field, inside] = from.at;
  to = from.index < 0 ? r->GetDouble(from.message, field)
                      : r->GetRepeatedDouble(from.message, field, from.index);
  reader.require(from.at.info.rule.any_number || (std::isfinite(to) && to >= 0),
                 from.at.field->name(), "must be finite and not negative");
}

const std::string& text_at(ReadPlace from, std::string& scratch) {
  const auto& [info, r, field, inside] = from.at;
  return from.index < 0 ? r->GetStringReference(from.message, field, &scratch)
                        : r->GetRepeatedStringReference(from.message, field, from.index, &scratch);
}

void get(Reader& reader, ReadPlace from, std::string& to) {
  std::string scratch;
  to = text_at(from, scratch);
  if (from.index >= 0 || from.at.info.rule.at_most == 0 || to.size() <= from.at.info.rule.at_most)
    return;
  reader.refuse(from.at.field->name(),
                "must have at most " + std::to_string(from.at.info.rule.at_most) + " bytes");
}

void get(Reader& reader, ReadPlace from, JobSpec& to) {
  std::string scratch;
  const std::string& text = text_at(from, scratch);
  if (text.empty() && from.at.info.rule.or_none) return;
  SpecOrProblems read = read_kept_spec(text);
  if (read.problems) reader.refuse(from.at.field->name(), read.problems->summary);
  to = std::move(read.spec);
}

void get(Reader&, ReadPlace from, Digest& to) {
  const auto& wire = static_cast<const v1::Digest&>(part(from));
  to = {wire.high(), wire.low()};
}

void get(Reader&, ReadPlace from, Label& to) {
  const auto& wire = static_cast<const v1::Label&>(part(from));
  to = {wire.key(), wire.value()};
}

void refuse_name(Reader& reader, ReadPlace from, const std::string& text) {
  if (text.empty() && from.at.info.rule.or_none) return;
  reader.refuse(from.at.field->name(), "unknown word '" + valid_text(text, 64) + "'");
}

void require_id(Reader& reader, ReadPlace from, bool given) {
  reader.require(given || from.at.info.rule.or_none, from.at.field->name(), "must not be 0");
}

bool is_there(ReadPlace from) { return from.at.reflection->HasField(from.message, from.at.field); }

const Message& part(ReadPlace of) {
  const auto& [info, r, field, inside] = of.at;
  return of.index < 0 ? r->GetMessage(of.message, field)
                      : r->GetRepeatedMessage(of.message, field, of.index);
}

int length(Reader& reader, ReadPlace list) {
  const FieldDescriptor* field = list.at.field;
  const int length = list.at.reflection->FieldSize(list.message, field);
  const std::size_t at_most = list.at.info.rule.at_most;
  if (at_most == 0 || static_cast<std::size_t>(length) <= at_most) return length;
  const bool is_named = field->message_type() != nullptr;  // by the path
  reader.refuse(is_named ? "" : field->name(),
                "must have at most " + std::to_string(at_most) + " entries");
  return 0;
}

}  // namespace shoal::proto
