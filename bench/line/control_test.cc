// What is said to shoal-line: values taken, and every mistake refused by the name of its field.
#include "bench/line/control.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

Json good() {
  return Json::parse(R"({"seed": 7, "mtu": 1400, "offload": false, "memory_mib": 2, "hosts": [
      {"name": "a", "namespace": "ns-a", "device": "tun7", "address": "10.79.0.1/24",
       "up": {"mbit": 20, "queue_ms": 30, "burst_ms": 2, "delay_ms": 49.5, "jitter_ms": 1,
              "loss": 0.001, "reorder": 0.01, "detour_ms": 7, "cut": true},
       "down": {"mbit": 100}},
      {"name": "b", "address": "10.79.0.2/24"}]})");
}

std::string refused(const Json& json) {
  const auto setup = parse_setup(json.dump());
  return setup.ok() ? "taken" : setup.error().field;
}

LineSetup setup() { return *parse_setup(good().dump()); }

TEST(LineSetup, HasWhatTheFileSays) {
  const LineSetup all = setup();
  EXPECT_EQ(all.seed, 7u);
  EXPECT_EQ(all.held_max, mebibytes(2));
  ASSERT_EQ(all.hosts.size(), 2u);
  const HostSetup& a = all.hosts[0];
  EXPECT_EQ(a.tun.network, "ns-a");
  EXPECT_EQ(a.tun.device, "tun7");
  EXPECT_EQ(a.tun.address, 0x0a4f0001u);
  EXPECT_EQ(a.tun.prefix, 24);
  EXPECT_EQ(a.tun.mtu, 1400);
  EXPECT_FALSE(a.tun.offload);
  const LineOptions up = {2.5e6,
                          milliseconds(30),
                          milliseconds(2),
                          microseconds(49'500),
                          milliseconds(1),
                          0.001,
                          0.01,
                          milliseconds(7),
                          true};
  EXPECT_EQ(a.lines.up, up);
  EXPECT_EQ(a.lines.down.bytes_per_s, 12.5e6);
  EXPECT_EQ(all.hosts[1].lines.up, LineOptions{});
  EXPECT_EQ(all.hosts[1].tun.device, "line");
}

TEST(LineSetup, RefusesByTheNameOfTheField) {
  const auto with = [](const char* pointer, const Json& value) {
    Json json = good();
    json[Json::json_pointer(pointer)] = value;
    return refused(json);
  };
  EXPECT_EQ(with("/hosts/0/up/mbit", -1), "hosts[0].up.mbit");
  EXPECT_EQ(with("/hosts/0/up/mbit", 1e-9), "hosts[0].up.mbit");
  EXPECT_EQ(with("/hosts/0/up/mbit", "fast"), "hosts[0].up.mbit");
  EXPECT_EQ(with("/hosts/0/down/loss", 1.5), "hosts[0].down.loss");
  EXPECT_EQ(with("/hosts/0/down/lost", 0.5), "hosts[0].down.lost");
  EXPECT_EQ(with("/hosts/0/down", 5), "hosts[0].down");
  EXPECT_EQ(with("/hosts/0/up/cut", 1), "hosts[0].up.cut");
  EXPECT_EQ(with("/hosts/1/address", "10.79.0.2"), "hosts[1].address");
  EXPECT_EQ(with("/hosts/1/address", "10.79.0/24"), "hosts[1].address");
  EXPECT_EQ(with("/hosts/1/address", "10.79.0.1/24"), "hosts[1].address");  // taken
  EXPECT_EQ(with("/hosts/1/name", "a"), "hosts[1].name");
  EXPECT_EQ(with("/hosts/1/name", ""), "hosts[1].name");
  EXPECT_EQ(with("/hosts/1/device", "sixteen-letters-"), "hosts[1].device");
  EXPECT_EQ(with("/hosts", Json::array()), "hosts");
  EXPECT_EQ(with("/mtu", 100), "mtu");
  EXPECT_EQ(with("/mtu", 1500.5), "mtu");
  EXPECT_EQ(with("/seeds", 1), "seeds");
  EXPECT_EQ(refused(Json::array()), "");
  EXPECT_EQ(parse_setup("{\"seed\": ").error().code, Code::kInvalidArgument);
}

TEST(LineOrder, ChangesWhatItNames) {
  const LineSetup before = setup();
  const auto order = parse_order(R"({"host": "a", "up": {"mbit": 8}})", before);
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->host, 0);
  LineOptions up = before.hosts[0].lines.up;
  up.bytes_per_s = 1e6;
  EXPECT_EQ(order->lines.up, up);
  EXPECT_EQ(order->lines.down, before.hosts[0].lines.down);
}

TEST(LineOrder, AsksForTheCounts) {
  const auto order = parse_order(R"({"counts": true})", setup());
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->host, -1);
}

TEST(LineOrder, RefusesByTheNameOfTheField) {
  const auto refused = [](const char* text) {
    const auto order = parse_order(text, setup());
    return order.ok() ? "taken" : order.error().field;
  };
  EXPECT_EQ(refused("{"), "the order");
  EXPECT_EQ(refused("{}"), "host");
  EXPECT_EQ(refused(R"({"host": "c"})"), "host");
  EXPECT_EQ(refused(R"({"host": "a", "up": {"mbits": 1}})"), "up.mbits");
  EXPECT_EQ(refused(R"({"host": "a", "sideways": {}})"), "sideways");
  EXPECT_EQ(refused(R"({"host": "a", "counts": true})"), "counts");
}

TEST(LineCounts, AreOneLineOfJson) {
  ForwarderCounts counts;
  counts.hosts.resize(2);
  counts.hosts[1].down.lost = 3;
  counts.late_p99 = microseconds(120);
  const std::string text = counts_text(setup(), counts);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["hosts"][1]["name"], "b");
  EXPECT_EQ(json["hosts"][1]["down"]["lost"], 3);
  EXPECT_EQ(json["late_ms"]["p99"], 0.12);
}

TEST(Lateness, KnowsItsQuantiles) {
  Lateness late;
  for (int i = 1; i <= 100; ++i) late.add(microseconds(10 * i - 5));
  EXPECT_EQ(late.quantile(0.5), microseconds(500));
  EXPECT_EQ(late.quantile(0.99), microseconds(990));
  late.add(seconds(1));
  EXPECT_EQ(late.quantile(1), seconds(1));
  EXPECT_EQ(late.max(), seconds(1));
}

}  // namespace
}  // namespace shoal::bench
