#include "proto/wire_fields.h"

namespace shoal::proto {

WireFields::WireFields(const Descriptor& message)
    : message_(message),
      reflection_(*google::protobuf::MessageFactory::generated_factory()
                       ->GetPrototype(&message)
                       ->GetReflection()) {}

void WireFields::add(const FieldInfo& info, const std::string& name, FieldDescriptor::CppType type,
                     bool is_list, const Descriptor* part) {
  const FieldDescriptor* field = message_.FindFieldByName(name);
  fields_.push_back({info, &reflection_, field});
  const std::string full_name = message_.full_name() + "." + name;
  if (field == nullptr) {
    const bool is_flat =
        type == FieldDescriptor::CPPTYPE_MESSAGE && !is_list && info.rule.flat_prefix != nullptr;
    if (!is_flat) problems_.push_back("there is no " + full_name);
  } else if (field->cpp_type() != type || field->is_repeated() != is_list ||
             (part != nullptr && field->message_type() != part)) {
    problems_.push_back(full_name + " has another type than the field of the struct");
  }
}

}  // namespace shoal::proto
