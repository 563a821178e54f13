#include "agent/host/cpu_load.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "agent/host/host_memory.h"

namespace shoal::agent {
namespace {

constexpr double kShareStep = 0.05;
constexpr double kMemoryStep = 64 << 20;  // bytes
constexpr double kCelsiusStep = 2;
constexpr double kMilli = 1e-3;  // the kernel tells thousandths of a degree
constexpr double kCelsiusMax = 200;

double rounded(double value, double step) { return std::round(value / step) * step; }

Bytes rounded(Bytes bytes) {
  return Bytes(static_cast<std::int64_t>(rounded(static_cast<double>(bytes.count()), kMemoryStep)));
}

double share(std::int64_t part, std::int64_t whole) {
  const double value = static_cast<double>(part) / static_cast<double>(whole);
  return std::clamp(rounded(value, kShareStep), 0.0, 1.0);
}

}  // namespace

// "cpu  user nice system idle iowait irq softirq steal …": proc(5).
std::optional<CpuLoad::Ticks> CpuLoad::read_ticks() const {
  std::ifstream file(root_ + "/proc/stat");
  std::string word;
  if (!(file >> word) || word != "cpu") return std::nullopt;
  std::int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;
  if (!(file >> user >> nice >> system >> idle >> wait >> irq >> soft >> stolen)) {
    return std::nullopt;
  }
  const std::int64_t all = user + nice + system + idle + wait + irq + soft + stolen;
  return Ticks{all, idle + wait, stolen, 0};
}

double CpuLoad::hottest() const {
  double most = 0;
  std::error_code error;
  for (const auto& zone :
       std::filesystem::directory_iterator(root_ + "/sys/class/thermal", error)) {
    if (!zone.path().filename().string().starts_with("thermal_zone")) continue;
    std::ifstream file(zone.path() / "temp");
    double milli = 0;
    if (file >> milli && milli * kMilli < kCelsiusMax) most = std::max(most, milli * kMilli);
  }
  return rounded(most, kCelsiusStep);
}

DeviceSample CpuLoad::sample(Bytes here, std::int64_t own_ticks) {
  DeviceSample sample{.answer = DeviceAnswer::kWhole};
  const std::vector<MemoryLevel> levels = memory_levels(root_);
  std::optional<Ticks> now = read_ticks();
  if (now) now->own = own_ticks;
  if (!now || levels.empty()) {
    sample.answer = DeviceAnswer::kPartial;
    sample.error = now ? "the memory of the host cannot be read" : "/proc/stat cannot be read";
  }
  // Counters of a kernel may go backwards; such a span tells nothing.
  if (now && before_ && now->all > before_->all && now->idle >= before_->idle &&
      now->stolen >= before_->stolen) {
    const std::int64_t span = now->all - before_->all;
    const std::int64_t idle = std::min(span, now->idle - before_->idle);
    const std::int64_t stolen = now->stolen - before_->stolen;
    const std::int64_t own = std::max<std::int64_t>(0, now->own - before_->own);
    sample.use = DeviceUse{.busy = share(span - idle, span), .stolen = share(stolen, span)};
    const auto others = static_cast<double>(span - idle - stolen - own) / static_cast<double>(span);
    sample.use->busy_elsewhere =
        std::clamp(rounded((others + wanted_ - 1) / wanted_, kShareStep), 0.0, 1.0);
  }
  before_ = now;
  if (!levels.empty()) {
    if (!sample.use) sample.use = DeviceUse{};
    const Bytes used = levels.front().used;
    sample.use->used_here = rounded(std::min(here, used));
    sample.use->used_elsewhere = rounded(used - std::min(here, used));
  }
  if (const double celsius = hottest(); celsius > 0) sample.climate = DeviceClimate{celsius};
  return sample;
}

}  // namespace shoal::agent
