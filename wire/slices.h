// Tensor memory as gRPC slices without a copy, and received messages as spans.
//
// A slice that gRPC was given may outlive its call: the transport keeps what it has not written
// yet. SlicePins counts the slices that pin somebody's memory, so that the owner of the memory
// can wait until nobody reads it any more.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include "base/time.h"
#include "threads/mutex.h"

namespace shoal::wire {

// Thread-safe. Must outlive its slices: call wait_returned() before the memory or the pins go.
class SlicePins {
 public:
  grpc::Slice pin(std::span<const std::byte> memory);
  int out() const;
  // False when slices are still out after `limit`.
  bool wait_returned(Duration limit);

 private:
  static void returned(void* pins);
  mutable Mutex mutex_;
  CondVar changed_;
  int out_ SHOAL_GUARDED_BY(mutex_) = 0;
};

// Shares the memory of a message for as long as it lives.
class Received {
 public:
  // False when the message cannot be read (it was compressed, or empty).
  bool take(const grpc::ByteBuffer& buffer);
  std::size_t size() const { return size_; }
  // Copies the first out.size() bytes; requires size() >= out.size().
  void copy_front(std::span<std::byte> out) const;
  // The message without its first `skip` bytes, valid while this lives.
  std::vector<std::span<const std::byte>> pieces(std::size_t skip) const;

 private:
  std::vector<grpc::Slice> slices_;
  std::size_t size_ = 0;
};

}  // namespace shoal::wire
