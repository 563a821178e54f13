#include "coordinator/service/file_transfer.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "coordinator/service/agent_session.h"
#include "job/data_rules.h"
#include "proto/convert.h"
#include "threads/descriptor.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

constexpr std::size_t kJobsKept = 256;

Error not_found(const std::string& sha256) {
  return {Code::kNotFound, "no job of this replica refers to a file " + sha256, "sha256", ""};
}

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

FileTransfer::References FileTransfer::references_of(const JobSpec& spec) const {
  References references;
  for (const std::string& upload : uploads_of(spec)) {
    references[upload] = "";
    const auto manifest = files_.manifest(upload);
    if (!manifest) continue;  // it is code
    for (const std::string& file : FileStore::files_of(upload, **manifest)) references[file] = "";
    for (const data::Shard& shard : (*manifest)->shards) {
      if (objects::is_object(shard.url)) references.emplace(shard.sha256, shard.url);
    }
  }
  return references;
}

// A spec never changes, nor does a manifest: what a job refers to is looked up once. None: it does
// not refer to it.
Result<std::optional<std::string>> FileTransfer::reference(JobId job, const std::string& sha256) {
  const auto in = [&](const References& references) {
    const auto found = references.find(sha256);
    return found == references.end() ? std::nullopt : std::optional(found->second);
  };
  std::optional<JobRecord> record;
  {
    const MutexLock guard(mutex_);
    const auto known = references_.find(job);
    if (known != references_.end()) return in(known->second);
    auto found = reader_->job(job);
    if (!found) return found.error();
    record = std::move(found).value();
  }
  References references = record ? references_of(record->spec) : References();
  auto found = in(references);
  const MutexLock guard(mutex_);
  if (references_.size() >= kJobsKept) references_.erase(references_.begin());
  references_[job] = std::move(references);
  return found;
}

Result<FileTransfer::Allowed> FileTransfer::allowed(AgentId caller, ReplicaId replica,
                                                    const std::string& sha256) {
  const auto place = inputs_.place_of(replica);
  if (!place || (caller && place->agent != caller)) {
    return Error{Code::kNotFound, "this agent has no replica " + to_string(replica), "replica", ""};
  }
  const auto url = reference(place->job, sha256);
  if (!url) return url.error();
  if (!*url) return not_found(sha256);
  if (!(*url)->empty()) return Allowed{{}, **url};
  const auto file = files_.find(sha256);
  if (!file || !file->record.complete) return not_found(sha256);
  return Allowed{file->record};
}

grpc::Status FileTransfer::send_url(const std::string& url,
                                    grpc::ServerWriter<v1::FileBytes>* writer) const {
  auto signed_url = stores_.sign(url);
  if (!signed_url) return to_status(signed_url.error());
  v1::FileBytes message;
  message.set_url(std::move(*signed_url));
  message.set_valid_s(DataStores::kLife.ms() / 1'000);
  return writer->Write(message) ? grpc::Status::OK : grpc::Status::CANCELLED;
}

grpc::Status FileTransfer::send(grpc::ServerContext* context, const FileRecord& file, Bytes from,
                                Bytes count, grpc::ServerWriter<v1::FileBytes>* writer) {
  const std::string path = files_.folder_of(file.sha256) + "/" + FileStore::kContent;
  const Descriptor file_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file_fd) return to_status(disk_error("open the file", path, errno));
  v1::FileBytes message;
  std::vector<char> buffer(kPieceBytes);
  for (std::int64_t at = from.n, end = (from + count).n; at < end;) {
    const auto wanted = std::min<std::int64_t>(end - at, kPieceBytes);
    const ssize_t got = ::pread(file_fd.get(), buffer.data(), static_cast<std::size_t>(wanted), at);
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
  const auto found = allowed(caller, ReplicaId(request.replica()), request.sha256());
  if (!found) return to_status(found.error());
  if (!found->url.empty()) return send_url(found->url, writer);
  const FileRecord* file = &found->file;
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
