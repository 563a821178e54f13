// See control.h.
#include "bench/line/control.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <nlohmann/json.hpp>

#include "base/number_text.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kHostsMax = 250;

// The members of one JSON object, each read once. The first error stays; what is read
// after it has no effect.
class Fields {
 public:
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) refuse("", "must be an object, got " + object.dump(), "");
  }

  const Status& status() const { return status_; }
  std::string path(const std::string& name) const {
    if (name.empty()) return path_;
    return path_.empty() ? name : path_ + "." + name;
  }

  const Json* find(const std::string& name) {
    known_.insert(name);
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(name);
    return at == object_.end() ? nullptr : &*at;
  }

  void number(const std::string& name, double least, double most, double& value) {
    const Json* json = find(name);
    if (json == nullptr) return;
    const std::string problem = number_problem(json->dump(), least, most);
    if (!problem.empty()) return refuse(name, problem, "");
    value = json->get<double>();
  }

  void milliseconds(const std::string& name, double most, Duration& value) {
    double ms = static_cast<double>(value.ns) * 1e-6;
    number(name, 0, most, ms);
    value = nanoseconds(std::llround(ms * 1e6));
  }

  template <typename Integer>
  void integer(const std::string& name, double least, double most, Integer& value) {
    auto number_value = static_cast<double>(value);
    number(name, least, most, number_value);
    if (number_value != std::floor(number_value)) {
      return refuse(name, "must be a whole number, got " + object_[name].dump(), "");
    }
    value = static_cast<Integer>(number_value);
  }

  void flag(const std::string& name, bool& value) {
    const Json* json = find(name);
    if (json == nullptr) return;
    if (!json->is_boolean()) return refuse(name, "must be true or false, got " + json->dump(), "");
    value = json->get<bool>();
  }

  void text(const std::string& name, std::string& value) {
    const Json* json = find(name);
    if (json == nullptr) return;
    if (!json->is_string()) return refuse(name, "must be text, got " + json->dump(), "");
    value = json->get<std::string>();
  }

  void take(const Status& inner) {
    if (status_.ok()) status_ = inner;
  }
  void refuse(const std::string& name, const std::string& what, const std::string& remedy) {
    take(Error{Code::kValidation, what, path(name), remedy});
  }

  // Last: what nobody has asked for is a mistake.
  const Status& done() {
    if (!object_.is_object()) return status_;
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    for (const auto& [name, value] : object_.items()) {
      if (!known_.contains(name)) refuse(name, "is not known here", "fields are " + names);
    }
    return status_;
  }

 private:
  const Json& object_;
  const std::string path_;
  std::set<std::string> known_;
  Status status_;
};

Result<Json> parse(std::string_view text, const std::string& what) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  return Error{Code::kInvalidArgument, "is no JSON", what, "docs/transport.md has an example"};
}

void read_line(Fields& host, const std::string& name, LineOptions& line) {
  const Json* json = host.find(name);
  if (json == nullptr) return;
  Fields fields(*json, host.path(name));
  double mbit = line.bytes_per_s * 8e-6;
  fields.number("mbit", 0, 1e5, mbit);
  line.bytes_per_s = mbit * 1e6 / 8;
  if (mbit > 0 && mbit < 1e-3) fields.refuse("mbit", "must be 0 or 0.001 and more", "0: no limit");
  fields.milliseconds("queue_ms", 60e3, line.queue);
  fields.milliseconds("burst_ms", 1e3, line.burst);
  fields.milliseconds("delay_ms", 60e3, line.delay);
  fields.milliseconds("jitter_ms", 10e3, line.jitter);
  fields.number("loss", 0, 1, line.loss);
  fields.number("reorder", 0, 1, line.reorder);
  fields.milliseconds("detour_ms", 60e3, line.detour);
  fields.flag("cut", line.cut);
  host.take(fields.done());
}

// "10.79.0.1/24"
void read_address(Fields& fields, TunOptions& tun) {
  std::string text;
  fields.text("address", text);
  const std::size_t slash = text.find('/');
  in_addr address{};
  const std::string prefix = slash == std::string::npos ? "" : text.substr(slash + 1);
  if (inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1 ||
      !number_problem(prefix, 8, 30).empty()) {
    return fields.refuse("address", "must be an IPv4 address and 8 to 30 bits, got '" + text + "'",
                         "for example 10.79.0.1/24");
  }
  tun.address = ntohl(address.s_addr);
  tun.prefix = static_cast<int>(std::stod(prefix));
}

Status read_host(const Json& json, const std::string& path, HostSetup& host) {
  Fields fields(json, path);
  fields.text("name", host.name);
  if (host.name.empty()) fields.refuse("name", "is missing", "a name that orders call the host by");
  fields.text("namespace", host.tun.network);
  fields.text("device", host.tun.device);
  if (host.tun.device.empty() || host.tun.device.size() >= IFNAMSIZ) {
    fields.refuse("device", "must have 1 to 15 letters, got '" + host.tun.device + "'",
                  "leave it out for 'line'");
  }
  read_address(fields, host.tun);
  read_line(fields, "up", host.lines.up);
  read_line(fields, "down", host.lines.down);
  return fields.done();
}

