// See blas.h.
#include "trainer/plain/blas.h"

#include <cstdlib>
#include <memory>

#include <dlfcn.h>

namespace shoal::trainer {
namespace {

std::string library_path(void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(info.dli_fname, nullptr),
                                                         &std::free);
  return real ? real.get() : info.dli_fname;
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH … SkylakeX MAX_THREADS=64" -> "OpenBLAS 0.3.21"
std::string openblas_name(void* config) {
  const std::string text = reinterpret_cast<const char* (*)()>(config)();
  const auto second_space = text.find(' ', text.find(' ') + 1);
  return text.substr(0, second_space);
}

Blas look_up() {
  void* symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  if (symbol == nullptr) return {"inside libtorch", false, nullptr};
  Blas found{"", false, reinterpret_cast<Sgemm>(symbol)};
  const std::string path = library_path(symbol);
  void* config = dlsym(RTLD_DEFAULT, "openblas_get_config");
  if (config != nullptr && path.find("openblas") != std::string::npos) {
    found.name = openblas_name(config);
  } else if (path.find("openblas") != std::string::npos) {
    found.name = "OpenBLAS";
  } else if (path.find("mkl") != std::string::npos || path.find("blis") != std::string::npos ||
             path.find("torch") != std::string::npos || path.find("atlas") != std::string::npos) {
    found.name = path;
  } else {
    found.name = "reference BLAS (" + path + ")";
    found.reference = true;
  }
  return found;
}

}  // namespace

const Blas& blas() {
  static const Blas found = look_up();
  return found;
}

void set_blas_threads(int threads) {
  for (const char* name : {"openblas_set_num_threads", "bli_thread_set_num_threads"}) {
    if (void* symbol = dlsym(RTLD_DEFAULT, name)) reinterpret_cast<void (*)(int)>(symbol)(threads);
  }
}

}  // namespace shoal::trainer
