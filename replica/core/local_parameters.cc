#include "replica/core/local_parameters.h"

#include <vector>

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

}  // namespace shoal::replica
