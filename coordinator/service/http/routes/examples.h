// The jobs of examples/ as they were when this binary was built, to start a new job from.
// embed_examples.cmake writes the table.
#pragma once

#include <string_view>
#include <vector>

namespace shoal::coordinator::rest {

struct ExampleJob {
  std::string_view name;     // of the file, without its ending
  std::string_view summary;  // one sentence for people
  std::string_view toml;
};

const std::vector<ExampleJob>& example_jobs();

}  // namespace shoal::coordinator::rest
