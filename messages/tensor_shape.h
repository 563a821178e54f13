// What the model of a program is made of: names, shapes and types, as a replica says them before it
// loads its state. What two such lists differ in, in words, is in tensor_differences.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"

namespace shoal {

// One tensor of a program's model whose values travel, as `model.named_parameters()` has it.
struct TensorShape {
  std::string name;                 // "blocks.0.attn.weight"
  std::vector<std::int64_t> shape;  // none: a single value
  std::string type;                 // on its device, "F32"; hosts may differ in it
  bool operator==(const TensorShape&) const = default;
};
inline constexpr std::size_t kTensorNameBytesMax = 200;
inline constexpr std::size_t kTensorTypeBytesMax = 16;
inline constexpr std::size_t kTensorDimensionsMax = 16;
constexpr auto fields_of(Of<TensorShape>) {
  using T = TensorShape;
  return fields(field<&T::name>(at_most(kTensorNameBytesMax)),
                field<&T::shape>(at_most(kTensorDimensionsMax)),
                field<&T::type>(at_most(kTensorTypeBytesMax)));
}

// Tensors of one model: 10,000 take about 450 kB on the wire, said once per load.
inline constexpr std::size_t kTensorsMax = 10'000;

}  // namespace shoal
