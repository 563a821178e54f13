#include "agent/host/checkpoint_worker.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/host/checkpoint_files.h"
#include "agent/host/part_transfer.h"
#include "base/transfer_patience.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "threads/clock.h"
#include "threads/sleep.h"
#include "transfer/file_receiver.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLookEvery = seconds(1);
constexpr Duration kConnect = seconds(5);  // to the object store

std::string partial(const std::string& folder) { return folder + ".part"; }

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

// All but the newest of what was fetched in part goes; `folder` is about to be fetched.
void keep_the_newest(const std::string& folder, std::size_t most) {
  std::vector<std::pair<fs::file_time_type, std::string>> kept;
  std::error_code failure;
  const fs::path all = fs::path(folder).parent_path().parent_path();
  for (const auto& job : fs::directory_iterator(all, failure)) {
    for (const auto& entry : fs::directory_iterator(job.path(), failure)) {
      const bool part = entry.path().extension() == ".part" && entry.path() != partial(folder);
      if (part) kept.emplace_back(entry.last_write_time(failure), entry.path().string());
    }
  }
  std::sort(kept.rbegin(), kept.rend());
  for (std::size_t i = most; i < kept.size(); ++i) (void)FileReceiver::discard(kept[i].second);
}

// The stored file does not match its record, so sending it again would bring the same bytes.
Error as_fetched(Error error) {
  if (error.code != Code::kDataLoss) return error;
  error.message = "the file received differs from the stored one: " + error.message;
  error.remedy = "restore the file on the coordinator from a backup, or use another checkpoint";
  return error;
}

// Receives what the reader brings, behind what is there.
Status receive(grpc::ClientReader<v1::CheckpointUpload>& reader, FileReceiver& receiver,
               const std::function<void()>& moved) {
  auto synced_at = std::chrono::steady_clock::now();
  for (v1::CheckpointUpload message; reader.Read(&message); moved()) {
    const std::string& data = message.chunk().data();
    if (Status s = receiver.write(std::as_bytes(std::span(data))); !s.ok())
      return as_fetched(s.error());
    if (std::chrono::steady_clock::now() - synced_at < std::chrono::nanoseconds(kLookEvery.ns))
      continue;
    if (Status s = receiver.sync(); !s.ok()) return s;
    synced_at = std::chrono::steady_clock::now();
  }
  return {};
}

}  // namespace

// ---- one thread and its queue

CheckpointWorker::Lane::~Lane() {
  stop();
  thread_.join();
}

void CheckpointWorker::Lane::enqueue(std::shared_ptr<Job> job) {
  {
    const MutexLock guard(mutex_);
    jobs_.push_back(std::move(job));  // bounded by the core: one per checkpoint and kind
  }
  changed_.notify_all();
}

void CheckpointWorker::Lane::cancel(const std::string& folder) {
  const MutexLock guard(mutex_);
  if (running_ != nullptr && running_->folder == folder) running_->cancel();
  for (const auto& job : jobs_) {
    if (job->folder == folder) job->cancel();
  }
}

std::shared_ptr<CheckpointWorker::Job> CheckpointWorker::Lane::running() {
  const MutexLock guard(mutex_);
  return running_;
}

void CheckpointWorker::Lane::stop() {
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
    jobs_.clear();
    if (running_ != nullptr) running_->cancel();
  }
  changed_.notify_all();
}

void CheckpointWorker::Lane::run() {
  const MutexLock guard(mutex_);
  for (;;) {
    changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    running_ = std::move(jobs_.front());
    jobs_.pop_front();
    const auto job = running_;
    {
      const MutexUnlock meanwhile(mutex_);
      if (job->how_far) post_(job->how_far(Bytes(), Bytes()));
      job->work(*job);
    }
    running_.reset();
  }
}

// ---- all of them

CheckpointWorker::CheckpointWorker(CoordinatorEndpoint endpoint, Duration silence, Post post,
                                   std::optional<ProgramUser> reader, std::string proxy)
    : endpoint_(std::move(endpoint)),
      silence_(silence),
      post_(std::move(post)),
      reader_(std::move(reader)),
      proxy_(std::move(proxy)),
      watcher_([this](const std::stop_token& stop) { watch(stop); }) {}

CheckpointWorker::~CheckpointWorker() {
  fetches_.stop();
  uploads_.stop();
}

std::string CheckpointWorker::works_on() {
  std::string text;
  for (Lane* lane : {&fetches_, &uploads_}) {
    const auto job = lane->running();
    if (job != nullptr) text += (text.empty() ? "" : " and ") + job->folder;
  }
  return text.empty() ? "no checkpoint" : text;
}

void CheckpointWorker::watch(const std::stop_token& stop) {
  while (sleep_unless_stopped(kLookEvery, stop)) {
    for (Lane* lane : {&fetches_, &uploads_}) {
      if (const auto job = lane->running(); job != nullptr && job->how_far) look_at(*job);
    }
  }
}

