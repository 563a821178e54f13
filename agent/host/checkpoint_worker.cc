#include "agent/host/checkpoint_worker.h"

#include <chrono>
#include <filesystem>

#include "agent/host/checkpoint_files.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"

namespace shoal::agent {
namespace {

constexpr auto kTransferLimit = std::chrono::minutes(30);

void prepare(grpc::ClientContext& context, const std::string& token) {
  add_token(context, token);
  context.set_deadline(std::chrono::system_clock::now() + kTransferLimit);
}

Result<std::vector<FileEntry>> read_header(const v1::CheckpointUpload& message) {
  std::vector<FileEntry> files;
  if (!message.has_header())
    return Error{Code::kInvalidArgument, "the header is missing", "header", ""};
  for (const auto& wire : message.header().files()) {
    auto entry = proto::read(wire);
    if (!entry.ok()) return entry.error();
    files.push_back(std::move(entry).value());
  }
  return files;
}

}  // namespace

CheckpointWorker::CheckpointWorker(CoordinatorEndpoint endpoint, Post post)
    : endpoint_(std::move(endpoint)), post_(std::move(post)) {
  fetches_.thread = std::thread([this] { run(fetches_); });
  uploads_.thread = std::thread([this] { run(uploads_); });
}

CheckpointWorker::~CheckpointWorker() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    for (Lane* lane : {&fetches_, &uploads_}) {
      lane->jobs.clear();
      if (lane->running != nullptr) cancel(*lane, lane->running->folder);
    }
  }
  changed_.notify_all();
  fetches_.thread.join();
  uploads_.thread.join();
}

void CheckpointWorker::enqueue(Lane& lane, std::string folder, std::function<void(Job&)> work) {
  auto job = std::make_shared<Job>();
  job->folder = std::move(folder);
  job->work = std::move(work);
  {
    const std::lock_guard guard(mutex_);
    lane.jobs.push_back(std::move(job));  // bounded by the core: one per checkpoint and kind
  }
  changed_.notify_all();
}

void CheckpointWorker::run(Lane& lane) {
  std::unique_lock guard(mutex_);
  for (;;) {
    changed_.wait(guard, [&] { return stopping_ || !lane.jobs.empty(); });
    if (stopping_) return;
    lane.running = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    const auto job = lane.running;
    guard.unlock();
    job->work(*job);
    guard.lock();
    lane.running.reset();
  }
}

// With the lock.
void CheckpointWorker::cancel(Lane& lane, const std::string& folder) {
  const auto stop = [&](Job& job) {
    if (job.folder != folder) return;
    job.cancelled = true;
    job.context.TryCancel();
  };
  if (lane.running != nullptr) stop(*lane.running);
  for (const auto& job : lane.jobs) stop(*job);
}

void CheckpointWorker::fetch(const FetchCheckpoint& effect) {
  enqueue(fetches_, effect.folder, [this, part = effect.part](Job& job) {
    const Status fetched = do_fetch(job, part);
    post_(fetched.ok() ? Input(CheckpointFetched{part})
                       : Input(CheckpointFetchFailed{part, fetched.error()}));
  });
}

void CheckpointWorker::hash(const HashCheckpoint& effect) {
  enqueue(uploads_, effect.folder, [this, part = effect.part](Job& job) {
    auto files = hash_folder(job.folder, job.cancelled);
    post_(files.ok() ? Input(CheckpointHashed{part, std::move(files).value()})
                     : Input(CheckpointHashFailed{part, files.error()}));
  });
}

void CheckpointWorker::upload(const UploadCheckpoint& effect) {
  enqueue(uploads_, effect.folder, [this, effect](Job& job) {
    const Status sent = do_upload(job, effect);
    post_(sent.ok() ? Input(CheckpointUploadDone{effect.part})
                    : Input(CheckpointUploadFailed{effect.part, sent.error()}));
  });
}

// Behind the job that is broken off, so that nothing writes into the folder any more.
void CheckpointWorker::remove(const DeleteCheckpointFolder& effect) {
  const auto erase = [](Job& job) {
    std::error_code ignored;  // what is left goes at the next start
    std::filesystem::remove_all(job.folder, ignored);
  };
  const auto kind = std::filesystem::path(effect.folder).parent_path().filename();
  Lane& lane = kind == kFetchedFolder ? fetches_ : uploads_;
  {
    const std::lock_guard guard(mutex_);
    cancel(lane, effect.folder);
  }
  enqueue(lane, effect.folder, erase);
}

Status CheckpointWorker::do_fetch(Job& job, CheckpointPartId part) {
  if (job.cancelled) return Error{Code::kCancelled, "no longer wanted", "", ""};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(job.folder).parent_path(), error);
  if (error)
    return Error{Code::kUnavailable, "cannot create " + job.folder + ": " + error.message(), "",
                 ""};
  const auto stub = v1::AgentService::NewStub(open_channel(endpoint_));
  prepare(job.context, endpoint_.token);
  v1::GetCheckpointRequest request;
  request.set_checkpoint(part.checkpoint.n);
  request.set_stage(part.stage);
  const auto reader = stub->GetCheckpoint(&job.context, request);
  bool ended = false;  // by the coordinator, whose status then tells why
  const auto receive = [&]() -> Status {
    v1::CheckpointUpload message;
    ended = !reader->Read(&message);
    if (ended) return Error{Code::kDataLoss, "the coordinator sent no files", "", ""};
    auto files = read_header(message);
    if (!files.ok()) return files.error();
    FolderReceiver receiver(job.folder, std::move(files).value());
    while (reader->Read(&message)) {
      if (Status written = receiver.write(message.chunk().data()); !written.ok()) return written;
    }
    ended = true;
    return receiver.finish();
  };
  const Status received = receive();
  if (!ended) job.context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!ended) return received;
  return status.ok() ? received : Status(error_of(status, endpoint_.address));
}

Status CheckpointWorker::do_upload(Job& job, const UploadCheckpoint& effect) {
  if (job.cancelled) return Error{Code::kCancelled, "no longer wanted", "", ""};
  const auto stub = v1::AgentService::NewStub(open_channel(endpoint_));
  prepare(job.context, endpoint_.token);
  v1::CheckpointUploadResult result;
  const auto writer = stub->PutCheckpoint(&job.context, &result);
  v1::CheckpointUpload message;
  message.mutable_header()->set_checkpoint(effect.part.checkpoint.n);
  for (const FileEntry& file : effect.files)
    *message.mutable_header()->add_files() = proto::to_wire(file);
  Status sent;
  if (writer->Write(message)) {
    sent = read_files(effect.folder, effect.files, [&](std::string_view piece) {
      message.mutable_chunk()->set_data(piece.data(), piece.size());
      return writer->Write(message);
    });
  }
  const bool local_failure = !sent.ok() && sent.error().code == Code::kDataLoss;
  if (local_failure) job.context.TryCancel();
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (local_failure) return sent;
  // The coordinator may end early with success: it already has the files.
  return status.ok() ? Status() : Status(error_of(status, endpoint_.address));
}

}  // namespace shoal::agent
