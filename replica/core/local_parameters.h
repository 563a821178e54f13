// What the outer step needs of the trainer: the local parameters of a replica as one flat
// vector of float32, in an order that all replicas of a stage share. Each trainer has its own
// implementation (libtorch, a vector of the simulator, a study's small model).
//
// One thread at a time, except for read_part(). A call never fails: who computes reports the loss
// of its device itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace shoal::replica {

class LocalParameters {
 public:
  virtual ~LocalParameters() = default;

  virtual std::int64_t value_count() const = 0;
  // Spans of value_count() values.
  virtual void read_parameters(std::span<float> out) const = 0;
  virtual void write_parameters(std::span<const float> in) = 0;

  // The same vector without a copy of it, where the trainer can: in runs from the first value to
  // the last, each with the number of its first value. change_parameters() takes what `change` has
  // left in the runs. Here both go over a copy.
  using Visit = std::function<void(std::int64_t first, std::span<const float> run)>;
  using Change = std::function<void(std::int64_t first, std::span<float> run)>;
  virtual void visit_parameters(const Visit& visit) const;
  virtual void change_parameters(const Change& change);

  // Whether a part of the vector can be read by itself, while nothing changes it, by any thread and
  // by several at once: the values from `first` on, out.size() of them.
  virtual bool reads_parts() const { return false; }
  virtual void read_part(std::int64_t first, std::span<float> out) const;

  // With sync.algorithm = ddp inner steps change no parameter and add their gradients here instead:
  // the mean over all tokens since clear_gradient(), zeros without any. Others never call these.
  virtual void read_gradient(std::span<float> out) const = 0;
  virtual void clear_gradient() = 0;
};

}  // namespace shoal::replica
