// Questions about logs over a real socket, with the test in the place of the agent.
#include "coordinator/service/log_query_broker.h"

#include <gtest/gtest.h>

#include "coordinator/service/service_test_util.h"
#include "proto/convert_logs.h"

namespace shoal::coordinator {
namespace {

const LogPage kPage{{{{5}, LogLevel::kError, "agent", ReplicaId(3), "no space left"}}};

class TestLogs {
 public:
  TestLogs(const std::shared_ptr<grpc::Channel>& channel, AgentId agent)
      : stub_(v1::LogService::NewStub(channel)) {
    TestAgent::prepare(context_);
    stream_ = stub_->Answer(&context_);
    v1::LogAnswer first;
    first.set_agent(agent.n);
    stream_->Write(first);
  }
  ~TestLogs() {
    context_.TryCancel();
    if (!finished_) (void)stream_->Finish();
  }
  v1::LogQuestion hear() {
    v1::LogQuestion question;
    EXPECT_TRUE(stream_->Read(&question));
    return question;
  }
  void say(std::uint64_t id, const Result<LogPage>& page) {
    stream_->Write(proto::to_wire(id, page));
  }
  grpc::Status finish() {
    v1::LogQuestion question;
    while (stream_->Read(&question)) {
    }
    finished_ = true;
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::LogService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LogAnswer, v1::LogQuestion>> stream_;
  bool finished_ = false;
};

class LogQueryBrokerTest : public ::testing::Test {
 protected:
  explicit LogQueryBrokerTest(AgentServiceOptions service = {})
      : coordinator_(folder_.path(), {}, std::move(service)) {}

  std::future<Result<LogPage>> ask(AgentId agent, const LogQuery& query = {}) {
    auto promise = std::make_shared<std::promise<Result<LogPage>>>();
    coordinator_.runtime().read_logs(
        agent, query, [promise](Result<LogPage> page) { promise->set_value(std::move(page)); });
    return promise->get_future();
  }
  // The first question arrives when the coordinator has heard who the stream is of.
  std::future<Result<LogPage>> ask_until_known(AgentId agent, const LogQuery& query = {}) {
    for (;;) {
      auto future = ask(agent, query);
      if (future.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
        return future;
      std::this_thread::yield();
    }
  }

  TemporaryFolder folder_;
  TestCoordinator coordinator_;
};

struct ImpatientLogQueryBrokerTest : LogQueryBrokerTest {
  ImpatientLogQueryBrokerTest() : LogQueryBrokerTest({.log_limit = std::chrono::seconds(1)}) {}
};

TEST_F(LogQueryBrokerTest, AQuestionReachesItsAgentAndItsAnswerComesBack) {
  TestLogs other(coordinator_.channel(), AgentId(1)), logs(coordinator_.channel(), AgentId(2));
  const LogQuery query{.limit = 7, .text = "space"};
  auto page = ask_until_known(AgentId(2), query);
  const v1::LogQuestion question = logs.hear();
  EXPECT_EQ(*proto::read(question), query);
  logs.say(question.id(), kPage);
  EXPECT_EQ(*page.get(), kPage);
}

TEST_F(LogQueryBrokerTest, AnAgentThatIsNotConnectedIsSaidAtOnce) {
  EXPECT_EQ(ask(AgentId(9)).get().error().code, Code::kUnavailable);
}

TEST_F(LogQueryBrokerTest, AStreamThatEndsAnswersWhatWaits) {
  auto logs = std::make_unique<TestLogs>(coordinator_.channel(), AgentId(2));
  auto page = ask_until_known(AgentId(2));
  (void)logs->hear();
  logs.reset();
  EXPECT_EQ(page.get().error().code, Code::kUnavailable);
}

TEST_F(LogQueryBrokerTest, AStreamThatEndsTakesNoOtherAlong) {
  auto gone = std::make_unique<TestLogs>(coordinator_.channel(), AgentId(1));
  TestLogs stays(coordinator_.channel(), AgentId(2));
  auto lost = ask_until_known(AgentId(1));
  auto kept = ask_until_known(AgentId(2));
  gone.reset();
  EXPECT_EQ(lost.get().error().code, Code::kUnavailable);
  EXPECT_EQ(ask(AgentId(1)).get().error().code, Code::kUnavailable);
  stays.say(stays.hear().id(), kPage);
  EXPECT_EQ(*kept.get(), kPage);
  auto next = ask(AgentId(2));
  stays.say(stays.hear().id(), kPage);
  EXPECT_EQ(*next.get(), kPage);
}

// The agent connected again; the end of its old stream comes late.
TEST_F(LogQueryBrokerTest, ANewerStreamTakesThePlaceOfTheOlder) {
  TestLogs older(coordinator_.channel(), AgentId(2));
  auto first = ask_until_known(AgentId(2));
  (void)older.hear();
  TestLogs newer(coordinator_.channel(), AgentId(2));
  EXPECT_EQ(older.finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(first.get().error().code, Code::kUnavailable);
  auto next = ask(AgentId(2));
  newer.say(newer.hear().id(), kPage);
  EXPECT_EQ(*next.get(), kPage);
}

TEST_F(LogQueryBrokerTest, StoppingEndsTheStreamsAndSaysWhy) {
  TestLogs logs(coordinator_.channel(), AgentId(2));
  auto page = ask_until_known(AgentId(2));
  coordinator_.agents().stop();
  const grpc::Status status = logs.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the coordinator is stopping");
  EXPECT_EQ(page.get().error().code, Code::kUnavailable);
}

TEST_F(ImpatientLogQueryBrokerTest, AnAgentThatIsSilentIsGivenUp) {
  TestLogs logs(coordinator_.channel(), AgentId(2));
  auto page = ask_until_known(AgentId(2));
  const v1::LogQuestion late = logs.hear();
  EXPECT_EQ(page.get().error().code, Code::kDeadlineExceeded);
  logs.say(late.id(), kPage);  // nobody waits for it; the next question is answered nevertheless
  auto next = ask(AgentId(2));
  logs.say(logs.hear().id(), LogPage{});
  EXPECT_EQ(*next.get(), LogPage{});
}

TEST_F(LogQueryBrokerTest, TooManyQuestionsAreRefused) {
  TestLogs logs(coordinator_.channel(), AgentId(2));
  std::vector<std::future<Result<LogPage>>> waiting;
  waiting.push_back(ask_until_known(AgentId(2)));
  while (waiting.size() < LogQueryBroker::kWaitingMax) waiting.push_back(ask(AgentId(2)));
  EXPECT_EQ(ask(AgentId(2)).get().error().code, Code::kResourceExhausted);
}

TEST_F(LogQueryBrokerTest, AnAnswerThatNobodyAskedForEndsTheStream) {
  TestLogs logs(coordinator_.channel(), AgentId(2));
  logs.say(77, kPage);
  EXPECT_EQ(logs.finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace shoal::coordinator
