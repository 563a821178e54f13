#include "coordinator/store/device_history.h"

#include <algorithm>

#include "coordinator/store/json_fields.h"

namespace shoal::coordinator {

const char* const kDeviceTables =
    "CREATE TABLE IF NOT EXISTS devices ("
    "  id INTEGER PRIMARY KEY, agent INTEGER NOT NULL, uuid TEXT NOT NULL, number INTEGER NOT NULL,"
    "  name TEXT NOT NULL, at_ns INTEGER NOT NULL, answer TEXT NOT NULL, error TEXT NOT NULL,"
    "  errors TEXT NOT NULL, UNIQUE (agent, uuid)) STRICT;"
    "CREATE TABLE IF NOT EXISTS device_points ("
    "  span_s INTEGER NOT NULL, at_s INTEGER NOT NULL, device INTEGER NOT NULL,"
    "  busy REAL NOT NULL, used_here INTEGER NOT NULL, used_elsewhere INTEGER NOT NULL,"
    "  celsius REAL NOT NULL, watts REAL NOT NULL, mhz REAL NOT NULL, throttled REAL NOT NULL,"
    "  PRIMARY KEY (span_s, at_s, device)) STRICT, WITHOUT ROWID;";

namespace {

constexpr std::int64_t kMinute = kDeviceMinute.ns / 1'000'000'000;
constexpr std::int64_t kTenMinutes = kDeviceTenMinutes.ns / 1'000'000'000;

std::int64_t whole_seconds(Instant at) { return at.ns / 1'000'000'000; }
std::int64_t whole_seconds(Duration time) { return time.ns / 1'000'000'000; }

Status run(Database& telemetry, const std::string& sql, const std::vector<std::int64_t>& values) {
  const auto statement = telemetry.cached(sql);
  if (!statement) return statement.error();
  int index = 0;
  for (const std::int64_t value : values) (*statement)->bind(++index, value);
  return (*statement)->run();
}

Status write_state(Database& telemetry, const DeviceState& state) {
  const auto statement = telemetry.cached(
      "INSERT INTO devices (agent, uuid, number, name, at_ns, answer, error, errors)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (agent, uuid) DO UPDATE SET"
      " number = excluded.number, name = excluded.name, at_ns = excluded.at_ns,"
      " answer = excluded.answer, error = excluded.error, errors = excluded.errors");
  if (!statement) return statement.error();
  Statement& row = **statement;
  row.bind(1, static_cast<std::int64_t>(state.agent.n));
  row.bind(2, std::string_view(state.sample.uuid));
  row.bind(3, std::int64_t{state.index});
  row.bind(4, std::string_view(state.name));
  row.bind(5, state.at.ns);
  row.bind(6, std::string_view(to_string(state.sample.answer)));
  row.bind(7, std::string_view(state.sample.error));
  row.bind(8, std::string_view(state.sample.errors ? to_json(*state.sample.errors) : ""));
  return row.run();
}

// A device without a state keeps no minutes.
Status write_minute(Database& telemetry, const DeviceMinute& minute) {
  const auto statement = telemetry.cached(
      "INSERT OR REPLACE INTO device_points SELECT ?1, ?2, id, ?3, ?4, ?5, ?6, ?7, ?8, ?9"
      " FROM devices WHERE agent = ?10 AND uuid = ?11");
  if (!statement) return statement.error();
  Statement& row = **statement;
  row.bind(1, kMinute);
  row.bind(2, whole_seconds(minute.point.at));
  row.bind(3, minute.point.busy);
  row.bind(4, minute.point.used_here.count());
  row.bind(5, minute.point.used_elsewhere.count());
  row.bind(6, minute.point.celsius);
  row.bind(7, minute.point.watts);
  row.bind(8, minute.point.mhz);
  row.bind(9, minute.point.throttled);
  row.bind(10, static_cast<std::int64_t>(minute.agent.n));
  row.bind(11, std::string_view(minute.uuid));
  return row.run();
}

// The ten minutes that are over become one row per device.
Status thin(Database& telemetry, std::int64_t newest_s) {
  return run(telemetry,
             "INSERT OR REPLACE INTO device_points SELECT ?1, at_s / ?1 * ?1, device, avg(busy),"
             " max(used_here), max(used_elsewhere), max(celsius), avg(watts), avg(mhz),"
             " avg(throttled) FROM device_points WHERE span_s = ?2 AND at_s < ?3 / ?1 * ?1"
             " AND at_s >= (SELECT coalesce(max(at_s) + ?1, 0) FROM device_points"
             "              WHERE span_s = ?1)"
             " GROUP BY at_s / ?1, device",
             {kTenMinutes, kMinute, newest_s});
}

// So many of the newest rows of `devices` devices take half of the room.
std::int64_t kept_s(Duration most, std::int64_t span_s, std::int64_t devices) {
  const std::int64_t rows_each = kDeviceRowsMax / 2 / std::max<std::int64_t>(1, devices);
  return std::min(whole_seconds(most), rows_each * span_s);
}

Status forget_old(Database& telemetry, std::int64_t newest_s, std::int64_t devices) {
  const std::string cut = "DELETE FROM device_points WHERE span_s = ?1 AND at_s < ?2";
  for (const auto& [span, most] :
       {std::pair(kMinute, kDeviceMinutesKept), std::pair(kTenMinutes, kDeviceHistoryKept)}) {
    const std::int64_t kept = kept_s(most, span, devices);
    if (Status s = run(telemetry, cut, {span, newest_s - kept}); !s.ok()) return s;
  }
  return {};
}

// Devices that were not heard of for as long as points are kept. Reads all points: once a day.
Status forget_unheard(Database& telemetry, std::int64_t newest_s) {
  constexpr std::int64_t kDay = 24 * 3600;
  if (newest_s % kDay >= kMinute) return {};
  return run(telemetry,
             "DELETE FROM devices WHERE at_ns < ?1"
             " AND id NOT IN (SELECT device FROM device_points)",
             {(newest_s - whole_seconds(kDeviceHistoryKept)) * 1'000'000'000});
}

std::int64_t newest_of(const DeviceLog& log) {
  std::int64_t newest = 0;
  for (const DeviceMinute& minute : log.minutes) {
    newest = std::max(newest, whole_seconds(minute.point.at));
  }
  return newest;
}

DevicePoint read_point(const Statement& row, int column) {
  return {.at = from_unix_ms(row.integer(column) * 1000),
          .busy = row.real(column + 1),
          .used_here = Bytes(row.integer(column + 2)),
          .used_elsewhere = Bytes(row.integer(column + 3)),
          .celsius = row.real(column + 4),
          .watts = row.real(column + 5),
          .mhz = row.real(column + 6),
          .throttled = row.real(column + 7)};
}

Result<DeviceState> read_state(const Statement& row) {
  DeviceState state{.agent = AgentId(static_cast<std::uint64_t>(row.integer(0))),
                    .index = static_cast<std::int32_t>(row.integer(2)),
                    .name = std::string(row.text(3)),
                    .at = {row.integer(4)}};
  state.sample.uuid = row.text(1);
  state.sample.answer =
      parse_enumerator<DeviceAnswer>(row.text(5)).value_or(DeviceAnswer::kUnknown);
  state.sample.error = row.text(6);
  if (!row.text(7).empty()) {
    DeviceErrors errors;
    if (Status s = from_json(row.text(7), errors); !s.ok()) return s.error();
    state.sample.errors = std::move(errors);
  }
  return state;
}

void add_newest_minute(DeviceState& state, const DevicePoint& point) {
  state.sample.use = DeviceUse{
      .busy = point.busy, .used_here = point.used_here, .used_elsewhere = point.used_elsewhere};
  state.sample.climate =
      DeviceClimate{.celsius = point.celsius, .watts = point.watts, .mhz = point.mhz};
  const Instant end = std::max(state.at, point.at + kDeviceMinute);
  if (state.sample.errors) {
    for (XidCount& xid : state.sample.errors->xids) xid.ago = xid.ago + (end - state.at);
  }
  state.at = end;
}

}  // namespace

Status write_devices(Database& telemetry, const DeviceLog& log) {
  for (const DeviceState& state : log.states) {
    if (Status s = write_state(telemetry, state); !s.ok()) return s;
  }
  for (const DeviceMinute& minute : log.minutes) {
    if (Status s = write_minute(telemetry, minute); !s.ok()) return s;
  }
  if (log.minutes.empty()) return {};
  const std::int64_t newest_s = newest_of(log);
  if (Status s = thin(telemetry, newest_s); !s.ok()) return s;
  const auto devices = static_cast<std::int64_t>(log.minutes.size());
  if (Status s = forget_old(telemetry, newest_s, devices); !s.ok()) return s;
  return forget_unheard(telemetry, newest_s);
}

Status forget_devices(Database& telemetry, AgentId agent) {
  const std::vector<std::int64_t> id = {static_cast<std::int64_t>(agent.n)};
  if (Status s = run(telemetry,
                     "DELETE FROM device_points WHERE device IN"
                     " (SELECT id FROM devices WHERE agent = ?1)",
                     id);
      !s.ok()) {
    return s;
  }
  return run(telemetry, "DELETE FROM devices WHERE agent = ?1", id);
}

Result<std::vector<DeviceState>> read_devices(Database& telemetry) {
  const auto statement = telemetry.cached(
      "SELECT d.agent, d.uuid, d.number, d.name, d.at_ns, d.answer, d.error, d.errors, p.at_s,"
      " p.busy, p.used_here, p.used_elsewhere, p.celsius, p.watts, p.mhz, p.throttled"
      " FROM devices AS d LEFT JOIN device_points AS p ON p.device = d.id AND p.span_s = ?1"
      " AND p.at_s = (SELECT max(at_s) FROM device_points WHERE span_s = ?1)"
      " ORDER BY d.agent, d.number");
  if (!statement) return statement.error();
  (*statement)->bind(1, kMinute);
  std::vector<DeviceState> devices;
  for (;;) {
    const auto row = (*statement)->step();
    if (!row) return row.error();
    if (!*row) break;
    auto state = read_state(**statement);
    if (!state) return state.error();
    if (!(*statement)->is_null(8)) add_newest_minute(*state, read_point(**statement, 8));
    devices.push_back(std::move(*state));
  }
  (*statement)->reset();
  return devices;
}

namespace {

// The points of one device are found one by one, because others' rows lie between them: ten minutes
// (?3) before `edge`, where the newest of them end, and minutes (?2) from there on. ?5 and ?6: how
// long those two are kept.
constexpr const char* kPointsOfAgent =
    "WITH RECURSIVE"
    " edge (s) AS (SELECT coalesce(max(at_s) + ?3, 0) FROM device_points WHERE span_s = ?3),"
    " newest (s) AS (SELECT coalesce(max(at_s), 0) FROM device_points WHERE span_s = ?2),"
    " tens (at_s) AS ("
    "  SELECT max((?4 + ?3 - 1) / ?3 * ?3, edge.s - ?5) FROM edge"
    "  UNION ALL SELECT tens.at_s + ?3 FROM tens, edge WHERE tens.at_s + ?3 < edge.s),"
    " minutes (at_s) AS ("
    "  SELECT max((?4 + ?2 - 1) / ?2 * ?2, edge.s, newest.s - ?6) FROM edge, newest"
    "  UNION ALL SELECT minutes.at_s + ?2 FROM minutes, newest"
    "   WHERE minutes.at_s + ?2 <= newest.s),"
    " wanted (span_s, at_s) AS ("
    "  SELECT ?3, tens.at_s FROM tens UNION ALL SELECT ?2, minutes.at_s FROM minutes)"
    "SELECT d.uuid, d.number, d.name, p.at_s, p.busy, p.used_here, p.used_elsewhere, p.celsius,"
    " p.watts, p.mhz, p.throttled FROM devices AS d CROSS JOIN wanted AS w CROSS JOIN"
    " device_points AS p ON p.span_s = w.span_s AND p.at_s = w.at_s AND p.device = d.id"
    " WHERE d.agent = ?1 ORDER BY d.number, d.uuid, p.at_s";

}  // namespace

Result<std::vector<DeviceLine>> read_device_history(Database& telemetry, AgentId agent,
                                                    Instant from) {
  const auto statement = telemetry.cached(kPointsOfAgent);
  if (!statement) return statement.error();
  Statement& rows = **statement;
  rows.bind(1, static_cast<std::int64_t>(agent.n));
  rows.bind(2, kMinute);
  rows.bind(3, kTenMinutes);
  rows.bind(4, std::max<std::int64_t>(0, whole_seconds(from)));
  rows.bind(5, whole_seconds(kDeviceHistoryKept));
  rows.bind(6, whole_seconds(kDeviceMinutesKept));
  std::vector<DeviceLine> lines;
  for (;;) {
    const auto row = rows.step();
    if (!row) return row.error();
    if (!*row) break;
    if (lines.empty() || lines.back().uuid != rows.text(0)) {
      lines.push_back({std::string(rows.text(0)),
                       static_cast<std::int32_t>(rows.integer(1)),
                       std::string(rows.text(2)),
                       {}});
    }
    lines.back().points.push_back(read_point(rows, 3));
  }
  rows.reset();
  return lines;
}

}  // namespace shoal::coordinator
