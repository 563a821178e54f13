#include "agent/host/data_readers.h"

#include <chrono>

#include "agent/host/file_range.h"

namespace shoal::agent {
namespace {

// A chunk of 1 MiB passes at 20 kB/s; a manifest may be larger.
constexpr auto kFetchLimit = std::chrono::seconds(60);
constexpr double kBytesPerSecondMin = 20'000;

Error stopped() { return {Code::kUnavailable, "the agent is stopping", "", "ask again"}; }

std::chrono::system_clock::time_point deadline_of(const FileRange& range) {
  const auto more = std::chrono::seconds(
      static_cast<std::int64_t>(static_cast<double>(range.count) / kBytesPerSecondMin));
  return std::chrono::system_clock::now() + kFetchLimit + more;
}

// Whether another try makes sense: yes, unless the answer was a clear refusal.
Error as_error(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
      return {Code::kNotFound, status.error_message(), "", ""};
    case grpc::StatusCode::DATA_LOSS:
      return {Code::kDataLoss, status.error_message(), "",
              "`shoal dataset verify` tells what is damaged"};
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNIMPLEMENTED:
      return {Code::kIncompatible, status.error_message(), "", "run the same version on all hosts"};
    default:
      return {Code::kUnavailable, "not fetched from the coordinator: " + status.error_message(), "",
              "it is tried again"};
  }
}

}  // namespace

DataReaders::DataReaders(DataCache& cache, CoordinatorEndpoint coordinator,
                         const objects::Reach& reach, std::function<void(Bytes)> fetched)
    : coordinator_(std::move(coordinator)),
      fetched_(std::move(fetched)),
      urls_(reach, [this](const FileRange& range) { return sign(range); }),
      source_(cache, [this](const FileRange& range) { return fetch(range); }) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
}

DataReaders::~DataReaders() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void DataReaders::read(ReplicaId replica, std::string manifest, std::int64_t shard,
                       std::int64_t chunk, Done done) {
  {
    const MutexLock guard(mutex_);
    if (!stopping_ && questions_.size() < kWaitingMax) {
      questions_.push_back({replica, std::move(manifest), shard, chunk, std::move(done)});
      done = nullptr;
    }
  }
  if (done) return done(Error{Code::kUnavailable, "too many chunks wait to be read", "", ""});
  arrived_.notify_one();
}

void DataReaders::stop() {
  std::deque<Question> left;
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
    left.swap(questions_);
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }
  urls_.stop();
  arrived_.notify_all();
  for (Question& question : left) question.done(stopped());
}

void DataReaders::run() {
  for (;;) {
    Question question;
    {
      const MutexLock guard(mutex_);
      arrived_.wait(mutex_,
                    [&]() SHOAL_REQUIRES(mutex_) { return stopping_ || !questions_.empty(); });
      if (questions_.empty()) return;
      question = std::move(questions_.front());
      questions_.pop_front();
    }
    question.done(
        source_.read(question.replica, question.manifest, question.shard, question.chunk));
  }
}

std::shared_ptr<grpc::Channel> DataReaders::channel() {
  const MutexLock guard(mutex_);
  if (!channel_) channel_ = open_channel(coordinator_);
  return channel_;
}

bool DataReaders::enter(grpc::ClientContext* call) {
  const MutexLock guard(mutex_);
  if (!stopping_) calls_.insert(call);
  return !stopping_;
}

// After a failure with new credentials: those of before may have ended.
void DataReaders::leave(grpc::ClientContext* call, bool worked) {
  const MutexLock guard(mutex_);
  calls_.erase(call);
  if (!worked) channel_.reset();
}

Result<SignedUrl> DataReaders::sign(const FileRange& range) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kFetchLimit);
  if (!enter(&context)) return stopped();
  SignedUrl made;
  const grpc::Status status = read_url(channel(), context, range, made);
  leave(&context, status.ok());
  if (!status.ok()) return as_error(status);
  return made;
}

Result<std::string> DataReaders::fetch(const FileRange& range) {
  auto content = range.url.empty() ? fetch_from_coordinator(range) : urls_.read(range);
  if (content.ok() && fetched_) fetched_(Bytes(static_cast<std::int64_t>(content->size())));
  return content;
}

Result<std::string> DataReaders::fetch_from_coordinator(const FileRange& range) {
  grpc::ClientContext context;
  context.set_deadline(deadline_of(range));
  if (!enter(&context)) return stopped();
  std::string content;
  const grpc::Status status = read_range(channel(), context, range, content);
  leave(&context, status.ok());
  if (!status.ok()) return as_error(status);
  return content;
}

}  // namespace shoal::agent
