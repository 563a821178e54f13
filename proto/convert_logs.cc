#include "proto/convert_logs.h"

namespace shoal::proto {
namespace {

Error refused(const char* field, const char* message) {
  return {Code::kInvalidArgument, message, field, ""};
}

Result<LogLine> read(const v1::LogLine& wire) {
  const auto level = parse_word<LogLevel>(wire.level());
  if (!level) return refused("lines.level", "is not a level");
  if (wire.at_ns() <= 0) return refused("lines.at_ns", "must be positive");
  if (wire.text().size() > kLogTextMax) return refused("lines.text", "is too long");
  return LogLine{{wire.at_ns()}, *level, wire.source(), ReplicaId(wire.replica()), wire.text()};
}

}  // namespace

v1::LogQuestion to_wire(std::uint64_t id, const LogQuery& query) {
  v1::LogQuestion wire;
  wire.set_id(id);
  wire.set_limit(query.limit);
  wire.set_after_ns(query.after ? query.after->ns : 0);
  wire.set_level(to_string(query.level_min));
  wire.set_source(query.source);
  for (const ReplicaId replica : query.replicas) wire.add_replicas(replica.n);
  wire.set_text(query.text);
  return wire;
}

Result<LogQuery> read(const v1::LogQuestion& question) {
  LogQuery query;
  if (question.limit() < 1 || question.limit() > kLogLinesMax)
    return refused("limit", "must be from 1 to 1000");
  query.limit = question.limit();
  if (question.after_ns() < 0) return refused("after_ns", "must not be negative");
  if (question.after_ns() > 0) query.after = Instant{question.after_ns()};
  const auto level = parse_word<LogLevel>(question.level());
  if (!level) return refused("level", "is not a level");
  query.level_min = *level;
  query.source = question.source();
  for (const std::uint64_t replica : question.replicas()) query.replicas.emplace_back(replica);
  query.text = question.text();
  return query;
}

v1::LogAnswer to_wire(std::uint64_t id, const Result<LogPage>& page) {
  v1::LogAnswer wire;
  wire.set_id(id);
  if (!page.ok()) {
    wire.set_problem(page.error().message);
    return wire;
  }
  for (const LogLine& line : page.value().lines) {
    v1::LogLine* to = wire.add_lines();
    to->set_at_ns(line.at.ns);
    to->set_level(to_string(line.level));
    to->set_source(line.source);
    to->set_replica(line.replica.n);
    to->set_text(line.text);
  }
  return wire;
}

Result<LogPage> read(const v1::LogAnswer& answer) {
  if (!answer.problem().empty()) return Error{Code::kUnavailable, answer.problem(), "", ""};
  if (answer.lines_size() > kLogLinesMax) return refused("lines", "are too many");
  LogPage page;
  for (const v1::LogLine& wire : answer.lines()) {
    auto line = read(wire);
    if (!line.ok()) return line.error();
    page.lines.push_back(std::move(line).value());
  }
  return page;
}

}  // namespace shoal::proto
