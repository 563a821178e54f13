#include "coordinator/service/shelves/checkpoint_bucket.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <random>

#include <spdlog/spdlog.h>

#include "base/backoff.h"
#include "base/wire_text.h"
#include "coordinator/store/manifest.h"
#include "threads/clock.h"
#include "threads/sleep.h"
#include "transfer/files.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kShaHeader = "x-amz-meta-sha256";
constexpr Duration kPauseFirst = seconds(1), kPauseMax = seconds(60);

constexpr const char* kMarker = "shoal.cluster";

std::string new_name() {
  std::random_device device;
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x", device(), device());
  return text.data();
}

Error of_flag(Error error) {
  if (!error.field.empty()) error.message += ": " + error.field;
  error.field = "--checkpoint-store";
  return error;
}

std::string key_of(CheckpointId id, const std::string& path) { return to_string(id) + "/" + path; }

objects::Headers metadata_of(const FileEntry& file) { return {{kShaHeader, file.sha256}}; }

// "sha256 upload path" a line: of the uploads in parts that have begun.
std::map<std::string, std::string> read_list(const std::string& path) {
  std::map<std::string, std::string> uploads;  // by "sha256 path"
  std::ifstream file(path);
  for (std::string sha256, upload, name; file >> sha256 >> upload && std::getline(file, name);)
    uploads[sha256 + name] = upload;
  return uploads;
}

}  // namespace

// ---- an upload

struct CheckpointBucket::Upload::Object {
  FileEntry file;
  std::string key;
  objects::PartPlan plan;
  std::string upload = {};    // of one in parts; empty: not begun
  std::set<int> stored = {};  // parts that are there
  std::set<int> handed = {};  // parts that somebody is sending, or has sent
  bool complete = false;

  bool in_parts() const { return plan.count() > 1; }
  Bytes size_stored() const {
    if (complete) return file.size;
    Bytes size;
    for (const int number : stored) size += plan.length(number);
    return size;
  }
};

CheckpointBucket::Upload::Upload(CheckpointBucket& owner, CheckpointId id, StageIndex stage)
    : owner_(owner), id_(id), stage_(stage) {}

CheckpointBucket::Upload::~Upload() {
  const MutexLock lock(owner_.mutex_);
  owner_.uploading_.erase({id_, stage_});
}

Bytes CheckpointBucket::Upload::stored() const {
  Bytes size;
  for (const Object& object : objects_) size += object.size_stored();
  return size;
}

bool CheckpointBucket::Upload::complete() const {
  return std::ranges::all_of(objects_, &Object::complete);
}

// What the store has already, of this upload or of an interrupted one.
Status CheckpointBucket::Upload::take_stock(const std::vector<FileEntry>& files) {
  std::map<std::string, Bytes> there;
  const Status listed =
      owner_.bucket_->list(key_of(id_, ""), [&](const objects::ObjectInfo& object) {
        there[object.key] = object.size;
        return true;
      });
  if (!listed.ok()) return listed;
  const auto begun = read_list(owner_.parts_list(id_, stage_));
  for (const FileEntry& file : files) {
    Object object{.file = file,
                  .key = key_of(id_, file.path),
                  .plan = objects::plan_parts(file.size, owner_.bucket_->location().part)};
    const auto found = there.find(object.key);
    if (found != there.end() && found->second == file.size) {
      const auto same = owner_.has(object.key, file);
      if (!same.ok()) return same.error();
      object.complete = same.value();
    }
    const auto upload = begun.find(file.sha256 + " " + file.path);
    if (!object.complete && object.in_parts() && upload != begun.end()) {
      if (Status s = take_stock_of(object, upload->second); !s.ok()) return s;
    }
    objects_.push_back(std::move(object));
  }
  return {};
}

Status CheckpointBucket::Upload::take_stock_of(Object& object, const std::string& upload) {
  const auto parts = owner_.bucket_->parts(object.key, upload);
  if (!parts.ok() && parts.error().code == Code::kNotFound) return {};
  if (!parts.ok()) return parts.error();
  object.upload = upload;
  for (const objects::Part& part : parts.value()) {
    const bool fits =
        part.number <= object.plan.count() && part.size == object.plan.length(part.number);
    if (fits) object.stored.insert(part.number);
  }
  object.handed = object.stored;
  if (static_cast<int>(object.stored.size()) < object.plan.count()) return {};
  return put_together(object);
}

