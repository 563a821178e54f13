#include "coordinator/service/file_transfer.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "coordinator/service/agent_session.h"
#include "job/data_rules.h"
#include "proto/convert.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

constexpr std::size_t kJobsKept = 256;

Error not_found(const std::string& sha256) {
  return {Code::kNotFound, "no job of this replica refers to a file " + sha256, "sha256", ""};
}

// Closes with its scope.
struct OpenFile {
  explicit OpenFile(const std::string& path)
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {}
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const int fd;
};

}  // namespace

bool FileTransfer::admit(grpc::ServerContext* context, AgentId caller) {
  const MutexLock guard(mutex_);
  const auto of_caller = std::ranges::count_if(
      calls_, [&](const auto& call) { return caller && call.second.caller == caller; });
  if (calls_.size() >= kCallsMax || of_caller >= static_cast<std::ptrdiff_t>(kCallsPerAgent)) {
    return false;
  }
  calls_.emplace(context, Call{caller, Clock::now()});
  return true;
}

void FileTransfer::moved(grpc::ServerContext* context) {
  const MutexLock guard(mutex_);
  calls_.at(context).moved = Clock::now();
}

void FileTransfer::end(grpc::ServerContext* context) {
  const MutexLock guard(mutex_);
  calls_.erase(context);
}

void FileTransfer::watch() {
  const auto silent_since = Clock::now() - silence_;
  const MutexLock guard(mutex_);
  for (const auto& [context, call] : calls_) {
    if (call.moved < silent_since) context->TryCancel();
  }
}

// A spec never changes, nor does a manifest: what a job refers to is looked up once.
Result<bool> FileTransfer::refers_to(JobId job, const std::string& sha256) {
  std::optional<JobRecord> record;
  {
    const MutexLock guard(mutex_);
    const auto known = references_.find(job);
    if (known != references_.end()) return known->second.contains(sha256);
    auto found = reader_->job(job);
    if (!found) return found.error();
    record = std::move(found).value();
  }
  std::set<std::string> files;
  if (record) {
    for (const std::string& upload : uploads_of(record->spec)) {
      files.insert(upload);
      if (const auto manifest = files_.manifest(upload)) {  // none: it is code
        files.merge(FileStore::files_of(upload, **manifest));
      }
    }
  }
  const bool refers = files.contains(sha256);
  const MutexLock guard(mutex_);
  if (references_.size() >= kJobsKept) references_.erase(references_.begin());
  references_[job] = std::move(files);
  return refers;
}

Result<FileRecord> FileTransfer::allowed(AgentId caller, ReplicaId replica,
                                         const std::string& sha256) {
  const auto place = inputs_.place_of(replica);
  if (!place || (caller && place->agent != caller)) {
    return Error{Code::kNotFound, "this agent has no replica " + to_string(replica), "replica", ""};
  }
  const auto refers = refers_to(place->job, sha256);
  if (!refers) return refers.error();
  const auto file = *refers ? files_.find(sha256) : std::nullopt;
  if (!file || !file->record.complete) return not_found(sha256);
  return file->record;
}

grpc::Status FileTransfer::send(grpc::ServerContext* context, const FileRecord& file, Bytes from,
                                Bytes count, grpc::ServerWriter<v1::FileBytes>* writer) {
  const std::string path = files_.folder_of(file.sha256) + "/" + FileStore::kContent;
  const OpenFile open(path);
  if (open.fd < 0) return to_status(disk_error("open the file", path, errno));
  v1::FileBytes message;
  std::vector<char> buffer(kPieceBytes);
  for (std::int64_t at = from.n, end = (from + count).n; at < end;) {
    const auto wanted = std::min<std::int64_t>(end - at, kPieceBytes);
    const ssize_t got = ::pread(open.fd, buffer.data(), static_cast<std::size_t>(wanted), at);
    if (got <= 0) {
      return to_status(
          {Code::kDataLoss,
           "the stored file " + file.sha256 + " cannot be read at byte " + std::to_string(at),
           "sha256", "add the dataset again"});
    }
    message.set_data(buffer.data(), static_cast<std::size_t>(got));
    if (!writer->Write(message)) return grpc::Status::CANCELLED;
    moved(context);
    at += got;
  }
  return grpc::Status::OK;
}

grpc::Status FileTransfer::get(grpc::ServerContext* context, AgentId caller,
                               const v1::GetFileRequest& request,
                               grpc::ServerWriter<v1::FileBytes>* writer) {
  if (!admit(context, caller)) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many files are being read; try again later"};
  }
  const struct Ended {
    FileTransfer& owner;
    grpc::ServerContext* context;
    ~Ended() { owner.end(context); }
  } ended{*this, context};
  const auto file = allowed(caller, ReplicaId(request.replica()), request.sha256());
  if (!file) return to_status(file.error());
  const Bytes from(request.from());
  if (from.n < 0 || from > file->size || request.count() < 0) {
    return to_status({Code::kInvalidArgument,
                      "the file has " + std::to_string(file->size.n) + " bytes, asked for byte " +
                          std::to_string(from.n),
                      "from", ""});
  }
  const Bytes rest = file->size - from;
  const Bytes wanted = request.count() > 0 ? std::min(Bytes(request.count()), rest) : rest;
  return send(context, *file, from, std::min(wanted, kBytesMax), writer);
}

}  // namespace shoal::coordinator
