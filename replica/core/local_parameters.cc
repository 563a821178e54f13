#include "replica/core/local_parameters.h"

#include <vector>

#include "base/check.h"

namespace shoal::replica {

void LocalParameters::visit_parameters(const Visit& visit) const {
  std::vector<float> values(static_cast<std::size_t>(value_count()));
  read_parameters(values);
  visit(0, values);
}

void LocalParameters::change_parameters(const Change& change) {
  std::vector<float> values(static_cast<std::size_t>(value_count()));
  read_parameters(values);
  change(0, values);
  write_parameters(values);
}

void LocalParameters::read_part(std::int64_t, std::span<float>) const {
  SHOAL_CHECK(false, "these parameters have no parts");
}

}  // namespace shoal::replica
