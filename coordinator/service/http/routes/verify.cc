// Whether the files of a stored checkpoint still are what their record says: each is read whole and
// its SHA-256 compared, and of weights the anchor is computed again. That takes as long as the disk
// needs, so it runs on a thread of its own, one request at a time; a caller that wants an answer
// soon asks file by file. When the last file of a checkpoint was found good, the core learns that
// it was verified.
#include <algorithm>
#include <functional>

#include <unistd.h>

#include "base/sha256.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/shelves/weights_anchor.h"
#include "identity/api_token.h"

namespace shoal::coordinator::rest::api {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// A file of the list, and what its content has to be.
struct FileToRead {
  FileEntry entry;
  Digest anchor;  // that it holds; zero: it is not known, or the file has no weights
};

// Names as versions before 0.2 gave them, which knew no roles.
bool has_weights(const FileEntry& file) {
  if (!file.role.empty()) return file.role == "weights";
  return file.path.starts_with("model") && file.path.ends_with(".safetensors");
}

// What the bytes of a file are compared with, as they come.
class Comparison {
 public:
  explicit Comparison(const FileToRead& file) : file_(file) {}
  void add(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    if (file_.anchor) weights_.add(bytes);
  }
  // After the last byte. Empty: it is what it has to be.
  std::string problem() {
    const std::string found = hash_.finish();
    if (found != file_.entry.sha256) return "has the SHA-256 " + found;
    if (!file_.anchor) return {};
    const auto anchor = weights_.finish();
    if (!anchor.ok()) return anchor.error().message;
    if (anchor.value() == file_.anchor) return {};
    return "holds weights of the anchor " + to_hex(anchor.value()) + ", committed was " +
           to_hex(file_.anchor);
  }

 private:
  const FileToRead& file_;
  Sha256 hash_;
  WeightsAnchor weights_;
};

// Why the file is not what the entry says; empty: it is. kUnavailable when the server stops
// meanwhile.
Result<std::string> problem_of_file(const std::string& folder, const FileToRead& file,
                                    const std::atomic<bool>& stopping) {
  const auto part = open_file(folder, file.entry);
  if (!part.ok()) return part.error().message;
  Comparison content(file);
  std::vector<std::byte> buffer(kReadBytes);
  for (std::int64_t at = 0; at < part.value().length;) {
    if (stopping.load()) return Error{Code::kUnavailable, "the coordinator is stopping", "", ""};
    const ssize_t got = ::pread(*part.value().descriptor, buffer.data(), buffer.size(), at);
    if (got <= 0) return std::string("cannot be read beyond byte ") + std::to_string(at);
    content.add(std::span(buffer.data(), static_cast<std::size_t>(got)));
    at += got;
  }
  return content.problem();
}

// The same of a file in the object store.
Result<std::string> problem_of_object(const CheckpointBucket& bucket, CheckpointId id,
                                      const FileToRead& file, const std::atomic<bool>& stopping) {
  Comparison content(file);
  const Status read = bucket.read(id, file.entry, Bytes(), [&](std::span<const std::byte> bytes) {
    content.add(bytes);
    return !stopping.load();
  });
  if (stopping.load()) return Error{Code::kUnavailable, "the coordinator is stopping", "", ""};
  if (!read.ok() && bucket.is_silence(read.error())) return read.error();
  if (!read.ok()) return read.error().message;
  return content.problem();
}

std::vector<FileToRead> files_of(const CheckpointRecord& checkpoint) {
  std::vector<FileToRead> files;
  for (const CheckpointPart& part : checkpoint.parts) {
    for (const FileEntry& file : part.files) {
      files.push_back({file, has_weights(file) ? part.anchor : Digest()});
    }
  }
  return files;
}

Result<std::vector<FileToRead>> files_to_read(const CheckpointRecord& checkpoint,
                                              const std::string* only) {
  const std::string id = to_string(checkpoint.id);
  if (checkpoint.state != CheckpointState::kStored) {
    return Error{Code::kConflict, id + " is " + to_string(checkpoint.state) + ", not stored", "",
                 "choose a checkpoint whose state is stored"};
  }
  const std::vector<FileToRead> files = files_of(checkpoint);
  if (only == nullptr) return files;
  for (const FileToRead& file : files)
    if (file.entry.path == *only) return std::vector{file};
  return Error{Code::kNotFound, id + " has no file \"" + *only + "\"", "",
               "GET /api/v1/checkpoints/" + id + " lists its files"};
}

// A verified checkpoint is kept, which whoever only sees the job does not decide.
bool may_control(Context& context, const Request& request, const CheckpointRecord& checkpoint) {
  const Principal& who = request.principal;
  const identity::Grant grant = identity::granted(who.scopes, identity::Action::kControlJob);
  if (grant != identity::Grant::kOwn) return grant != identity::Grant::kNone;
  const auto job = context.reader->job(checkpoint.key.job);
  return job.ok() && job.value() && job.value()->owner == who.name;
}

using ProblemOf = std::function<Result<std::string>(const FileToRead& file)>;

Response verify_files(CheckpointId id, const std::vector<FileToRead>& files, const Request& request,
                      const ProblemOf& problem_of,
                      const std::function<void(const std::string& path, bool good)>& found) {
  bool all_good = true;
  Json items = Json::array();
  for (const auto& file : files) {
    const auto problem = problem_of(file);
    if (!problem.ok()) return problem_response(problem.error(), request);
    const bool good = problem.value().empty();
    all_good = all_good && good;
    found(file.entry.path, good);
    items.push_back(Json{{"path", file.entry.path},
                         {"size", file.entry.size.count()},
                         {"sha256", file.entry.sha256},
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
  const auto found =
      [&verified = context.verified, &cluster = context.cluster, record = checkpoint.value(),
       counts = may_control(context, request, *checkpoint)](const std::string& path, bool good) {
        if (!good) return verified.forget(record.id);
        if (!counts || !verified.add(record, path)) return;
        cluster.command_checkpoint({{}, record, CheckpointVerb::kVerified},
                                   [](const Cluster::Answer&) {});
      };
  const CheckpointBucket* bucket = is_in_bucket(context, id) ? context.options.bucket : nullptr;
  const bool accepted = context.on_slow_worker(
      [=, files = files.value(),
       folder = context.cluster.checkpoint_folder(id)](const std::atomic<bool>& stopping) {
        const auto problem_of = [&](const FileToRead& file) {
          return bucket != nullptr ? problem_of_object(*bucket, id, file, stopping)
                                   : problem_of_file(folder, file, stopping);
        };
        reply(verify_files(id, files, request, problem_of, found));
      });
  if (!accepted) {
    reply(problem_response(Problem::kOverloaded, request,
                           "too many checkpoints wait to be verified", {}, "try again later"));
  }
}

}  // namespace shoal::coordinator::rest::api
