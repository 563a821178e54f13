// Which agents relay, and which are told.
#include "coordinator/core/relays.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Agents : Rig {
  ConnectionId come(const std::string& name, const std::string& relay, bool hears = true) {
    const ConnectionId connection{next_++};
    Hello hello;
    hello.uid = "uid-" + name;
    hello.name = name;
    hello.devices = {Device{.index = 0, .kind = DeviceKind::kCpu, .name = "cpu"}};
    hello.relay = relay;
    hello.hears_relays = hears;
    input(AgentHello{connection, hello});
    return connection;
  }
  std::vector<std::string> told(ConnectionId connection) {
    return last<Relays>(connection).value_or(Relays{{"nothing"}}).addresses;
  }
  std::uint64_t next_ = 50;
};

TEST(RelaysOfACluster, AnAgentHearsOfThemWithItsWelcome) {
  Agents rig;
  EXPECT_THAT(rig.last<Welcome>(rig.come("a", ""))->relays, IsEmpty());
  rig.come("b", "b:7200");
  EXPECT_THAT(rig.last<Welcome>(rig.come("c", ""))->relays, ElementsAre("b:7200"));
}

TEST(RelaysOfACluster, ChangesAreToldAtOnceToWhoeverHearsThem) {
  Agents rig;
  const ConnectionId a = rig.come("a", ""), old = rig.come("old", "", false);
  EXPECT_FALSE(rig.last<Relays>(a)) << "nothing has changed";
  const ConnectionId b = rig.come("b", "b:7200");
  EXPECT_THAT(rig.told(a), ElementsAre("b:7200"));
  rig.come("c", "c:7200");
  EXPECT_THAT(rig.told(a), ElementsAre("b:7200", "c:7200"));
  rig.say(b, Goodbye{"stopped"});
  EXPECT_THAT(rig.told(a), ElementsAre("c:7200"));
  EXPECT_FALSE(rig.last<Relays>(old));
}

TEST(RelaysOfACluster, OneWhoseAgentIsGoneIsNone) {
  Agents rig;
  const ConnectionId a = rig.come("a", ""), b = rig.come("b", "b:7200");
  rig.input(AgentHungUp{b});
  EXPECT_THAT(living_relays(rig.state()), ElementsAre("b:7200")) << "it may return";
  for (int i = 0; i < 30; ++i) rig.wait(seconds(1)), rig.say(a, Heartbeat{});
  EXPECT_THAT(rig.told(a), IsEmpty());
  rig.come("b", "b:7300");
  EXPECT_THAT(rig.told(a), ElementsAre("b:7300"));
}

TEST(RelaysOfACluster, ARestartedCoordinatorKnowsThem) {
  Agents rig;
  rig.come("b", "b:7200");
  rig.restart();
  EXPECT_THAT(living_relays(rig.state()), ElementsAre("b:7200"));
  EXPECT_THAT(rig.last<Welcome>(rig.come("a", ""))->relays, ElementsAre("b:7200"));
}

}  // namespace
}  // namespace shoal::coordinator
