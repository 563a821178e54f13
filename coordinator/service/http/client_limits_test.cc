// The share of one client, and what is kept for probes. Over a real server: server_test.cc.
#include "coordinator/service/http/client_limits.h"

#include <vector>

#include <gtest/gtest.h>

namespace shoal::coordinator::rest {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

ClientLimitOptions small_limits() {
  ClientLimitOptions options;
  options.connections_max = 5;
  options.probes_max = 2;
  options.probes_per_client = 1;
  options.bodies_max = Bytes(250);
  options.other = {3, 1, 2, 4, Bytes(100)};
  options.this_host = {4, 2, 2, 4, Bytes(200)};
  return options;
}

class ClientLimitsTest : public ::testing::Test {
 protected:
  ClientLimits::Visit enter(const std::string& client) {
    auto visit = limits_.enter(client, 0);
    EXPECT_TRUE(visit) << client;
    return std::move(*visit);
  }
  ClientLimits limits_{small_limits()};
};

TEST_F(ClientLimitsTest, OneClientLeavesConnectionsToTheOthers) {
  std::vector<ClientLimits::Visit> visits;
  for (int i = 0; i < 3; ++i) {
    visits.push_back(enter("192.0.2.1"));
    EXPECT_FALSE(visits.back().for_probes());
  }
  EXPECT_TRUE(enter("192.0.2.1").for_probes()) << "its share is taken";
  EXPECT_FALSE(enter("192.0.2.2").for_probes());
  visits.pop_back();
  EXPECT_FALSE(enter("192.0.2.1").for_probes()) << "one has ended";
}

TEST_F(ClientLimitsTest, AFullServerStillHasRoomForProbes) {
  std::vector<ClientLimits::Visit> visits;
  for (int i = 0; i < 3; ++i) visits.push_back(enter("192.0.2.1"));
  for (int i = 0; i < 2; ++i) visits.push_back(enter("192.0.2.2"));
  visits.push_back(enter("192.0.2.1"));
  EXPECT_TRUE(visits.back().for_probes());
  EXPECT_FALSE(limits_.enter("192.0.2.1", 0)) << "one client does not take the other probe";
  visits.push_back(enter("192.0.2.3"));
  EXPECT_TRUE(visits.back().for_probes());
  EXPECT_FALSE(limits_.enter("192.0.2.4", 0));
}

TEST_F(ClientLimitsTest, RequestsHaveARateAndABurst) {
  ClientLimits::Visit visit = enter("192.0.2.1");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(visit.take_request(0));
  EXPECT_FALSE(visit.take_request(0));
  EXPECT_FALSE(enter("192.0.2.1").take_request(0)) << "another connection of it";
  EXPECT_TRUE(enter("192.0.2.2").take_request(0)) << "another client";
  EXPECT_TRUE(visit.take_request(kSecond));
  EXPECT_TRUE(visit.take_request(kSecond));
  EXPECT_FALSE(visit.take_request(kSecond));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(visit.take_request(100 * kSecond));
  EXPECT_FALSE(visit.take_request(100 * kSecond)) << "a pause earns no more than the burst";
}

TEST_F(ClientLimitsTest, AClientThatReconnectsHasNoNewShareOfRequests) {
  {
    ClientLimits::Visit visit = enter("192.0.2.1");
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(visit.take_request(0));
  }
  EXPECT_FALSE(enter("192.0.2.1").take_request(0));
}

TEST_F(ClientLimitsTest, BodiesInMemoryHaveALimit) {
  ClientLimits::Visit one = enter("192.0.2.1"), two = enter("192.0.2.1");
  EXPECT_TRUE(one.hold_body(Bytes(60)));
  EXPECT_FALSE(two.hold_body(Bytes(60)));
  one.release_body();
  EXPECT_TRUE(two.hold_body(Bytes(100)));
  EXPECT_TRUE(two.hold_body(Bytes(10))) << "less is never too much";
  EXPECT_TRUE(enter("192.0.2.1").hold_body(Bytes(90)));
  EXPECT_TRUE(one.hold_body(Bytes(90))) << "it went with its connection";
  ClientLimits::Visit here = enter(client_of("127.0.0.1", true));
  EXPECT_FALSE(here.hold_body(Bytes(151))) << "of all together";
  EXPECT_TRUE(here.hold_body(Bytes(150)));
}

TEST_F(ClientLimitsTest, StreamsAreGivenBackWithTheirConnection) {
  {
    ClientLimits::Visit one = enter("192.0.2.1");
    EXPECT_TRUE(one.take_stream());
    EXPECT_FALSE(enter("192.0.2.1").take_stream());
    const ClientLimits::Visit moved = std::move(one);
    EXPECT_FALSE(enter("192.0.2.1").take_stream());
  }
  EXPECT_TRUE(enter("192.0.2.1").take_stream());
}

TEST_F(ClientLimitsTest, ClientsThatAreIdleAreForgotten) {
  ClientLimitOptions options = small_limits();
  options.clients_max = 10;
  ClientLimits limits(options);
  std::vector<ClientLimits::Visit> stays;
  stays.push_back(std::move(*limits.enter("stays", 0)));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(stays.front().take_request(0));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(limits.enter("192.0.2." + std::to_string(i), i));
  }
  EXPECT_FALSE(stays.front().take_request(1)) << "who is connected is not forgotten";
}

TEST(ClientLimits, AClientIsAnAddressOrTheNetworkOfAHost) {
  EXPECT_EQ(client_of("192.0.2.1", false), "192.0.2.1");
  EXPECT_EQ(client_of("::ffff:192.0.2.1", false), "192.0.2.1");
  EXPECT_EQ(client_of("2001:db8::1", false), client_of("2001:db8::ffff:2", false));
  EXPECT_NE(client_of("2001:db8::1", false), client_of("2001:db8:0:1::1", false));
  EXPECT_EQ(client_of("127.0.0.1", true), client_of("::1", true));
}

}  // namespace
}  // namespace shoal::coordinator::rest
