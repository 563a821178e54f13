// Whether the files of a stored checkpoint still are what their record says: each is read whole and
// its SHA-256 compared. That takes as long as the disk needs, so it runs on a thread of its own,
// one request at a time; a caller that wants an answer soon asks file by file.
#include <algorithm>
#include <functional>

#include <unistd.h>

#include "base/sha256.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/server.h"

namespace shoal::coordinator::rest::api {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// Why the file is not what the entry says; empty: it is. kUnavailable when the server stops
// meanwhile.
Result<std::string> problem_of_file(const std::string& folder, const FileEntry& entry,
                                    const std::atomic<bool>& stopping) {
  const auto part = open_file(folder, entry);
  if (!part.ok()) return part.error().message;
  Sha256 hash;
  std::vector<std::byte> buffer(kReadBytes);
  for (std::int64_t at = 0; at < part.value().length;) {
    if (stopping.load()) return Error{Code::kUnavailable, "the coordinator is stopping", "", ""};
    const ssize_t got = ::pread(*part.value().descriptor, buffer.data(), buffer.size(), at);
    if (got <= 0) return std::string("cannot be read beyond byte ") + std::to_string(at);
    hash.add(std::span(buffer.data(), static_cast<std::size_t>(got)));
    at += got;
  }
  const std::string found = hash.finish();
  return found == entry.sha256 ? std::string() : "has the SHA-256 " + found;
}

// The same of a file in the object store.
Result<std::string> problem_of_object(const CheckpointBucket& bucket, CheckpointId id,
                                      const FileEntry& entry, const std::atomic<bool>& stopping) {
  Sha256 hash;
  const Status read = bucket.read(id, entry, Bytes(), [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    return !stopping.load();
  });
  if (stopping.load()) return Error{Code::kUnavailable, "the coordinator is stopping", "", ""};
  if (!read.ok() && bucket.is_silence(read.error())) return read.error();
  if (!read.ok()) return read.error().message;
  const std::string found = hash.finish();
  return found == entry.sha256 ? std::string() : "has the SHA-256 " + found;
}

Result<std::vector<FileEntry>> files_to_read(const CheckpointRecord& checkpoint,
                                             const std::string* only) {
  const std::string id = to_string(checkpoint.id);
  if (checkpoint.state != CheckpointState::kStored) {
    return Error{Code::kConflict, id + " is " + to_string(checkpoint.state) + ", not stored", "",
                 "choose a checkpoint whose state is stored"};
  }
  const std::vector<FileEntry> files = all_files(checkpoint);
  if (only == nullptr) return files;
  for (const FileEntry& file : files)
    if (file.path == *only) return std::vector{file};
  return Error{Code::kNotFound, id + " has no file \"" + *only + "\"", "",
               "GET /api/v1/checkpoints/" + id + " lists its files"};
}

using ProblemOf = std::function<Result<std::string>(const FileEntry& file)>;

Response verify_files(CheckpointId id, const std::vector<FileEntry>& files, const Request& request,
                      const ProblemOf& problem_of) {
  bool all_good = true;
  Json items = Json::array();
  for (const FileEntry& file : files) {
    const auto problem = problem_of(file);
    if (!problem.ok()) return problem_response(problem.error(), request);
    const bool good = problem.value().empty();
    all_good = all_good && good;
    items.push_back(Json{{"path", file.path},
                         {"size", file.size.count()},
                         {"sha256", file.sha256},
                         {"ok", good},
                         {"problem", good ? Json(nullptr) : Json(problem.value())}});
  }
  Json json;
  json["checkpoint"] = to_string(id);
  json["ok"] = all_good;
  json["files"] = std::move(items);
  return json_response(json);
}

}  // namespace

void verify_checkpoint(Context& context, const Request& request, Replier reply) {
  const auto checkpoint = find_checkpoint(context, request);
  if (!checkpoint.ok()) return reply(problem_response(checkpoint.error(), request));
  const auto files = files_to_read(checkpoint.value(), request.query_value("file"));
  if (!files.ok()) return reply(problem_response(files.error(), request));
  const CheckpointId id = checkpoint.value().id;
  const CheckpointBucket* bucket = is_in_bucket(context, id) ? context.options.bucket : nullptr;
  const bool accepted = context.on_slow_worker(
      [=, files = files.value(),
       folder = context.cluster.checkpoint_folder(id)](const std::atomic<bool>& stopping) {
        reply(verify_files(id, files, request, [&](const FileEntry& file) {
          return bucket != nullptr ? problem_of_object(*bucket, id, file, stopping)
                                   : problem_of_file(folder, file, stopping);
        }));
      });
  if (!accepted) {
    reply(problem_response(Problem::kOverloaded, request,
                           "too many checkpoints wait to be verified", {}, "try again later"));
  }
}

}  // namespace shoal::coordinator::rest::api
