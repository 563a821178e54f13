#include "messages/tensor_differences.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace shoal {
namespace {

constexpr std::size_t kNamedMax = 10;

using ByName = std::map<std::string_view, const TensorShape*>;

ByName by_name(const std::vector<TensorShape>& tensors) {
  ByName found;
  for (const TensorShape& tensor : tensors) found.emplace(tensor.name, &tensor);
  return found;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

std::string listed(const std::vector<std::string>& sentences) {
  std::string text;
  for (std::size_t i = 0; i < std::min(sentences.size(), kNamedMax); ++i) {
    text += (i == 0 ? "" : "; ") + sentences[i];
  }
  if (sentences.size() > kNamedMax) {
    text += "; and " + std::to_string(sentences.size() - kNamedMax) + " more";
  }
  return text;
}

// Both have the same names.
std::string first_out_of_order(const std::vector<TensorShape>& here,
                               const std::vector<TensorShape>& there) {
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].name == there[i].name) continue;
    return "parameter " + std::to_string(i) + " is " + here[i].name + " here and " + there[i].name +
           " there";
  }
  return here.size() == there.size() ? "" : "a parameter stands there twice";
}

}  // namespace

std::string differences(const std::vector<TensorShape>& here,
                        const std::vector<TensorShape>& there) {
  const ByName mine = by_name(here), others = by_name(there);
  std::vector<std::string> found;
  for (const TensorShape& tensor : here) {
    const auto other = others.find(tensor.name);
    if (other == others.end()) {
      found.push_back(tensor.name + " is only here");
    } else if (other->second->shape != tensor.shape) {
      found.push_back(tensor.name + " has shape " + text_of(tensor.shape) + " here and " +
                      text_of(other->second->shape) + " there");
    }
  }
  for (const TensorShape& tensor : there) {
    if (!mine.contains(tensor.name)) found.push_back(tensor.name + " is only there");
  }
  return found.empty() ? first_out_of_order(here, there) : listed(found);
}

std::string type_differences(const std::vector<TensorShape>& here,
                             const std::vector<TensorShape>& there) {
  const ByName others = by_name(there);
  std::vector<std::string> found;
  for (const TensorShape& tensor : here) {
    const auto other = others.find(tensor.name);
    if (other == others.end() || other->second->type == tensor.type) continue;
    found.push_back(tensor.name + " is " + tensor.type + " here and " + other->second->type +
                    " there");
  }
  return listed(found);
}

}  // namespace shoal