Status CheckpointBucket::Upload::begin(Object& object) {
  auto upload = owner_.bucket_->begin_upload(object.key, metadata_of(object.file));
  if (!upload.ok()) return upload.error();
  object.upload = std::move(upload).value();
  return keep_list();
}

// Durable before a part of it is sent: otherwise a restart would send the parts again.
Status CheckpointBucket::Upload::keep_list() const {
  std::string text;
  for (const Object& object : objects_) {
    if (object.upload.empty() || object.complete) continue;
    text += object.file.sha256 + " " + object.upload + " " + object.file.path + "\n";
  }
  return write_file_durably(owner_.parts_list(id_, stage_), text);
}

Result<std::vector<PresignedRequest>> CheckpointBucket::Upload::next(std::size_t most) {
  std::vector<PresignedRequest> requests;
  for (std::size_t i = 0; i < objects_.size() && requests.size() < most; ++i) {
    Object& object = objects_[i];
    if (object.complete) continue;
    for (int number = 1; number <= object.plan.count() && requests.size() < most; ++number) {
      if (!object.handed.insert(number).second) continue;
      PresignedRequest request{.file = i,
                               .part = object.in_parts() ? number : 0,
                               .offset = object.plan.offset(number),
                               .size = object.plan.length(number),
                               .url = {},
                               .headers = {}};
      if (object.in_parts() && object.upload.empty()) {
        if (Status s = begin(object); !s.ok()) return s.error();
      }
      if (!object.in_parts()) request.headers = metadata_of(object.file);
      auto url = object.in_parts()
                     ? owner_.bucket_->url_to_put_part(object.key, object.upload, number, kPutLife)
                     : owner_.bucket_->url_to_put(object.key, request.headers, kPutLife);
      if (!url.ok()) return url.error();
      request.url = std::move(url).value();
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

Status CheckpointBucket::Upload::sent(std::size_t file, int part) {
  if (file >= objects_.size() || part < 0 || part > objects_[file].plan.count() ||
      !objects_[file].handed.contains(std::max(part, 1))) {
    return Error{Code::kInvalidArgument, "no upload of this part was asked for", "moved", ""};
  }
  Object& object = objects_[file];
  if (object.complete) return {};
  object.stored.insert(std::max(part, 1));
  if (static_cast<int>(object.stored.size()) < object.plan.count()) return {};
  return put_together(object);
}

Status CheckpointBucket::Upload::carry(const PresignedRequest& request, int descriptor) {
  const Object& object = objects_.at(request.file);
  const objects::Body body = objects::body_of_file(descriptor, 0, request.size);
  Status sent;
  if (object.in_parts()) {
    const auto part = owner_.bucket_->put_part(object.key, object.upload, request.part, body);
    if (!part.ok()) sent = part.error();
  } else {
    sent = owner_.bucket_->put(object.key, body, request.headers);
  }
  if (!sent.ok()) return sent;
  owner_.note_carried(request.size);
  return this->sent(request.file, request.part);
}

// Judged by what the store lists, not by what an agent reported.
Status CheckpointBucket::Upload::put_together(Object& object) {
  if (object.in_parts()) {
    const auto parts = owner_.bucket_->parts(object.key, object.upload);
    if (!parts.ok()) return parts.error();
    bool whole = static_cast<int>(parts.value().size()) == object.plan.count();
    for (const objects::Part& part : parts.value())
      whole = whole && part.size == object.plan.length(part.number);
    if (!whole) {
      return Error{Code::kUnavailable, "the object store lacks parts that were sent",
                   owner_.bucket_->shown(object.key), "they are sent again"};
    }
    if (Status s = owner_.bucket_->complete(object.key, object.upload, parts.value()); !s.ok())
      return s;
  }
  const auto same = owner_.has(object.key, object.file);
  if (!same.ok()) return same.error();
  if (!same.value()) {
    return Error{Code::kUnavailable, "the object store does not have the file that was sent",
                 owner_.bucket_->shown(object.key), "it is sent again"};
  }
  object.complete = true;
  if (object.in_parts()) return keep_list();
  return {};
}

// ---- all of them

CheckpointBucket::CheckpointBucket(std::unique_ptr<objects::Bucket> bucket, std::string folder,
                                   std::shared_ptr<Meters> meters)
    : bucket_(std::move(bucket)),
      folder_(std::move(folder)),
      meters_(std::move(meters)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

CheckpointBucket::~CheckpointBucket() {
  bucket_->stop();
  thread_.request_stop();
  changed_.notify_all();
}

std::string CheckpointBucket::parts_list(CheckpointId id, StageIndex stage) const {
  return folder_ + "/" + to_string(id) + "." + std::to_string(stage) + ".parts.list";
}

std::string CheckpointBucket::pointer(CheckpointId id) const {
  return folder_ + "/" + to_string(id) + ".store";
}

std::int64_t CheckpointBucket::waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<std::int64_t>(tasks_.size());
}

Result<bool> CheckpointBucket::claim() const {
  const std::string path = folder_ + "/ckpt_store.id";
  std::string ours;
  std::ifstream(path) >> ours;
  const Status there = bucket_->check();
  if (!there.ok() && is_silence(there.error()) && !ours.empty()) return false;
  if (!there.ok()) return of_flag(there.error());
  const auto theirs = bucket_->get_text(kMarker);
  if (!theirs.ok() && theirs.error().code != Code::kNotFound) return of_flag(theirs.error());
  if (theirs.ok() && theirs.value() == ours + "\n") return true;
  if (theirs.ok()) {
    return Error{Code::kConflict,
                 bucket_->shown("") + " is used by the cluster " +
                     shown_text(theirs.value().substr(0, 32), false),
                 "--checkpoint-store",
                 "choose another prefix; if it is this cluster, put back from a backup, write that "
                 "name into " +
                     path};
  }
  if (ours.empty()) ours = new_name();
  const Status claimed = bucket_->put(kMarker, objects::body_of(ours + "\n"));
  if (!claimed.ok()) return of_flag(claimed.error());
  if (Status kept = write_file_durably(path, ours + "\n"); !kept.ok()) return kept.error();
  return true;
}

// An object of that size which says of itself that it is this file.
Result<bool> CheckpointBucket::has(const std::string& key, const FileEntry& file) const {
  const auto object = bucket_->head(key);
  if (!object.ok() && object.error().code == Code::kNotFound) return false;
  if (!object.ok()) return object.error();
  const auto sha256 = object.value().metadata.find(kShaHeader);
  return object.value().size == file.size && sha256 != object.value().metadata.end() &&
         sha256->second == file.sha256;
}

Result<std::unique_ptr<CheckpointBucket::Upload>> CheckpointBucket::begin(
    CheckpointId id, StageIndex stage, const std::vector<FileEntry>& files) {
  if (Status s = check_file_list(files); !s.ok()) return s.error();
  {
    const MutexLock lock(mutex_);
    if (!uploading_.insert({id, stage}).second) {
      return Error{Code::kConflict, to_string(id) + " is being uploaded already", "",
                   "wait for that upload to end"};
    }
  }
  std::unique_ptr<Upload> upload(new Upload(*this, id, stage));
  if (Status s = upload->take_stock(files); !s.ok()) return s.error();
  return upload;
}

Result<std::vector<PresignedRequest>> CheckpointBucket::requests_to_get(
    CheckpointId id, const std::vector<FileEntry>& files, Bytes from) const {
  std::vector<PresignedRequest> requests;
  Bytes begin;  // of the file, in the whole
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Bytes offset = std::max(Bytes(), from - begin);
    if (offset < files[i].size) {
      auto url = url_of(id, files[i]);
      if (!url.ok()) return url.error();
      requests.push_back({i, 0, offset, files[i].size - offset, std::move(url).value(), {}});
    }
    begin += files[i].size;
  }
  return requests;
}

Result<std::string> CheckpointBucket::url_of(CheckpointId id, const FileEntry& file) const {
  return bucket_->url_to_get(key_of(id, file.path), kGetLife);
}

Status CheckpointBucket::read(CheckpointId id, const FileEntry& file, Bytes from,
                              const objects::Client::Sink& sink) const {
  return bucket_->get(key_of(id, file.path),
                      {.from = from, .size = file.size - from, .whole = file.size}, sink);
}

// ---- as a shelf

Result<std::map<CheckpointId, bool>> CheckpointBucket::list() const {
  std::map<CheckpointId, bool> all;
  const auto note = [&](const std::string& key) -> bool* {
    const std::size_t slash = key.find('/');
    const auto id = parse_id<CheckpointTag>(key.substr(0, slash));
    return id && slash != key.npos ? &all[*id] : nullptr;
  };
  const Status listed = bucket_->list("ckpt_", [&](const objects::ObjectInfo& object) {
    bool* complete = note(object.key);
    if (complete != nullptr && object.key.ends_with(std::string("/") + kManifestFile))
      *complete = true;
    return true;
  });
  if (!listed.ok()) return listed.error();
  const auto uploads = bucket_->uploads("ckpt_");
  if (!uploads.ok()) return uploads.error();
  for (const auto& [key, upload] : uploads.value()) note(key);
  return all;
}

Result<CheckpointRecord> CheckpointBucket::manifest(CheckpointId id) const {
  const auto text = bucket_->get_text(key_of(id, kManifestFile));
  if (!text.ok()) return text.error();
  auto manifest = read_manifest(text.value());
  if (manifest.ok()) return manifest;
  Error error = manifest.error();
  error.field = bucket_->shown(key_of(id, kManifestFile));
  return error;
}

Status CheckpointBucket::verify(CheckpointId id, const std::vector<FileEntry>& files) const {
  for (const FileEntry& file : files) {
    const auto same = has(key_of(id, file.path), file);
    if (!same.ok()) return same.error();
    if (!same.value()) {
      return Error{Code::kDataLoss, "is missing, or another than was stored",
                   bucket_->shown(key_of(id, file.path)), ""};
    }
  }
  return {};
}

Status CheckpointBucket::prune(const std::set<CheckpointId>& wanted) {
  const auto all = list();
  if (!all.ok()) return all.error();
  for (const auto& [id, complete] : all.value()) {
    if (!wanted.contains(id)) remove(id);
  }
  return {};
}

// ---- what may wait

void CheckpointBucket::describe(const CheckpointRecord& stored) {
  const Status kept = write_file_durably(pointer(stored.id), shown(stored.id) + "\n");
  if (!kept.ok()) spdlog::warn("{}", to_string(kept.error()));  // a backup will name it as missing
  enqueue(stored.id, stored);
}

void CheckpointBucket::remove(CheckpointId id) { enqueue(id, id); }

void CheckpointBucket::enqueue(CheckpointId id, Task task) {
  {
    const MutexLock lock(mutex_);
    tasks_.insert_or_assign(id, std::move(task));  // a deletion takes the place of a manifest
  }
  changed_.notify_all();
}

void CheckpointBucket::run(const std::stop_token& stop) {
  Prng prng(static_cast<std::uint64_t>(steady_now().ns));
  Backoff pauses(kPauseFirst, kPauseMax);
  std::pair<CheckpointId, Task> next;
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [&]() SHOAL_REQUIRES(mutex_) {
        return !tasks_.empty() || stop.stop_requested();
      });
      if (tasks_.empty() || stop.stop_requested()) return;
      next = task_after(next.first);
    }
    const Status done = perform(next.second);
    if (!done.ok()) {
      spdlog::warn("{} in the object store: {}; it is tried again", to_string(next.first),
                   to_string(done.error()));
      if (!sleep_unless_stopped(pauses.next(prng), stop)) return;
      continue;
    }
    pauses.reset();
    const MutexLock lock(mutex_);
    const auto found = tasks_.find(next.first);
    if (found != tasks_.end() && found->second == next.second) tasks_.erase(found);
  }
}

// In turn, because one that fails stops no other of its kind.
std::pair<CheckpointId, CheckpointBucket::Task> CheckpointBucket::task_after(
    CheckpointId id) const {
  const auto describes = [](const auto& task) {
    return std::holds_alternative<CheckpointRecord>(task.second);
  };
  const bool only_manifests = std::ranges::any_of(tasks_, describes);
  const auto next = [&](auto begin) {
    return std::find_if(begin, tasks_.end(),
                        [&](const auto& task) { return !only_manifests || describes(task); });
  };
  const auto after = next(tasks_.upper_bound(id));
  return after == tasks_.end() ? *next(tasks_.begin()) : *after;
}

Status CheckpointBucket::perform(const Task& task) const {
  if (const auto* gone = std::get_if<CheckpointId>(&task))
    return bucket_->remove_all(key_of(*gone, ""));
  const auto& stored = std::get<CheckpointRecord>(task);
  const std::string key = key_of(stored.id, kManifestFile);
  const auto there = bucket_->head(key);
  if (there.ok()) return {};
  if (there.error().code != Code::kNotFound) return there.error();
  return bucket_->put(key, objects::body_of(to_manifest(stored)));
}

}  // namespace shoal::coordinator
