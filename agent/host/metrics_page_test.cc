// The page that Prometheus scrapes, over real sockets.
#include "agent/host/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include "objects/http.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;

std::shared_ptr<prometheus::Registry> some_metrics() {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter()
      .Name("some_total")
      .Help("Some.")
      .Register(*registry)
      .Add({})
      .Increment(3);
  return registry;
}

Result<objects::Answer> get(const std::string& address, const std::string& path) {
  const objects::Client client(
      {.reach = {.clear_allowed = true, .private_allowed = true}, .patience = {.tries = 1}});
  return client.send(objects::Request{.url = "http://" + address + path});
}

TEST(MetricsPage, AnswersScrapesOnAFreePort) {
  const auto metrics = some_metrics();
  const auto page = MetricsPage::open("127.0.0.1:0", metrics);
  ASSERT_TRUE(page.ok()) << to_string(page.error());
  EXPECT_THAT((*page)->address(), testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  const auto answer = get((*page)->address(), "/metrics");
  ASSERT_TRUE(answer.ok()) << to_string(answer.error());
  EXPECT_THAT(answer->body, HasSubstr("some_total 3\n"));
  ASSERT_NE(answer->header("content-type"), nullptr);
  EXPECT_THAT(*answer->header("content-type"), HasSubstr("text/plain"));
  EXPECT_EQ(get((*page)->address(), "/other").error().code, Code::kNotFound);
}

TEST(MetricsPage, ATakenPortIsRefusedByItsAddress) {
  const auto metrics = some_metrics();
  const auto page = MetricsPage::open("127.0.0.1:0", metrics);
  ASSERT_TRUE(page.ok()) << to_string(page.error());
  const auto second = MetricsPage::open((*page)->address(), metrics);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().field, "--metrics");
  EXPECT_THAT(second.error().message, HasSubstr((*page)->address()));
  EXPECT_FALSE(second.error().remedy.empty());
}

TEST(MetricsPage, AnAddressOfAnotherHostOrNoneIsRefused) {
  for (const char* bind : {"192.0.2.1:0", "9100", "127.0.0.1:", "127.0.0.1:99999", ""}) {
    const auto page = MetricsPage::open(bind, some_metrics());
    ASSERT_FALSE(page.ok()) << bind;
    EXPECT_EQ(page.error().field, "--metrics") << bind;
    EXPECT_FALSE(page.error().remedy.empty()) << bind;
  }
}

TEST(MetricsPage, ItsPortIsFreeAfterItsEnd) {
  const auto metrics = some_metrics();
  auto page = MetricsPage::open("127.0.0.1:0", metrics);
  ASSERT_TRUE(page.ok()) << to_string(page.error());
  const std::string address = (*page)->address();
  ASSERT_TRUE(get(address, "/metrics").ok());
  page->reset();
  EXPECT_FALSE(get(address, "/metrics").ok());
  EXPECT_TRUE(MetricsPage::open(address, metrics).ok());
}

}  // namespace
}  // namespace shoal::agent
