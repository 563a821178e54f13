#include "proto/convert_logs.h"

#include "base/wire_text.h"
#include "proto/reflect.h"

namespace shoal::proto {
v1::LogQuestion to_wire(std::uint64_t id, const LogQuery& query) {
  v1::LogQuestion wire;
  wire.set_id(id);
  write_fields(query, wire);
  return wire;
}

Result<LogQuery> read(const v1::LogQuestion& question) { return read_fields<LogQuery>(question); }

v1::LogAnswer to_wire(std::uint64_t id, const Result<LogPage>& page) {
  v1::LogAnswer wire;
  wire.set_id(id);
  if (page.ok()) {
    write_fields(*page, wire);
  } else {
    wire.set_problem(valid_text(page.error().message));
  }
  return wire;
}

Result<LogPage> read(const v1::LogAnswer& answer) {
  if (!answer.problem().empty()) return Error{Code::kUnavailable, answer.problem(), "", ""};
  return read_fields<LogPage>(answer);
}

}  // namespace shoal::proto
