// What keeps the model that a program built on one host from being the one of another, in words
// for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "messages/tensor_shape.h"

namespace shoal {

// "head.weight has shape [64, 300] here and [32, 300] there; norm.bias is only here; …": at most
// ten of them, and how many more. Empty: values of one are values of the other, whatever their
// types are.
std::string differences(const std::vector<TensorShape>& here,
                        const std::vector<TensorShape>& there);

// "head.weight is BF16 here and F32 there; …": at most ten of the tensors that both have, and how
// many more. Initial values that are drawn in different types differ.
std::string type_differences(const std::vector<TensorShape>& here,
                             const std::vector<TensorShape>& there);

}  // namespace shoal
