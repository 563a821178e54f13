#include "coordinator/service/otlp/exporter.h"

#include <gmock/gmock.h>

#include "cli/server_test_util.h"

namespace shoal::coordinator::otlp {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A collector that answers with `status_`, and keeps what it was sent.
class ExporterTest : public ::testing::Test {
 protected:
  std::string answer(const std::string& request) {
    const MutexLock lock(mutex_);
    requests_.push_back(request);
    return cli::http_answer(status_, "{}");
  }
  void answer_with(int status) {
    const MutexLock lock(mutex_);
    status_ = status;
  }
  std::string of(const std::string& path) {
    const MutexLock lock(mutex_);
    for (const std::string& request : requests_)
      if (request.starts_with("POST " + path)) return request;
    return {};
  }
  std::unique_ptr<Exporter> start() {
    return std::make_unique<Exporter>(ExporterOptions{
        .url = server_.address() + "/",
        .resource = {"1", "i", "h"},
        .every = milliseconds(5),
        .collect = []() -> Result<std::vector<prometheus::MetricFamily>> {
          prometheus::MetricFamily family{"shoal_x", "", prometheus::MetricType::Gauge, {}};
          family.metric.resize(1);
          return std::vector{family};
        },
        .meters = meters_});
  }
  const OutsideMeters& counted() const { return meters_->outside; }
  template <typename Done>
  static bool comes(Done done) {
    for (int i = 0; i < 1000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  }
  static std::vector<Span> spans(std::size_t count) {
    return std::vector<Span>(count, Span{.trace = {1, 1}, .id = 2, .name = "round"});
  }

  const std::shared_ptr<Meters> meters_ = std::make_shared<Meters>();
  Mutex mutex_;
  int status_ SHOAL_GUARDED_BY(mutex_) = 200;
  std::vector<std::string> requests_ SHOAL_GUARDED_BY(mutex_);
  cli::ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(ExporterTest, MetricsAndSpansArrive) {
  const auto exporter = start();
  exporter->add(spans(1));
  ASSERT_TRUE(comes([&] { return counted().spans_sent.Value() == 1; }));
  ASSERT_TRUE(comes([&] { return counted().metrics_sent.Value() > 0; }));
  EXPECT_THAT(of("/v1/traces"), HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(of("/v1/traces"), HasSubstr(R"("name":"round")"));
  EXPECT_THAT(of("/v1/metrics"), HasSubstr(R"("name":"shoal_x")"));
}

TEST_F(ExporterTest, SpansWaitForACollectorThatIsAwayAndMetricsDoNot) {
  answer_with(503);
  const auto exporter = start();
  exporter->add(spans(1'000));
  ASSERT_TRUE(comes([&] { return counted().metrics_dropped.Value() > 1; }));
  EXPECT_EQ(counted().spans_dropped.Value(), 0);
  exporter->add(spans(Exporter::kSpansMax));
  EXPECT_EQ(counted().spans_dropped.Value(), 1'000) << "the queue is bounded";
  answer_with(200);
  ASSERT_TRUE(comes([&] { return counted().spans_sent.Value() == Exporter::kSpansMax; }));
}

TEST_F(ExporterTest, WhatIsRefusedIsDroppedAndWhatWaitsIsSentAtTheEnd) {
  answer_with(400);
  auto exporter = start();
  exporter->add(spans(3));
  ASSERT_TRUE(comes([&] { return counted().spans_dropped.Value() == 3; }));
  answer_with(200);
  exporter->add(spans(1));
  exporter.reset();
  const MutexLock lock(mutex_);
  EXPECT_TRUE(std::ranges::any_of(requests_, [](const std::string& request) {
    return request.starts_with("POST /v1/traces");
  }));
}

}  // namespace
}  // namespace shoal::coordinator::otlp
