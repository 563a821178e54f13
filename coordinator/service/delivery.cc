#include "coordinator/service/delivery.h"

#include <chrono>

namespace shoal::coordinator {

Delivery::Delivery(Store& store, Hooks hooks)
    : store_(store), hooks_(std::move(hooks)), thread_([this] { run(); }) {}

Delivery::~Delivery() {
  halt();
  {
    const MutexLock guard(mutex_);
    // The store calls back for every write it took; those calls must find this object.
    moved_.wait(mutex_, [&]() SHOAL_REQUIRES(mutex_) { return writes_durable_ == writes_issued_; });
    closing_ = true;
  }
  ready_.notify_all();
  thread_.join();
}

void Delivery::push(Effects effects) {
  Group group;
  for (Effect& effect : effects) {
    if (auto* persist = std::get_if<Persist>(&effect)) {
      if (!group.effects.empty()) enqueue(std::exchange(group, {}));
      group.records.push_back(std::move(persist->record));
    } else {
      group.effects.push_back(std::move(effect));
    }
  }
  if (!group.records.empty() || !group.effects.empty()) enqueue(std::move(group));
}

void Delivery::enqueue(Group group) {
  std::vector<Record> records = group.records;
  const bool writes = !records.empty();
  {
    const MutexLock guard(mutex_);
    moved_.wait(mutex_,
                [&]() SHOAL_REQUIRES(mutex_) { return waiting_.size() < kGroupsMax || halted_; });
    if (halted_) return;
    writes_issued_ += writes;
    waiting_.push_back({writes_issued_, std::move(group)});
  }
  if (writes) {
    store_.write(std::move(records), [this](const Status& status) { on_written(status); });
  } else {
    ready_.notify_one();
  }
}

void Delivery::on_written(const Status& status) {
  bool report = false;
  {
    const MutexLock guard(mutex_);
    ++writes_durable_;
    report = !status.ok() && !halted_;
    if (!status.ok()) halted_ = true;
    if (halted_) waiting_.clear();
    ready_.notify_one();
    moved_.notify_all();
  }
  if (report) hooks_.failed(status.error());
}

void Delivery::run() {
  MutexLock guard(mutex_);
  for (;;) {
    ready_.wait(mutex_, [&]() SHOAL_REQUIRES(mutex_) {
      return closing_ || (!waiting_.empty() && waiting_.front().after_write <= writes_durable_);
    });
    if (waiting_.empty()) return;  // closing
    Group group = std::move(waiting_.front().group);
    waiting_.pop_front();
    performing_ = true;
    guard.unlock();
    hooks_.perform(std::move(group));
    guard.lock();
    performing_ = false;
    moved_.notify_all();
  }
}

void Delivery::halt() {
  const MutexLock guard(mutex_);
  halted_ = true;
  waiting_.clear();
  moved_.notify_all();
  moved_.wait(mutex_, [&]() SHOAL_REQUIRES(mutex_) { return !performing_; });
}

bool Delivery::drain(Duration limit) {
  const MutexLock guard(mutex_);
  return moved_.wait_for(mutex_, std::chrono::nanoseconds(limit.ns),
                         [&]() SHOAL_REQUIRES(mutex_) { return waiting_.empty() && !performing_; });
}

}  // namespace shoal::coordinator
