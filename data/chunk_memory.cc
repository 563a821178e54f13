#include "data/chunk_memory.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace shoal::data {
namespace {

// Beyond the patience of any Read.
constexpr auto kWaitMost = std::chrono::minutes(30);

}  // namespace

ChunkMemory::ChunkMemory(Read read, Bytes most) : read_(std::move(read)), most_(most) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
}

ChunkMemory::~ChunkMemory() {
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ChunkMemory::has(std::int64_t number) const {
  const MutexLock guard(mutex_);
  return entries_.contains(number);
}

Result<Chunk> ChunkMemory::get(std::int64_t number) {
  {
    const MutexLock guard(mutex_);
    // Where the other reader fails, this one tries.
    const bool settled = changed_.wait_for(mutex_, kWaitMost, [&]() SHOAL_REQUIRES(mutex_) {
      const auto entry = entries_.find(number);
      return entry == entries_.end() || entry->second.chunk != nullptr;
    });
    const auto entry = entries_.find(number);
    if (settled && entry != entries_.end()) {
      uses_.splice(uses_.end(), uses_, entry->second.place);
      return entry->second.chunk;
    }
    entries_[number] = {};
  }
  return read_now(number);
}

// Its entry says that it is being read.
Result<Chunk> ChunkMemory::read_now(std::int64_t number) {
  auto read = read_(number);
  Result<Chunk> result =
      read ? Result<Chunk>(std::make_shared<const std::string>(std::move(read).value()))
           : Result<Chunk>(read.error());
  {
    const MutexLock guard(mutex_);
    if (result) keep(number, *result);
    if (!result) entries_.erase(number);
  }
  changed_.notify_all();
  return result;
}

void ChunkMemory::keep(std::int64_t number, Chunk chunk) {
  kept_ += Bytes(static_cast<std::int64_t>(chunk->size()));
  uses_.push_back(number);
  entries_[number] = {std::move(chunk), std::prev(uses_.end())};
  while (kept_ > most_ && uses_.size() > 1) {
    const auto oldest = entries_.find(uses_.front());
    kept_ -= Bytes(static_cast<std::int64_t>(oldest->second.chunk->size()));
    entries_.erase(oldest);
    uses_.pop_front();
  }
}

void ChunkMemory::read_ahead(const std::vector<std::int64_t>& numbers) {
  {
    const MutexLock guard(mutex_);
    for (const std::int64_t number : numbers) {
      const bool waits = std::ranges::find(ahead_, number) != ahead_.end();
      if (!waits && !entries_.contains(number)) ahead_.push_back(number);
    }
    while (ahead_.size() > kAheadMax) ahead_.pop_front();
  }
  changed_.notify_all();
}

void ChunkMemory::run() {
  for (;;) {
    std::int64_t number = 0;
    {
      const MutexLock guard(mutex_);
      changed_.wait(mutex_, [&]() SHOAL_REQUIRES(mutex_) { return stopping_ || !ahead_.empty(); });
      if (stopping_) return;
      number = ahead_.front();
      ahead_.pop_front();
      if (entries_.contains(number)) continue;
      entries_[number] = {};
    }
    (void)read_now(number);
  }
}

}  // namespace shoal::data
