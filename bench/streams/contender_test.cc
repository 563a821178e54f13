// Every contender does what is measured: a flow both ways, hops, a cancellation, a new connection.
#include <gtest/gtest.h>

#include "bench/streams/talk.h"
#include "bench/streams/worker.h"

namespace shoal::bench {
namespace {

class Contenders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Contenders, testing::ValuesIn(kContenders), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

bool is_good(const std::string& answer) { return !answer.starts_with("failed"); }

TEST_P(Contenders, DoWhatIsMeasured) {
  const std::string kind = GetParam();
  const auto identities = make_identities(2);
  Worker one({{0}, "", {kind}, 64 << 10}, identities[0]);
  Worker two({{1}, "", {kind}, 64 << 10}, identities[1]);
  const auto both = [&](const std::string& command) {
    std::string other;
    std::jthread beside([&] { other = two.obey(command); });
    const std::string own = one.obey(command);
    beside.join();
    EXPECT_TRUE(is_good(own) && is_good(other)) << kind << ": " << own << other;
    return own;
  };
  std::string command = "connect " + kind;
  command += " " + one.obey("listen " + kind);
  command += " " + two.obey("listen " + kind);
  EXPECT_EQ(both(command), "ready");
  both("flow " + kind + " 20000000");
  EXPECT_NE(both("ping " + kind + " 4096 10"), "0 0");
  if (kind == "bare") return;
  both("cancel " + kind);
  both("handshake " + kind);
}

}  // namespace
}  // namespace shoal::bench
