// What is told of relays reaches every trainer that understands it.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RelaysTest : public AgentFixture {
 protected:
  void attach_hearing(std::int32_t slot, bool hears = true) {
    TrainerReady ready{.slot = slot,
                       .device = test_options().devices[0],
                       .peer_address = {},
                       .libraries = {},
                       .hears_relays = hears};
    ready.device.index = slot;
    step(TrainerAttached{{slot, 1}, ready});
  }
  void welcome(std::vector<std::string> relays) {
    step(LinkUp{link_});
    hear(Welcome{AgentId(7), {3}, seconds(2), seconds(10), {}, std::move(relays)});
  }
};

TEST_F(RelaysTest, AreToldToTrainersThatAttachAndWhenTheyChange) {
  boot();
  EXPECT_TRUE(one<OpenLink>().hello.hears_relays);
  attach_hearing(0);
  welcome({"a:1"});
  EXPECT_THAT(told<Relays>(0), ElementsAre(Relays{{"a:1"}}));
  attach_hearing(1);
  EXPECT_THAT(told<Relays>(1), ElementsAre(Relays{{"a:1"}}));
  hear(Relays{{"a:1", "b:2"}});
  EXPECT_THAT(told<Relays>(0), ElementsAre(Relays{{"a:1", "b:2"}}));
  EXPECT_THAT(told<Relays>(1), ElementsAre(Relays{{"a:1", "b:2"}}));
  hear(Relays{{"a:1", "b:2"}});
  EXPECT_THAT(told<Relays>(0), IsEmpty()) << "nothing has changed";
  hear(Relays{});
  EXPECT_THAT(told<Relays>(0), ElementsAre(Relays{}));
}

// It may have been told of relays by the daemon before.
TEST_F(RelaysTest, ATrainerOfAnEarlierStartHearsThatThereAreNone) {
  boot();
  attach_hearing(0);
  welcome({});
  EXPECT_THAT(told<Relays>(0), ElementsAre(Relays{}));
}

TEST_F(RelaysTest, OlderTrainersAreNotTold) {
  boot();
  attach_hearing(0, false);
  welcome({"a:1"});
  EXPECT_THAT(all<SendTrainer>(), IsEmpty());
}

TEST_F(RelaysTest, WhatTheRelayDoesGoesWithHeartbeats) {
  boot();
  welcome({});
  const RelayFigures figures{.waiting = 2, .joined = 1, .carried = Bytes(500)};
  step(HostMeasured{Bytes(55), figures});
  advance(seconds(2));
  ASSERT_EQ(said<Heartbeat>().size(), 1u);
  EXPECT_EQ(said<Heartbeat>()[0].relay, figures);
}

}  // namespace
}  // namespace shoal::agent
