// The local parameters of a replica, as its outer loop sees them. An evaluation or a sample puts
// the anchor in their place for a while, and a reduce that reads its contribution from them
// (replica/core/outer_vectors.h) goes on reading what was put aside.
//
// One thread at a time, the compute thread's, except for read_part().
#pragma once

#include <span>
#include <vector>

#include "replica/core/local_parameters.h"
#include "threads/mutex.h"

namespace shoal::replica {

class HeldParameters final : public LocalParameters {
 public:
  explicit HeldParameters(LocalParameters& where) : where_(where) {}  // which outlives this

  // Copies them and writes `others`, until put_back(). Nothing else may be asked meanwhile.
  void put_aside(std::span<const float> others);
  void put_back();

  std::int64_t value_count() const override { return where_.value_count(); }
  void read_parameters(std::span<float> out) const override { where_.read_parameters(out); }
  void write_parameters(std::span<const float> in) override { where_.write_parameters(in); }
  bool reads_parts() const override { return where_.reads_parts(); }
  void read_part(std::int64_t first, std::span<float> out) const override;
  void visit_parameters(const Visit& visit) const override { where_.visit_parameters(visit); }
  void change_parameters(const Change& change) override { where_.change_parameters(change); }
  void read_gradient(std::span<float> out) const override { where_.read_gradient(out); }
  void clear_gradient() override { where_.clear_gradient(); }

 private:
  // How many threads are reading in a place. Who gives it up lets the others read elsewhere, and
  // waits for them.
  struct Readers {
    int count = 0;
  };
  void wait_for(const Readers& readers) SHOAL_REQUIRES(mutex_);

  LocalParameters& where_;
  std::vector<float> aside_;  // changed while nobody reads it
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool is_aside_ SHOAL_GUARDED_BY(mutex_) = false;
  mutable Readers in_place_ SHOAL_GUARDED_BY(mutex_), of_aside_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::replica