void CheckpointWorker::look_at(Job& job) {
  const auto moved_at = job.moved_at.load();
  if (moved_at == Clock::time_point::max()) return;
  const std::int64_t done = job.done;
  if (done != std::exchange(job.said, done)) post_(job.how_far(Bytes(done), Bytes(job.total)));
  const auto limit = std::chrono::nanoseconds(stall_for(silence_, Bytes(job.total)).ns);
  if (Clock::now() - moved_at < limit || job.stalled.exchange(true)) return;
  job.break_off();
}

Status CheckpointWorker::ended(const Job& job, const grpc::Status& status) const {
  if (job.stalled && !status.ok()) {
    return Error{Code::kDeadlineExceeded,
                 "nothing moved after " + std::to_string(job.done) + " of " +
                     std::to_string(job.total) + " bytes",
                 "", "it continues there"};
  }
  return status.ok() ? Status() : Status(error_of(status, endpoint_.address));
}

void CheckpointWorker::learn_reach(const Job& job, const Status& ended, bool direct, bool moved) {
  if (ended.ok()) return;
  const StoreReach::Transfer transfer{.direct = direct,
                                      .moved = moved,
                                      .stalled = job.stalled.load(),
                                      .failure = ended.error().code};
  if (!reach_.learn(transfer, steady_now())) return;
  spdlog::warn(
      "does not reach the object store of checkpoints: {}; the coordinator carries the files of "
      "this host meanwhile. Let it reach the endpoint of --checkpoint-store, which is faster",
      to_string(ended.error()));
}

// The coordinator says where to send files: what it names is reached, in whatever network it is.
std::shared_ptr<CheckpointWorker::Job> CheckpointWorker::make_job(const std::string& folder) const {
  auto job = std::make_shared<Job>(objects::ClientOptions{
      .reach = {.clear_allowed = true, .private_allowed = true, .proxy = proxy_},
      .patience = {.connect = kConnect, .silence = silence_, .tries = 3},
      .user_agent = "shoal-agent"});
  job->folder = folder;
  return job;
}

void CheckpointWorker::fetch(const FetchCheckpoint& effect) {
  auto job = make_job(effect.folder);
  job->how_far = [part = effect.part](Bytes done, Bytes total) {
    return CheckpointFetchMoved{part, done, total};
  };
  job->work = [this, part = effect.part](Job& self) {
    const Status fetched = do_fetch(self, part);
    post_(CheckpointFetchMoved{part, Bytes(self.done), Bytes(self.total)});
    post_(fetched.ok() ? Input(CheckpointFetched{part})
                       : Input(CheckpointFetchFailed{part, fetched.error()}));
  };
  fetches_.enqueue(std::move(job));
}

void CheckpointWorker::hash(const HashCheckpoint& effect) {
  auto job = make_job(effect.folder);
  job->work = [this, effect](Job& self) {
    auto files = check_written(self.folder, effect.reported, self.cancelled);
    post_(files.ok() ? Input(CheckpointHashed{effect.part, std::move(files).value()})
                     : Input(CheckpointHashFailed{effect.part, files.error()}));
  };
  uploads_.enqueue(std::move(job));
}

void CheckpointWorker::upload(const UploadCheckpoint& effect) {
  auto job = make_job(effect.folder);
  job->how_far = [part = effect.part](Bytes done, Bytes) {
    return CheckpointUploadMoved{part, done};
  };
  job->work = [this, effect](Job& self) {
    const Status sent = do_upload(self, effect);
    // Posts the last progress, even if the line broke right after it.
    post_(CheckpointUploadMoved{effect.part, Bytes(self.done)});
    post_(sent.ok() ? Input(CheckpointUploadDone{effect.part})
                    : Input(CheckpointUploadFailed{effect.part, sent.error()}));
  };
  uploads_.enqueue(std::move(job));
}

// Runs behind the cancelled job, so that nothing writes into the folder any more.
void CheckpointWorker::remove(const DeleteCheckpointFolder& effect) {
  const fs::path owner = fs::path(effect.folder).parent_path();  // the job's or the replica's
  const bool fetched = owner.parent_path().filename() == kFetchedFolder;
  auto job = make_job(effect.folder);
  job->work = [fetched](Job& self) {  // what is left goes at the next start
    (void)FileReceiver::discard(self.folder);
    if (fetched) keep_the_newest(self.folder, kKeptMax);
  };
  Lane& lane = fetched ? fetches_ : uploads_;
  lane.cancel(effect.folder);
  lane.enqueue(std::move(job));
}

