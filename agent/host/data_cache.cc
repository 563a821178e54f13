#include "agent/host/data_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/sha256.h"
#include "job/data_rules.h"
#include "threads/file_content.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

// A name only once all of it is there.
bool write_file(const std::string& path, const std::string& content) {
  std::error_code failure;
  fs::create_directories(fs::path(path).parent_path(), failure);
  const std::string partial = path + ".new";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file.flush()) {
      fs::remove(partial, failure);
      return false;
    }
  }
  fs::rename(partial, path, failure);
  return !failure;
}

}  // namespace

Result<std::unique_ptr<DataCache>> DataCache::open(std::string folder, Bytes limit) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return disk_error("make the folder", folder, failure.value());
  std::unique_ptr<DataCache> cache(new DataCache(std::move(folder), limit));
  if (Status s = cache->take_stock(); !s.ok()) return s.error();
  return cache;
}

Status DataCache::take_stock() {
  struct Found {
    fs::file_time_type used;
    std::string path, name;
    Bytes size;
  };
  std::vector<Found> found;
  std::error_code failure;
  for (fs::recursive_directory_iterator at(folder_, failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code gone;
    if (!at->is_regular_file(gone)) continue;
    found.push_back({at->last_write_time(gone), at->path().string(), at->path().filename().string(),
                     Bytes(static_cast<std::int64_t>(at->file_size(gone)))});
  }
  if (failure) return disk_error("list the folder", folder_, failure.value());
  std::ranges::sort(found, std::greater{}, &Found::used);
  const MutexLock guard(mutex_);
  std::vector<Found> kept;
  for (Found& one : found) {
    const bool fits = used_ + one.size <= limit_ && is_sha256_hex(one.name);
    if (!fits) {
      fs::remove(one.path, failure);
      continue;
    }
    used_ += one.size;
    kept.push_back(std::move(one));
  }
  used_ = Bytes();
  for (auto one = kept.rbegin(); one != kept.rend(); ++one) remember(one->name, one->size);
  return {};
}

void DataCache::remember(const std::string& sha256, Bytes size) {
  forget(sha256);
  uses_.push_back(sha256);
  entries_[sha256] = {size, std::prev(uses_.end())};
  used_ += size;
}

void DataCache::forget(const std::string& sha256) {
  const auto entry = entries_.find(sha256);
  if (entry == entries_.end()) return;
  used_ -= entry->second.size;
  uses_.erase(entry->second.place);
  entries_.erase(entry);
}

// A reader that has such a file open keeps it to its end.
bool DataCache::make_room(Bytes wanted) {
  if (wanted > limit_) return false;
  while (used_ + wanted > limit_) {
    const std::string oldest = uses_.front();
    forget(oldest);
    std::error_code ignored;
    fs::remove(path_of(oldest), ignored);
  }
  return true;
}

std::optional<std::string> DataCache::get(const std::string& sha256) {
  {
    const MutexLock guard(mutex_);
    const auto entry = entries_.find(sha256);
    if (entry == entries_.end()) return std::nullopt;
    uses_.splice(uses_.end(), uses_, entry->second.place);
  }
  auto content = file_content(path_of(sha256));
  if (content && sha256_of(*content) == sha256) return content;
  const MutexLock guard(mutex_);
  if (!entries_.contains(sha256)) return std::nullopt;  // it had to go meanwhile
  ++damaged_;
  forget(sha256);
  std::error_code ignored;
  fs::remove(path_of(sha256), ignored);
  return std::nullopt;
}

// Written under the lock, so that the files are never larger than what is counted.
void DataCache::put(const std::string& sha256, const std::string& content) {
  const Bytes size(static_cast<std::int64_t>(content.size()));
  const MutexLock guard(mutex_);
  if (entries_.contains(sha256) || !make_room(size)) return;
  if (write_file(path_of(sha256), content)) remember(sha256, size);
}

Bytes DataCache::used() const {
  const MutexLock guard(mutex_);
  return used_;
}

std::int64_t DataCache::damaged() const {
  const MutexLock guard(mutex_);
  return damaged_;
}

}  // namespace shoal::agent
