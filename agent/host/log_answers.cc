#include "agent/host/log_answers.h"

#include <spdlog/spdlog.h>

#include "proto/convert_logs.h"
#include "proto/logs.grpc.pb.h"
#include "proto/outsize.h"

namespace shoal::agent {
namespace {

Result<LogPage> answer(const v1::LogQuestion& question, const Journal& journal) {
  auto query = proto::read(question);
  if (!query.ok()) return query.error();
  return journal.read(query.value());
}

}  // namespace

LogAnswers::LogAnswers(std::shared_ptr<grpc::Channel> channel, AgentId agent,
                       const Journal& journal)
    : channel_(std::move(channel)) {
  thread_ = std::thread([this, agent, &journal] { run(agent, journal); });
}

LogAnswers::~LogAnswers() {
  context_.TryCancel();
  thread_.join();
}

// An older coordinator does not know the call: it ends at once, and nobody asks.
void LogAnswers::run(AgentId agent, const Journal& journal) {
  const auto stub = v1::LogService::NewStub(channel_);
  const auto stream = stub->Answer(&context_);
  v1::LogAnswer first;
  first.set_agent(agent.n);
  v1::LogQuestion question;
  bool open = stream->Write(first);
  while (open && stream->Read(&question)) {
    v1::LogAnswer lines = proto::to_wire(question.id(), answer(question, journal));
    if (const auto dropped = proto::outsize(lines, proto::kToCoordinatorBytesMax)) {
      spdlog::error("drops lines of the log: {}", *dropped);
      const Error error{Code::kResourceExhausted, "the lines are too long: " + *dropped, "", ""};
      lines = proto::to_wire(question.id(), error);
    }
    open = stream->Write(lines);
  }
  context_.TryCancel();
  (void)stream->Finish();  // why it ended, the session tells
}

}  // namespace shoal::agent