Status CheckpointWorker::do_fetch(Job& job, CheckpointPartId part) {
  if (job.cancelled) return Error{Code::kCancelled, "no longer wanted", "", ""};
  std::error_code failure;
  fs::create_directories(fs::path(job.folder).parent_path(), failure);
  if (failure) return disk_error("create the folder of", job.folder, failure.value());
  keep_the_newest(job.folder, kKeptMax - 1);
  const std::string folder = partial(job.folder);
  if (Status s = FileReceiver::take_back(job.folder, folder); !s.ok()) return s;
  v1::GetCheckpointRequest request;
  request.set_checkpoint(part.checkpoint.n);
  request.set_stage(part.stage);
  request.set_parts(part.parts);
  request.set_takes_requests(reach_.is_direct(steady_now()));
  std::unique_ptr<FileReceiver> receiver;
  if (auto known = FileReceiver::reopen(folder)) {
    receiver = std::move(*known);
    request.set_from(receiver->received().count());
    request.set_list(list_digest(receiver->files()));
  }
  const auto stub = v1::AgentService::NewStub(open_channel(endpoint_));
  job.is_at(receiver ? receiver->received() : Bytes());
  const auto reader = stub->GetCheckpoint(&job.context, request);
  v1::CheckpointUpload message;
  if (!reader->Read(&message)) {
    const Status status = ended(job, reader->Finish());
    return status.ok() ? Status(Error{Code::kDataLoss, "the coordinator sent no files", "", ""})
                       : status;
  }
  auto received = [&]() -> Status {
    auto files = read_header(message);
    if (!files.ok()) return files.error();
    job.total = total_size(*files).count();
    if (receiver == nullptr || receiver->files() != *files) {
      receiver.reset();
      auto opened = FileReceiver::open(folder, std::move(*files));
      if (!opened.ok()) return opened.error();
      receiver = std::move(*opened);
    }
    if (receiver->received() != Bytes(message.header().from())) {
      return Error{Code::kDataLoss, "the coordinator sent the files from another position", "", ""};
    }
    return get_files(job, message.header().by_requests(), *reader, *receiver);
  }();
  if (!received.ok()) job.context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!received.ok()) return received;
  if (!status.ok()) return ended(job, status);
  if (Status s = receiver->finish(job.folder); !s.ok() || !reader_) return s;
  return let_read(job.folder, *reader_);
}

// What follows the header: requests to the store, or the files themselves.
Status CheckpointWorker::get_files(Job& job, bool direct,
                                   grpc::ClientReader<v1::CheckpointUpload>& reader,
                                   FileReceiver& receiver) {
  const Bytes before = receiver.received();
  const auto moved = [&] { job.is_at(receiver.received()); };
  Status got;
  if (direct) {
    const auto requests = read_requests(reader, receiver);
    if (!requests.ok()) return requests.error();  // which says nothing about the store
    got = get_parts(job.store, *requests, receiver, moved);
  } else {
    got = receive(reader, receiver, moved);
  }
  learn_reach(job, got, direct, receiver.received() != before);
  return got;
}

Status CheckpointWorker::do_upload(Job& job, const UploadCheckpoint& effect) {
  if (job.cancelled) return Error{Code::kCancelled, "no longer wanted", "", ""};
  const auto stub = v1::AgentService::NewStub(open_channel(endpoint_));
  job.total = total_size(effect.files).count();
  job.moved_at = Clock::now();
  const auto stream = stub->PutCheckpoint(&job.context);
  v1::CheckpointUpload message;
  message.mutable_header()->set_checkpoint(effect.part.checkpoint.n);
  message.mutable_header()->set_takes_requests(reach_.is_direct(steady_now()));
  for (const FileEntry& file : effect.files)
    *message.mutable_header()->add_files() = proto::to_wire(file);
  v1::CheckpointReceived answer;
  if (!stream->Write(message) || !stream->Read(&answer)) return ended(job, stream->Finish());
  job.is_at(Bytes(answer.bytes()));
  if (answer.requests_size() > 0) {
    bool moved = false;
    const auto moves = [&] {
      moved = true;
      job.moves();
    };
    const auto stored = [&](Bytes now) {
      moved = true;
      job.is_at(now);
    };
    const Status put = put_parts(job.store, effect.folder, effect.files, *stream, answer,
                                 {.stored = stored, .moves = moves});
    learn_reach(job, put, true, moved);
    if (!put.ok()) job.context.TryCancel();
    const grpc::Status status = stream->Finish();
    const bool stalled = job.stalled && !status.ok();
    return put.ok() || stalled ? ended(job, status) : put;
  }
  const Bytes from(answer.bytes());
  std::thread answers([&] {
    while (stream->Read(&answer)) job.is_at(Bytes(answer.bytes()));
  });
  OutgoingFiles files(effect.folder, effect.files);
  const Status sent = files.read_all(from, [&](std::span<const std::byte> piece) {
    message.mutable_chunk()->set_data(piece.data(), piece.size());
    return stream->Write(message);
  });
  const bool local_failure = !sent.ok() && sent.error().code == Code::kDataLoss;
  if (local_failure) job.context.TryCancel();
  stream->WritesDone();
  answers.join();
  const grpc::Status status = stream->Finish();
  learn_reach(job, ended(job, status), false, Bytes(job.done) != from);
  // The coordinator may end early with success: it already has the files.
  return local_failure ? sent : ended(job, status);
}

}  // namespace shoal::agent
