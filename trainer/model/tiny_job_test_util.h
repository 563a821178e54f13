// The job of tests that train a real model for a few steps in this process.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "job/job_rules.h"
#include "job/job_spec.h"

namespace shoal::trainer {

// A llama of two layers on a text that is written to a file of this process.
inline JobSpec tiny_job(SyncAlgorithm algorithm, std::int64_t batch, Steps steps) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("shoal_tiny_job_" + std::to_string(::getpid()) + ".txt");
  if (!std::filesystem::exists(path)) {
    std::ofstream out(path);
    for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog " << i * i;
  }
  JobSpec spec = default_spec(algorithm);
  spec.name = "test";
  spec.model = {ModelFamily::kLlama, 2, 32, 2, 1, 0, 16, 256};
  spec.data.train = path.string();
  spec.train.batch = batch;
  spec.train.lr = 3e-3;
  spec.train.min_lr = 3e-4;
  spec.train.clip = 0.5;  // below what the first steps have
  spec.train.warmup = Steps(2);
  spec.train.steps = steps;
  return with_derived_fields(spec);
}

}  // namespace shoal::trainer