void refuse_doubles(Fields& fields, const std::vector<HostSetup>& hosts) {
  std::set<std::string> names;
  std::set<std::uint32_t> addresses;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string path = "hosts[" + std::to_string(i) + "]";
    if (!names.insert(hosts[i].name).second) {
      fields.refuse(path + ".name", "is that of another host, got '" + hosts[i].name + "'", "");
    }
    if (!addresses.insert(hosts[i].tun.address).second) {
      fields.refuse(path + ".address", "is that of another host", "");
    }
  }
}

int host_named(const LineSetup& setup, const std::string& name) {
  const auto at = std::find_if(setup.hosts.begin(), setup.hosts.end(),
                               [&](const HostSetup& host) { return host.name == name; });
  return at == setup.hosts.end() ? -1 : static_cast<int>(at - setup.hosts.begin());
}

double ms_of(Duration time) { return static_cast<double>(time.ns) * 1e-6; }

OrderedJson json_of(const LineCounts& counts) {
  return {{"entered", counts.entered},          {"passed", counts.passed},
          {"overflowed", counts.overflowed},    {"lost", counts.lost},
          {"refused", counts.refused},          {"detoured", counts.detoured},
          {"bytes_passed", counts.bytes_passed}};
}

}  // namespace

Result<LineSetup> parse_setup(std::string_view text) {
  const auto json = parse(text, "the file");
  if (!json.ok()) return json.error();
  LineSetup setup;
  Fields fields(*json, "");
  int mtu = 1500, memory_mib = 512;
  bool offload = true;
  fields.integer("seed", 0, 9e15, setup.seed);
  fields.integer("mtu", 576, 65000, mtu);
  fields.integer("memory_mib", 1, 65536, memory_mib);
  fields.flag("offload", offload);
  setup.held_max = mebibytes(memory_mib);
  const Json* hosts = fields.find("hosts");
  if (hosts == nullptr || !hosts->is_array() || hosts->size() < 2 || hosts->size() > kHostsMax) {
    fields.refuse("hosts", "must be a list of 2 to 250 hosts", "");
    hosts = nullptr;
  }
  for (std::size_t i = 0; hosts != nullptr && i < hosts->size(); ++i) {
    HostSetup host;
    host.tun.mtu = mtu;
    host.tun.offload = offload;
    fields.take(read_host((*hosts)[i], "hosts[" + std::to_string(i) + "]", host));
    setup.hosts.push_back(std::move(host));
  }
  refuse_doubles(fields, setup.hosts);
  if (const Status& status = fields.done(); !status.ok()) return status.error();
  return setup;
}

Result<LineOrder> parse_order(std::string_view text, const LineSetup& setup) {
  const auto json = parse(text, "the order");
  if (!json.ok()) return json.error();
  Fields fields(*json, "");
  LineOrder order;
  bool counts = false;
  std::string name;
  fields.flag("counts", counts);
  fields.text("host", name);
  order.host = host_named(setup, name);
  if (order.host < 0 && !counts)
    fields.refuse("host", "there is none of that name, got '" + name + "'", "");
  if (order.host >= 0) order.lines = setup.hosts[static_cast<std::size_t>(order.host)].lines;
  read_line(fields, "up", order.lines.up);
  read_line(fields, "down", order.lines.down);
  if (counts && json->size() > 1) fields.refuse("counts", "stands alone", "give two orders");
  if (const Status& status = fields.done(); !status.ok()) return status.error();
  return order;
}

std::string counts_text(const LineSetup& setup, const ForwarderCounts& counts) {
  OrderedJson hosts = OrderedJson::array();
  for (std::size_t i = 0; i < counts.hosts.size(); ++i) {
    const HostCounts& host = counts.hosts[i];
    hosts.push_back({{"name", setup.hosts[i].name},
                     {"up", json_of(host.up)},
                     {"down", json_of(host.down)},
                     {"unroutable", host.unroutable},
                     {"device_dropped", host.device_dropped},
                     {"refused", host.refused}});
  }
  const OrderedJson json = {{"hosts", hosts},
                            {"out_of_memory", counts.dropped},
                            {"late_ms",
                             {{"p50", ms_of(counts.late_p50)},
                              {"p99", ms_of(counts.late_p99)},
                              {"max", ms_of(counts.late_max)}}},
                            {"realtime", counts.realtime}};
  return json.dump();
}

std::string error_text(const Error& error) {
  return OrderedJson{{"error", to_string(error)}}.dump();
}

}  // namespace shoal::bench
