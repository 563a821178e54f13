// Under which names the fields of a record are stored: one rule for columns and for JSON. A time
// ends in _ns, a flat field is replaced by its own fields, and what is not kept is left out.
#pragma once

#include <string>
#include <type_traits>

#include "base/fields.h"
#include "base/time.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

struct StoredField {
  std::string name;
  bool added_later = false;
};

// Calls visit(const StoredField&, member).
template <typename T, typename Visit>
void for_each_stored(T& record, const Visit& visit, const std::string& prefix = "") {
  for_each_field(record, [&](const FieldInfo& field, auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    const FieldRule& rule = field.rule;
    if (rule.not_kept != nullptr) return;
    if constexpr (HasFields<Member> && !std::is_same_v<Member, JobSpec>) {  // a spec is one text
      if (rule.flat_prefix != nullptr)
        return for_each_stored(member, visit, prefix + rule.flat_prefix);
    }
    visit(StoredField{prefix + field.name + (Time<Member> ? "_ns" : ""), rule.added_later}, member);
  });
}

}  // namespace shoal::coordinator
