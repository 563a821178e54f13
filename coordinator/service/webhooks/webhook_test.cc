#include "coordinator/service/webhooks/webhook.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "cli/server_test_util.h"
#include "coordinator/service/http/cluster_test_util.h"
#include "coordinator/service/webhooks/signature.h"

namespace shoal::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string header(const std::string& request, const std::string& name) {
  const auto at = request.find(name + ": ");
  if (at == std::string::npos) return {};
  const auto begin = at + name.size() + 2;
  return request.substr(begin, request.find("\r\n", begin) - begin);
}

// A receiver that takes what `status_` says, and remembers what it took.
class WebhookTest : public ::testing::Test {
 protected:
  WebhookTest() { std::filesystem::create_directories(folder_); }
  ~WebhookTest() override { std::filesystem::remove_all(folder_); }

  std::string answer(const std::string& request) {
    const MutexLock lock(mutex_);
    requests_.push_back(request);
    if (status_ == 204) taken_.push_back(header(request, "webhook-id"));
    return cli::http_answer(status_, "");
  }
  void answer_with(int status) {
    const MutexLock lock(mutex_);
    status_ = status;
  }
  std::vector<std::string> taken() {
    const MutexLock lock(mutex_);
    return taken_;
  }
  std::string last_request() {
    const MutexLock lock(mutex_);
    return requests_.empty() ? "" : requests_.back();
  }

  WebhookOptions options() {
    return {.url = server_.address() + "/hook",
            .secret_file = folder_ + "/webhook.secret",
            .position_file = folder_ + "/webhook.position",
            .to_json = [](const EventRecord& event) { return std::to_string(event.seq); },
            .pause_first = milliseconds(1),
            .pause_max = milliseconds(5),
            .meters = meters_};
  }
  double failures() const { return meters_->outside.webhook_failures.Value(); }
  std::unique_ptr<Webhook> start(const WebhookOptions& options) {
    auto started = Webhook::start(options, cluster_.store().reader());
    EXPECT_TRUE(started.ok());
    return std::move(*started);
  }
  void warn(const std::string& kind) { cluster_.add_event(kind, {}, "x", Severity::kWarning); }

  template <typename Done>
  static bool comes(Done done) {
    for (int i = 0; i < 1000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  }

  std::string folder_ = ::testing::TempDir() + "/webhook_test." + std::to_string(::getpid());
  Mutex mutex_;
  int status_ SHOAL_GUARDED_BY(mutex_) = 204;
  std::vector<std::string> requests_ SHOAL_GUARDED_BY(mutex_), taken_ SHOAL_GUARDED_BY(mutex_);
  const std::shared_ptr<Meters> meters_ = std::make_shared<Meters>();
  testing::MemoryCluster cluster_;
  cli::ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(WebhookTest, EventsOfTheSeverityComeInOrderAndAreSigned) {
  warn("before");
  const auto webhook = start(options());
  warn("one");
  cluster_.add_event("harmless", {}, "x", Severity::kInfo);
  warn("two");
  webhook->wake();
  ASSERT_TRUE(comes([&] { return taken().size() == 2; }));
  EXPECT_THAT(taken(), ElementsAre("evt_2", "evt_4")) << "from its first start on, warnings only";
  const std::string request = last_request(), body = request.substr(request.find("\r\n\r\n") + 4);
  EXPECT_EQ(body, R"({"type":"two","data":4})");
  std::string secret;
  std::ifstream(options().secret_file) >> secret;
  EXPECT_EQ(header(request, "webhook-signature"),
            sign_webhook(*read_webhook_secret(secret), "evt_4",
                         std::stoll(header(request, "webhook-timestamp")), body));
}

TEST_F(WebhookTest, WhatIsNotTakenIsSentAgainAlsoAfterARestart) {
  auto webhook = start(options());
  warn("one");
  webhook->wake();
  ASSERT_TRUE(comes([&] { return taken().size() == 1; }));
  ASSERT_TRUE(comes([&] { return std::filesystem::exists(options().position_file); }));
  answer_with(503);
  warn("two");
  webhook->wake();
  ASSERT_TRUE(comes([&] { return failures() >= 3; }));
  webhook.reset();
  warn("three");  // while it was down
  answer_with(204);
  webhook = start(options());
  ASSERT_TRUE(comes([&] { return taken().size() == 3; }));
  EXPECT_THAT(taken(), ElementsAre("evt_1", "evt_2", "evt_3"));
}

TEST_F(WebhookTest, ARedirectIsNotFollowed) {
  answer_with(302);
  const auto webhook = start(options());
  warn("one");
  webhook->wake();
  ASSERT_TRUE(comes([&] { return failures() >= 2; }));
  EXPECT_THAT(last_request(), ::testing::StartsWith("POST /hook HTTP/1.1\r\n"));
}

TEST_F(WebhookTest, WhatIsNeverTakenIsDroppedAndCounted) {
  answer_with(400);
  WebhookOptions impatient = options();
  impatient.drop_after = milliseconds(30);
  const auto webhook = start(impatient);
  warn("one");
  webhook->wake();
  ASSERT_TRUE(comes([&] { return meters_->outside.webhook_dropped.Value() == 1; }));
  answer_with(204);
  warn("two");
  webhook->wake();
  ASSERT_TRUE(comes([&] { return taken().size() == 1; }));
  EXPECT_THAT(taken(), ElementsAre("evt_2"));
}

TEST_F(WebhookTest, ADamagedFileIsNamed) {
  std::ofstream(options().position_file) << "seven\n";
  std::filesystem::permissions(options().position_file, std::filesystem::perms::owner_read);
  const auto refused = Webhook::start(options(), cluster_.store().reader());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, options().position_file);
}

}  // namespace
}  // namespace shoal::coordinator
