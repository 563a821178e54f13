// Checkpoints and their files. Only a path that the checkpoint's record lists is ever opened,
// inside the checkpoint's folder and without following links, so a request cannot leave it. The
// body is streamed by the connection; the SHA-256 of the record is the ETag. What lies in an object
// store is answered with a redirect to it.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "coordinator/service/http/byte_range.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest::api {
namespace {

std::shared_ptr<const int> own_descriptor(int descriptor) {
  return {new int(descriptor), [](const int* owned) {
            ::close(*owned);
            delete owned;
          }};
}

Error damaged(const FileEntry& entry, const std::string& why) {
  return Error{Code::kDataLoss, "the stored file " + entry.path + " " + why, "",
               "use another checkpoint of this job"};
}

// Opens each folder of the path in turn so that no part of it can be a link to elsewhere.
int open_below(const std::string& folder, std::string_view path) {
  int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (at >= 0) {
    const std::size_t slash = path.find('/');
    const std::string part(path.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    const int next = part.empty() || part == "." || part == ".."
                         ? (errno = EINVAL, -1)
                         : ::openat(at, part.c_str(),
                                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? 0 : O_DIRECTORY));
    const int error = errno;
    ::close(at);
    errno = error;
    if (last || next < 0) return next;
    path.remove_prefix(slash + 1);
    at = next;
  }
  return at;
}

std::string_view type_of(std::string_view path) {
  if (path.ends_with(".json")) return "application/json";
  if (path.ends_with(".txt")) return "text/plain; charset=utf-8";
  return "application/octet-stream";
}

// Without the parameter: whatever takes space.
Result<std::vector<CheckpointState>> read_states(const Request& request) {
  using enum CheckpointState;
  std::vector<CheckpointState> states;
  for (const auto& [name, text] : request.query) {
    if (name != "state") continue;
    const auto state = parse_enumerator<CheckpointState>(text);
    if (!state) {
      return bad_query("state", "must be one of " + joined(all_words<CheckpointState>()) +
                                    "; got \"" + text + "\"");
    }
    states.push_back(*state);
  }
  return states.empty() ? std::vector{kWriting, kUploading, kStored, kFailed} : states;
}

// The bytes come from the store itself, by a URL that is good for a while and for this file alone.
Result<Response> redirect_to_bucket(const Context& context, CheckpointId id,
                                    const FileEntry& entry) {
  auto url = context.options.bucket->url_of(id, entry);
  if (!url.ok()) return url.error();
  Response response;
  response.status = 307;
  response.headers = {{"Location", std::move(url).value()}, {"Cache-Control", "no-store"}};
  return response;
}

}  // namespace

Response stored_file_response(const Request& request, const FileEntry& entry, FilePart part) {
  const std::string etag = "\"" + entry.sha256 + "\"";
  const std::string size = std::to_string(entry.size.count());
  Response response;
  response.content_type = type_of(entry.path);
  response.headers = {
      {"ETag", etag}, {"Accept-Ranges", "bytes"}, {"Cache-Control", "private, no-cache"}};
  if (request.if_none_match == etag || request.if_none_match == "*") {
    response.status = 304;
    return response;
  }
  const bool ranged =
      !request.range.empty() && (request.if_range.empty() || request.if_range == etag);
  if (ranged) {
    const AskedRange range = read_range(request.range, entry.size.count());
    if (range.kind == AskedRange::kUnsatisfiable) {
      Response refused =
          problem_response(Problem::kRangeNotSatisfiable, request,
                           "the file has " + size + " bytes, asked for " + request.range);
      refused.headers.emplace_back("Content-Range", "bytes */" + size);
      return refused;
    }
    if (range.kind == AskedRange::kPart) {
      part.offset = range.first, part.length = range.length;
      response.status = 206;
      response.headers.emplace_back("Content-Range",
                                    "bytes " + std::to_string(part.offset) + "-" +
                                        std::to_string(part.offset + part.length - 1) + "/" + size);
    }
  }
  response.file = std::move(part);
  return response;
}

