// Questions about logs and their answers, between wire and domain. Reading validates as convert.h
// says.
#pragma once

#include <cstdint>

#include "base/log_lines.h"
#include "base/result.h"
#include "proto/logs.pb.h"

namespace shoal::proto {

v1::LogQuestion to_wire(std::uint64_t id, const LogQuery& query);
Result<LogQuery> read(const v1::LogQuestion& question);

v1::LogAnswer to_wire(std::uint64_t id, const Result<LogPage>& page);
Result<LogPage> read(const v1::LogAnswer& answer);

}  // namespace shoal::proto
