#include "agent/host/code_store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "agent/host/file_range.h"
#include "agent/host/program_launch.h"
#include "base/sha256.h"
#include "threads/file_content.h"
#include "transfer/bundle.h"
#include "transfer/disk.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kQuick{2};  // a piece that took less may be larger the next time

std::string hash_of(const FetchCode& effect) { return effect.code.substr(kCodePrefix.size()); }

std::int64_t size_of(const std::string& file) {
  std::error_code missing;
  const auto size = fs::file_size(file, missing);
  return missing ? 0 : static_cast<std::int64_t>(size);
}

Status append(const std::string& file, const std::string& bytes) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return disk_error("open the file", file, errno);
  const Status written = write_all(fd, std::as_bytes(std::span(bytes)), file);
  ::close(fd);
  return written;
}

Error other_code(const std::string& how) {
  return {Code::kDataLoss, "what the coordinator sent is not the code of the job: " + how, "",
          "submit the job again with --code"};
}

}  // namespace

CodeStore::CodeStore(std::string folder, Read read, Post post)
    : folder_(std::move(folder)),
      read_(std::move(read)),
      post_(std::move(post)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

CodeStore::~CodeStore() {
  {
    const MutexLock guard(mutex_);
    thread_.request_stop();
  }
  changed_.notify_all();
  thread_.join();
}

void CodeStore::fetch(const FetchCode& effect) {
  {
    const MutexLock guard(mutex_);
    if (queue_.size() < kQueueMax) {
      queue_.push_back(effect);
      changed_.notify_all();
      return;
    }
  }
  post_(CodeFetchFailed{effect.code, {Code::kConflict, "too many are fetched", "", ""}});
}

void CodeStore::run(const std::stop_token& stop) {
  const MutexLock guard(mutex_);
  for (;;) {
    changed_.wait(
        mutex_, [&]() SHOAL_REQUIRES(mutex_) { return stop.stop_requested() || !queue_.empty(); });
    if (stop.stop_requested()) return;
    const FetchCode effect = std::move(queue_.front());
    queue_.pop_front();
    const MutexUnlock meanwhile(mutex_);
    const Status there = provide(effect, stop);
    post_(there.ok() ? Input(CodeFetched{effect.code})
                     : Input(CodeFetchFailed{effect.code, there.error()}));
  }
}

Status CodeStore::provide(const FetchCode& effect, const std::stop_token& stop) {
  const std::string folder = code_folder(folder_, effect.code), file = folder + ".part";
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (error) return disk_error("make the folder of", folder, error.value());
  remove_others(effect);
  if (fs::is_directory(folder, error)) {
    fs::last_write_time(folder, fs::file_time_type::clock::now(), error);
    return {};
  }
  if (Status received = receive(effect, file, stop); !received.ok()) return received;
  return unpack(effect, file);
}

Status CodeStore::receive(const FetchCode& effect, const std::string& file,
                          const std::stop_token& stop) {
  Bytes from(size_of(file)), count = kPieceMin;
  for (;;) {
    post_(CodeFetchMoved{effect.code, from, Bytes()});
    const auto begun = std::chrono::steady_clock::now();
    const auto piece = read_(effect, from, count, stop);
    if (!piece.ok()) return piece.error();
    if (Status written = append(file, *piece); !written.ok()) return written;
    const Bytes got(static_cast<std::int64_t>(piece->size()));
    from += got;
    if (got < count) return {};
    if (from > kBundleBytesMax) {
      std::error_code ignored;
      fs::remove(file, ignored);
      return other_code("it is too large");
    }
    const bool quick = std::chrono::steady_clock::now() - begun < kQuick;
    if (quick) count = std::min(count + count, kPieceMax);
  }
}

// Under another name until all of it is there.
Status CodeStore::unpack(const FetchCode& effect, const std::string& file) {
  const std::string bundle = file_content(file).value_or("");
  std::error_code error;
  if (sha256_of(bundle) != hash_of(effect)) {
    fs::remove(file, error);
    return other_code("its hash is sha256:" + sha256_of(bundle));
  }
  const std::string folder = code_folder(folder_, effect.code), beside = folder + ".new";
  fs::remove_all(beside, error);
  if (Status unpacked = unpack_bundle(bundle, beside); !unpacked.ok()) {
    fs::remove(file, error);
    return unpacked;
  }
  fs::rename(beside, folder, error);
  if (error) return disk_error("rename the folder", beside, error.value());
  fs::remove(file, error);
  return sync_folder(fs::path(folder).parent_path().string());
}

void CodeStore::remove_others(const FetchCode& effect) const {
  std::vector<std::pair<fs::file_time_type, fs::path>> unused;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_ + "/code", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool used = std::ranges::any_of(effect.in_use, [&](const std::string& code) {
      return name.starts_with(code.substr(kCodePrefix.size()));
    });
    if (!used) unused.emplace_back(entry.last_write_time(ignored), entry.path());
  }
  std::sort(unused.rbegin(), unused.rend());
  for (std::size_t i = kKeptMax; i < unused.size(); ++i) fs::remove_all(unused[i].second, ignored);
}

CodeStore::Read read_from(CoordinatorEndpoint endpoint, Duration limit) {
  return
      [endpoint = std::move(endpoint), limit](const FetchCode& effect, Bytes from, Bytes count,
                                              const std::stop_token& stop) -> Result<std::string> {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(limit.ns));
        const std::stop_callback stopped(stop, [&] { context.TryCancel(); });
        std::string bytes;
        const grpc::Status status =
            read_range(open_channel(endpoint), context,
                       {effect.replica, hash_of(effect), from.count(), count.count()}, bytes);
        if (status.error_code() == grpc::StatusCode::DATA_LOSS)
          return other_code(status.error_message());
        if (!status.ok()) return error_of(status, endpoint.address);
        return bytes;
      };
}

}  // namespace shoal::agent
