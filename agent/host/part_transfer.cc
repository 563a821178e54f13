#include "agent/host/part_transfer.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "agent/host/checkpoint_files.h"
#include "objects/bucket.h"
#include "proto/agent.grpc.pb.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

constexpr std::chrono::seconds kSyncEvery{1};
constexpr std::size_t kRequestsMax = 10'000;  // as many as a checkpoint has files

using UploadStream = grpc::ClientReaderWriter<v1::CheckpointUpload, v1::CheckpointReceived>;

Error of_store(Error error) {
  if (error.code == Code::kPermissionDenied) error.code = Code::kUnavailable;
  return error;
}

Error broken() { return {Code::kUnavailable, "the line to the coordinator broke", "", ""}; }

objects::Headers headers_of(const v1::PresignedRequest& request) {
  objects::Headers headers;
  for (const v1::Label& header : request.headers())
    headers.emplace_back(header.key(), header.value());
  return headers;
}

bool is_within(const v1::PresignedRequest& request, const std::vector<FileEntry>& files) {
  if (request.file() < 0 || static_cast<std::size_t>(request.file()) >= files.size()) return false;
  const std::int64_t size = files[static_cast<std::size_t>(request.file())].size.count();
  return request.offset() >= 0 && request.size() >= 0 && request.offset() <= size &&
         request.size() <= size - request.offset();
}

// Reads the part once: for its MD5, which the store compares with what it gets, and for the SHA-256
// of the file.
Result<std::string> hash_part(OutgoingFiles& files, const v1::PresignedRequest& request) {
  const auto index = static_cast<std::size_t>(request.file());
  const auto read = [&](std::int64_t at, std::span<std::byte> into) {
    const std::int64_t from = request.offset() + at;
    return files.read(index, from, from + std::ssize(into), [&](std::span<const std::byte> bytes) {
      std::ranges::copy(bytes, into.begin());
      into = into.subspan(bytes.size());
      return true;
    });
  };
  if (request.size() == 0) {
    if (Status s = read(0, {}); !s.ok()) return s.error();
  }
  return objects::md5_of({Bytes(request.size()), read});
}

// The ETag of what was sent.
Result<std::string> put_part(const objects::Client& store, OutgoingFiles& outgoing,
                             const std::vector<FileEntry>& files,
                             const v1::PresignedRequest& request,
                             const std::function<void(Bytes)>& on_moved) {
  if (!is_within(request, files))
    return Error{Code::kInvalidArgument, "a request is not within its file", "requests", ""};
  auto md5 = hash_part(outgoing, request);
  if (!md5.ok()) return md5.error();
  const objects::Body body =
      objects::body_of_file(outgoing.descriptor(), request.offset(), Bytes(request.size()));
  objects::Headers headers = headers_of(request);
  if (request.size() > 0) headers.emplace_back("Content-MD5", std::move(md5).value());
  const auto answer = store.send(objects::Request{.method = "PUT",
                                                  .url = request.url(),
                                                  .headers = headers,
                                                  .body = body,
                                                  .on_moved = on_moved});
  if (!answer.ok()) return of_store(answer.error());
  const std::string* etag = answer.value().header("etag");
  return etag != nullptr ? *etag : std::string("none");
}

}  // namespace

Status put_parts(const objects::Client& store, const std::string& folder,
                 const std::vector<FileEntry>& files, UploadStream& coordinator,
                 const v1::CheckpointReceived& first, const PartHooks& hooks) {
  OutgoingFiles outgoing(folder, files);
  std::deque<v1::PresignedRequest> waiting(first.requests().begin(), first.requests().end());
  v1::CheckpointReceived answer = first;
  while (!waiting.empty()) {
    const v1::PresignedRequest request = std::move(waiting.front());
    waiting.pop_front();
    v1::CheckpointUpload message;
    message.mutable_moved()->set_file(request.file());
    message.mutable_moved()->set_part(request.part());
    const auto etag = put_part(store, outgoing, files, request, [&](Bytes moved) {
      if (moved.count() == 0) return;  // it still dials
      hooks.moves();
      message.mutable_moved()->set_bytes(moved.count());
      coordinator.Write(message);  // a broken stream shows when it is read
    });
    if (!etag.ok()) return etag.error();
    message.mutable_moved()->set_bytes(request.size());
    message.mutable_moved()->set_etag(etag.value());
    if (!coordinator.Write(message) || !coordinator.Read(&answer))
      return {};  // its status says why
    hooks.stored(Bytes(answer.bytes()));
    if (waiting.size() + static_cast<std::size_t>(answer.requests_size()) > kRequestsMax)
      return Error{Code::kInvalidArgument, "the coordinator hands out too much", "requests", ""};
    waiting.insert(waiting.end(), answer.requests().begin(), answer.requests().end());
  }
  coordinator.WritesDone();
  while (!answer.stored() && coordinator.Read(&answer)) hooks.stored(Bytes(answer.bytes()));
  return {};
}

Result<std::vector<v1::PresignedRequest>> read_requests(
    grpc::ClientReader<v1::CheckpointUpload>& coordinator, const FileReceiver& receiver) {
  std::vector<v1::PresignedRequest> requests;
  Bytes asked;
  for (v1::CheckpointUpload message; coordinator.Read(&message);) {
    if (!message.has_request() || !is_within(message.request(), receiver.files()) ||
        requests.size() == kRequestsMax) {
      return Error{Code::kInvalidArgument, "a request for a file was expected", "request", ""};
    }
    requests.push_back(message.request());
    asked += Bytes(message.request().size());
  }
  if (receiver.received() + asked != total_size(receiver.files())) return broken();
  return requests;
}

Status get_parts(const objects::Client& store, const std::vector<v1::PresignedRequest>& requests,
                 FileReceiver& receiver, const std::function<void()>& moved) {
  auto synced_at = std::chrono::steady_clock::now();
  for (const v1::PresignedRequest& request : requests) {
    Status written;
    const auto take = [&](std::span<const std::byte> bytes) {
      written = receiver.write(bytes);
      moved();
      const auto now = std::chrono::steady_clock::now();
      if (written.ok() && now - synced_at >= kSyncEvery) {
        written = receiver.sync();
        synced_at = now;
      }
      return written.ok();
    };
    const Bytes whole = receiver.files()[static_cast<std::size_t>(request.file())].size;
    const auto got = store.get(
        objects::Request{.method = "GET", .url = request.url(), .headers = headers_of(request)},
        {.from = Bytes(request.offset()), .size = Bytes(request.size()), .whole = whole}, take);
    if (!written.ok()) return written;
    if (!got.ok()) return of_store(got.error());
  }
  if (receiver.complete()) return {};
  return Error{Code::kInvalidArgument, "the requests do not make up the files", "requests", ""};
}

}  // namespace shoal::agent
