// A visitor for std::visit made of lambdas, one per alternative.
#pragma once

namespace shoal {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>  // clang 14 needs to be told
Overloaded(Functions...)->Overloaded<Functions...>;

}  // namespace shoal
