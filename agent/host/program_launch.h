// How the program of a job (trainer.kind = "python") is started: which file, by which interpreter,
// with what environment, and how it is confined.
//
// A program beneath --trainer-root is the operator's own and has all rights of the agent's user.
// One that was uploaded with its job (trainer.code) is confined (confinement.h): it reads the
// system, the interpreter, the data roots, its code and the checkpoints fetched for its job, and
// writes into a folder of its own and where its replica hands over checkpoints. Neither gets the
// tokens of the agent's environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/host/data_folder.h"
#include "agent/host/host_options.h"
#include "agent/host/trainer_process.h"

namespace shoal::agent {

// Where a bundle is unpacked: <data>/code/<64 hex characters>. `code` is TrainerSpec::code.
std::string code_folder(const std::string& data_folder, const std::string& code);

// What a program that runs in this slot has as its own: working folder, HOME and TMPDIR.
std::vector<std::string> scratch_folders(std::int32_t slot, const DataFolder& folder);

// Completes `process`, whose environment holds what trainers get. Makes the program's own folder.
// kNotFound: the program is not there.
Status prepare_program(const StartTrainer& start, const HostOptions& options,
                       const DataFolder& folder, ProcessOptions& process);

}  // namespace shoal::agent
