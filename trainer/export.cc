// See export.h.
#include "trainer/export.h"

#include <iostream>

#include <nlohmann/json.hpp>

#include "base/number_text.h"

namespace shoal::trainer {

int export_model(const ExportOptions& options, bool json) {
  const auto done = export_checkpoint(options);
  if (!done) {
    std::cerr << "error: " << to_string(done.error()) << std::endl;
    return 1;
  }
  const std::string folder = std::filesystem::absolute(options.out).lexically_normal().string();
  if (json) {
    std::cout << nlohmann::ordered_json{{"folder", folder},
                                        {"files", done->files},
                                        {"bytes", done->bytes.count()}}
                     .dump(2)
              << std::endl;
  } else {
    std::cout << folder << std::endl;
    std::cerr << size_text(static_cast<double>(done->bytes.count())) << " in " << done->files
              << (done->files == 1 ? " file" : " files") << std::endl;
  }
  return std::cout.good() ? 0 : 1;
}

}  // namespace shoal::trainer
