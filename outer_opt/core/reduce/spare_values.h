// Blocks of values that sessions work in, one after the other: a session that takes them from the
// one before begins without page faults. Whoever runs the sessions keeps them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace shoal::outer_opt {

class SpareValues {
 public:
  using Block = std::unique_ptr<float[]>;

  // A block of `size` values, as they happen to be. Spare blocks of another size are freed.
  Block take(std::size_t size);
  void give_back(Block block) { blocks_.push_back(std::move(block)); }  // of the newest size
  void visit(const std::function<void(std::span<float> block)>& use);

 private:
  std::size_t size_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace shoal::outer_opt
