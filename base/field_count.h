// Counts the members of a class, private ones included, for its list of fields (base/fields.h). A
// structured binding with another number of names does not compile: "decomposes into 12 elements".
// The class befriends FieldAccess, has no base class and at most 16 members; one with more groups
// them in structs, which have lists of their own.
#pragma once

#include <cstddef>

namespace shoal {

class FieldAccess {
 public:
  // True, or it does not compile.
  template <typename T, std::size_t kCount>
  static constexpr bool has() {
    return sizeof(bind<kCount>(static_cast<T*>(nullptr))) > 0;
  }

 private:
  template <std::size_t kCount, typename T>
  static constexpr auto bind(T* object) {
    static_assert(kCount <= 16, "a class has at most 16 members");
#define SHOAL_BIND(count, ...)                    \
  if constexpr (kCount == count) [[maybe_unused]] \
    auto& [__VA_ARGS__] = *object;
    SHOAL_BIND(1, a)
    SHOAL_BIND(2, a, b)
    SHOAL_BIND(3, a, b, c)
    SHOAL_BIND(4, a, b, c, d)
    SHOAL_BIND(5, a, b, c, d, e)
    SHOAL_BIND(6, a, b, c, d, e, f)
    SHOAL_BIND(7, a, b, c, d, e, f, g)
    SHOAL_BIND(8, a, b, c, d, e, f, g, h)
    SHOAL_BIND(9, a, b, c, d, e, f, g, h, i)
    SHOAL_BIND(10, a, b, c, d, e, f, g, h, i, j)
    SHOAL_BIND(11, a, b, c, d, e, f, g, h, i, j, k)
    SHOAL_BIND(12, a, b, c, d, e, f, g, h, i, j, k, l)
    SHOAL_BIND(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
    SHOAL_BIND(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
    SHOAL_BIND(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
    SHOAL_BIND(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
#undef SHOAL_BIND
    return true;
  }
};

}  // namespace shoal
