#include "coordinator/service/checkpoint_carriage.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/agent.grpc.pb.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

using AgentStream = grpc::ServerReaderWriter<v1::CheckpointReceived, v1::CheckpointUpload>;

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::chrono::seconds kSayEvery{1};

const Error kBroken{.code = Code::kCancelled, .message = "the upload was interrupted"};

// A file on this disk that nobody else sees, and that is gone with its descriptor.
class Spool {
 public:
  static Result<Spool> open(const std::string& folder) {
    std::string path = folder + "/carried.XXXXXX";
    const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor < 0) return disk_error("create a file in", folder, errno);
    (void)::unlink(path.c_str());
    return Spool(descriptor);
  }
  Spool(Spool&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  ~Spool() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor() const { return descriptor_; }
  Status write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return disk_error("keep a part of a checkpoint in", "checkpoints/", errno);
      bytes.remove_prefix(static_cast<std::size_t>(done));
    }
    return {};
  }
  Status clear() {
    if (::ftruncate(descriptor_, 0) == 0 && ::lseek(descriptor_, 0, SEEK_SET) == 0) return {};
    return disk_error("empty a file in", "checkpoints/", errno);
  }

 private:
  explicit Spool(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// The chunks of an agent as one row of bytes, of which the first is byte `from` of the files.
class Incoming {
 public:
  Incoming(AgentStream& agent, Bytes from, const CarriageHooks& hooks)
      : agent_(agent), at_(from.count()), hooks_(hooks) {}

  // The bytes up to `end`, in pieces.
  template <typename Take>
  Status read_to(std::int64_t end, const Take& take) {
    while (at_ < end) {
      if (rest_.empty()) {
        if (Status s = read_chunk(); !s.ok()) return s;
      }
      const auto wanted = static_cast<std::size_t>(end - at_);
      const std::string_view piece = rest_.substr(0, wanted);
      if (Status s = take(piece); !s.ok()) return s;
      rest_.remove_prefix(piece.size());
      at_ += static_cast<std::int64_t>(piece.size());
      say();
    }
    return {};
  }

 private:
  Status read_chunk() {
    if (!agent_.Read(&message_)) return kBroken;
    if (!message_.has_chunk())
      return Error{Code::kInvalidArgument, "a chunk was expected", "chunk", ""};
    rest_ = message_.chunk().data();
    return {};
  }
  void say() {
    const auto now = std::chrono::steady_clock::now();
    if (now - said_at_ < kSayEvery) return;
    said_at_ = now;
    hooks_.is_at(Bytes(at_));
    v1::CheckpointReceived answer;
    answer.set_bytes(at_);
    (void)agent_.Write(answer);  // a broken stream shows when it is read
  }

  AgentStream& agent_;
  std::int64_t at_;
  const CarriageHooks& hooks_;
  v1::CheckpointUpload message_;
  std::string_view rest_;
  std::chrono::steady_clock::time_point said_at_{};
};

// Where each file begins in the row of all of them.
std::vector<std::int64_t> begins_of(const std::vector<FileEntry>& files) {
  std::vector<std::int64_t> begins;
  std::int64_t at = 0;
  for (const FileEntry& file : files) {
    begins.push_back(at);
    at += file.size.count();
  }
  return begins;
}

}  // namespace

Status carry_to_store(CheckpointBucket::Upload& upload, const std::vector<FileEntry>& files,
                      const std::string& folder, AgentStream& agent, const CarriageHooks& hooks) {
  auto spool = Spool::open(folder);
  if (!spool) return spool.error();
  const std::vector<std::int64_t> begins = begins_of(files);
  auto next = upload.next(1);
  if (!next) return next.error();
  const auto begin_of = [&](const PresignedRequest& one) {
    return begins.at(one.file) + one.offset.count();
  };
  const Bytes from(next->empty() ? total_size(files).count() : begin_of(next->front()));
  v1::CheckpointReceived first;
  first.set_bytes(from.count());
  (void)agent.Write(first);
  Incoming incoming(agent, from, hooks);
  // In their order; what lies between them the store has already.
  for (; next && !next->empty(); next = upload.next(1)) {
    const PresignedRequest& part = next->front();
    const auto pass = [](std::string_view) { return Status(); };
    if (Status s = incoming.read_to(begin_of(part), pass); !s.ok()) return s;
    if (Status s = spool->clear(); !s.ok()) return s;
    const auto keep = [&](std::string_view piece) { return spool->write(piece); };
    const std::int64_t end = begin_of(part) + part.size.count();
    if (Status s = incoming.read_to(end, keep); !s.ok()) return s;
    hooks.works_on(part.size);
    if (Status s = upload.carry(part, spool->descriptor()); !s.ok()) return s;
    hooks.is_at(Bytes(end));
  }
  return next ? Status() : Status(next.error());
}

Status carry_from_store(const CheckpointBucket& bucket, CheckpointId id,
                        const std::vector<FileEntry>& files, Bytes from,
                        grpc::ServerWriter<v1::CheckpointUpload>& agent,
                        const CarriageHooks& hooks) {
  std::int64_t begin = 0;
  for (const FileEntry& file : files) {
    const std::int64_t offset = std::max<std::int64_t>(0, from.count() - begin);
    std::int64_t at = begin + offset;
    begin += file.size.count();
    if (offset >= file.size.count()) continue;
    bool open = true;
    const auto send = [&](std::span<const std::byte> bytes) {
      for (; open && !bytes.empty(); bytes = bytes.subspan(std::min(kChunk, bytes.size()))) {
        const auto piece = bytes.first(std::min(kChunk, bytes.size()));
        v1::CheckpointUpload message;
        message.mutable_chunk()->set_data(piece.data(), piece.size());
        open = agent.Write(message);
        bucket.note_carried(Bytes(static_cast<std::int64_t>(piece.size())));
        at += static_cast<std::int64_t>(piece.size());
        hooks.is_at(Bytes(at));
      }
      return open;
    };
    const Status sent = bucket.read(id, file, Bytes(offset), send);
    if (!open) return Error{.code = Code::kCancelled, .message = "the download was interrupted"};
    if (!sent.ok()) return sent;
  }
  return {};
}

}  // namespace shoal::coordinator
