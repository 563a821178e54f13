// Every mistake in an agent's options is named.
#include "agent/core/agent_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(AgentOptions, AreChecked) {
  EXPECT_THAT(validate(test_options()), IsEmpty());
  Options options = test_options();
  options.uid = "x";
  options.devices[1].index = 5;
  options.reconnect_cap = milliseconds(1);
  options.replicas_max = 0;
  std::vector<std::string> pointers;
  for (const auto& error : validate(options)) pointers.push_back(error.pointer);
  EXPECT_THAT(pointers, ElementsAre("/uid", "/devices", "/reconnect_cap", "/replicas_max"));
}

TEST(AgentOptions, EachIsRefusedByItsName) {
  const auto refused = [](auto&& change) {
    Options options = test_options();
    change(options);
    const auto errors = validate(options);
    return errors.size() == 1 ? errors[0].pointer : std::to_string(errors.size()) + " errors";
  };
  EXPECT_EQ(refused([](Options& o) { o.name.clear(); }), "/name");
  EXPECT_EQ(refused([](Options& o) { o.data_dir.clear(); }), "/data_dir");
  EXPECT_EQ(refused([](Options& o) { o.devices.clear(); }), "/devices");
  EXPECT_EQ(refused([](Options& o) { o.uid[31] = 'G'; }), "/uid");
  EXPECT_EQ(refused([](Options& o) { o.drain_limit = {}; }), "/drain_limit");
  EXPECT_EQ(refused([](Options& o) { o.load_limit = Duration{1}; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.restart_cap = milliseconds(1); }), "/restart_cap");
  EXPECT_EQ(refused([](Options& o) { o.upload_cap = milliseconds(1); }), "/upload_cap");
  EXPECT_EQ(refused([](Options& o) { o.restart_cap = o.restart_first; }), "0 errors");
  EXPECT_EQ(refused([](Options& o) { o.transfer_limit = {}; }), "/transfer_limit");
}

}  // namespace
}  // namespace shoal::agent