Result<CheckpointRecord> find_checkpoint(Context& context, const Request& request) {
  const std::string& text = request.part("checkpoint");
  const auto id = parse_id<CheckpointTag>(text);
  if (id) {
    auto checkpoint = context.reader->checkpoint(*id);
    if (!checkpoint.ok()) return checkpoint.error();
    if (checkpoint.value()) return std::move(**checkpoint);
  }
  return Error{Code::kNotFound, "there is no checkpoint \"" + text + "\"", "",
               "`shoal checkpoint ls` lists all of them"};
}

bool is_in_bucket(const Context& context, CheckpointId id) {
  if (context.options.bucket == nullptr) return false;
  return ::access(context.cluster.checkpoint_folder(id).c_str(), F_OK) != 0;
}

Result<FilePart> open_file(const std::string& folder, const FileEntry& entry) {
  const int descriptor = open_below(folder, entry.path);
  if (descriptor < 0)
    return damaged(entry, std::string("cannot be opened: ") + std::strerror(errno));
  FilePart part;
  part.descriptor = own_descriptor(descriptor);
  part.length = entry.size.count();
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    return damaged(entry, "is not a regular file");
  if (status.st_size != entry.size.count()) {
    return damaged(entry, "has " + std::to_string(status.st_size) + " bytes instead of " +
                              std::to_string(entry.size.count()));
  }
  return part;
}

Result<Response> list_checkpoints(Context& context, const Request& request) {
  const auto job = find_job(context, request);
  if (!job.ok()) return job.error();
  const auto page = read_page(request, "checkpoints", false);
  if (!page.ok()) return page.error();
  const auto checkpoints = context.reader->checkpoints(job.value().id, page.value());
  if (!checkpoints.ok()) return checkpoints.error();
  Json items = Json::array();
  for (const CheckpointRecord& checkpoint : checkpoints.value().items)
    items.push_back(checkpoint_json(checkpoint, &job.value()));
  return json_response(page_json(std::move(items), checkpoints.value().next, "checkpoints"));
}

Result<Response> list_all_checkpoints(Context& context, const Request& request) {
  const auto page = read_page(request, "all_checkpoints", true);
  if (!page.ok()) return page.error();
  const auto states = read_states(request);
  if (!states.ok()) return states.error();
  const auto checkpoints = context.reader->all_checkpoints(page.value(), states.value());
  if (!checkpoints.ok()) return checkpoints.error();
  Json items = Json::array();
  for (const CheckpointRecord& checkpoint : checkpoints.value().items) {
    const auto job = context.reader->job(checkpoint.key.job);
    if (!job.ok()) return job.error();
    items.push_back(checkpoint_json(checkpoint, job.value() ? &**job : nullptr));
  }
  return json_response(page_json(std::move(items), checkpoints.value().next, "all_checkpoints"));
}

Result<Response> get_checkpoint(Context& context, const Request& request) {
  const auto checkpoint = find_checkpoint(context, request);
  if (!checkpoint.ok()) return checkpoint.error();
  const auto job = context.reader->job(checkpoint->key.job);
  if (!job.ok()) return job.error();
  return json_response(checkpoint_json(checkpoint.value(), job.value() ? &**job : nullptr));
}

Result<Response> get_checkpoint_file(Context& context, const Request& request) {
  const auto checkpoint = find_checkpoint(context, request);
  if (!checkpoint.ok()) return checkpoint.error();
  const std::string id = to_string(checkpoint.value().id);
  const std::vector<FileEntry> files = all_files(checkpoint.value());
  const auto entry = std::find_if(files.begin(), files.end(), [&](const FileEntry& file) {
    return file.path == request.part("path");
  });
  if (entry == files.end()) {
    return Error{Code::kNotFound, id + " has no file \"" + request.part("path") + "\"", "",
                 "GET /api/v1/checkpoints/" + id + " lists its files"};
  }
  if (checkpoint.value().state != CheckpointState::kStored) {
    return Error{Code::kConflict,
                 id + " is " + to_string(checkpoint.value().state) + ", not stored", "",
                 "choose a checkpoint whose state is stored"};
  }
  if (is_in_bucket(context, checkpoint.value().id))
    return redirect_to_bucket(context, checkpoint.value().id, *entry);
  auto part = open_file(context.cluster.checkpoint_folder(checkpoint.value().id), *entry);
  if (!part.ok()) return part.error();
  return stored_file_response(request, *entry, std::move(part).value());
}

}  // namespace shoal::coordinator::rest::api
