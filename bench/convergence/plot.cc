// The plot of a campaign: hand-written SVG, so that it needs nothing and can be read in a diff.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/convergence/report.h"

namespace shoal::bench {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 56, kRight = 170, kTop = 20, kBottom = 44;
constexpr const char* kColors[] = {"#888888", "#1b1b1b", "#9ecae1", "#4292c6", "#084594",
                                   "#31a354", "#fdae6b", "#e6550d", "#8c2d04"};

struct Frame {
  double steps = 1, lowest = 0, highest = 1;
  double x(double step) const { return kLeft + step / steps * (kWidth - kLeft - kRight); }
  double y(double loss) const {
    return kTop + (highest - loss) / (highest - lowest) * (kHeight - kTop - kBottom);
  }
};

std::vector<const ArmResult*> drawn(const std::vector<ArmResult>& results) {
  std::vector<const ArmResult*> lines;
  for (const ArmResult& result : results) {
    if (result.arm.tuned_as == result.arm.name) lines.push_back(&result);
  }
  return lines;
}

double mean_at(const ArmResult& result, std::size_t point) {
  double sum = 0;
  for (const Trajectory& run : result.runs) {
    sum += run.curve[std::min(point, run.curve.size() - 1)].loss;
  }
  return sum / static_cast<double>(result.runs.size());
}

// From the second point on: the first one is far above everything that is to be compared.
Frame frame_of(const std::vector<const ArmResult*>& lines) {
  Frame frame{1, INFINITY, 0};
  for (const ArmResult* line : lines) {
    const auto& curve = line->runs[0].curve;
    frame.steps = std::max(frame.steps, static_cast<double>(curve.back().step.count()));
    for (std::size_t i = 1; i < curve.size(); ++i) {
      const double loss = mean_at(*line, i);
      if (!std::isfinite(loss)) continue;
      frame.lowest = std::min(frame.lowest, loss);
      frame.highest = std::max(frame.highest, loss);
    }
  }
  frame.lowest = std::floor(frame.lowest * 10) / 10;
  frame.highest = std::max(frame.lowest + 0.1, std::ceil(frame.highest * 10) / 10);
  return frame;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  char tag[160];
  std::snprintf(tag, sizeof tag, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  return tag + text + "</text>\n";
}

std::string grid_of(const Frame& frame) {
  std::string svg;
  for (double loss = frame.lowest; loss <= frame.highest + 1e-9; loss += 0.1) {
    char line[160], number[16];
    std::snprintf(line, sizeof line,
                  "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dddddd\" stroke-width=\"1\"/>\n", kLeft,
                  frame.y(loss), kWidth - kRight);
    std::snprintf(number, sizeof number, "%.1f", loss);
    svg += line + text_at(kLeft - 6, frame.y(loss) + 4, "end", number);
  }
  for (int i = 0; i <= 4; ++i) {
    const double step = frame.steps * i / 4;
    svg +=
        text_at(frame.x(step), kHeight - kBottom + 18, "middle", std::to_string(std::lround(step)));
  }
  svg += text_at(frame.x(frame.steps / 2), kHeight - 8, "middle", "inner steps of each worker");
  return svg + text_at(kLeft, 13, "start", "held-out loss, nats per byte");
}

std::string line_of(const Frame& frame, const ArmResult& result, const char* color) {
  std::string points;
  const auto& curve = result.runs[0].curve;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const double loss = mean_at(result, i);
    if (!std::isfinite(loss) || loss > frame.highest) continue;
    char point[48];
    std::snprintf(point, sizeof point, "%.1f,%.1f ",
                  frame.x(static_cast<double>(curve[i].step.count())), frame.y(loss));
    points += point;
  }
  return "<polyline fill=\"none\" stroke=\"" + std::string(color) +
         "\" stroke-width=\"2\" points=\"" + points + "\"/>\n";
}

std::string legend_of(const std::vector<const ArmResult*>& lines) {
  std::string svg;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double y = kTop + 16 + 18 * static_cast<double>(i);
    char mark[160];
    std::snprintf(mark, sizeof mark,
                  "<path d=\"M%.1f %.1fh16\" stroke=\"%s\" stroke-width=\"3\"/>\n",
                  kWidth - kRight + 10, y - 4, kColors[i % std::size(kColors)]);
    svg += mark + text_at(kWidth - kRight + 32, y, "start", lines[i]->arm.name);
  }
  return svg;
}

}  // namespace

std::string svg_of(const std::vector<ArmResult>& results) {
  const auto lines = drawn(results);
  const Frame frame = frame_of(lines);
  char head[256];
  std::snprintf(head, sizeof head,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                kWidth, kHeight);
  std::string svg = head + grid_of(frame);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg += line_of(frame, *lines[i], kColors[i % std::size(kColors)]);
  }
  return svg + legend_of(lines) + "</svg>\n";
}

}  // namespace shoal::bench
