"""`shoal-trainer` of a wheel: it measures the device for its agent, and is there until a job's own
program takes its place. It has no models: jobs with trainer.kind = "builtin" need the C++ trainer."""

import os
import sys

import shoal

_NO_MODELS = ("error: this installation of Shoal is a wheel, which has no C++ trainer\n"
              "hint: run this command where shoal-trainer is, from a build or the Debian packages; load the "
              "checkpoint of a program with shoal.load_checkpoint()")


def main():
    if not os.environ.get("SHOAL_TRAINER_SOCKET"):  # `shoal generate`, `shoal checkpoint export`
        sys.exit(_NO_MODELS)
    with shoal.join():  # returns with a job, or not at all
        raise shoal.Error(
            "this agent's Shoal was installed from a wheel, which trains programs only (set trainer.kind "
            "= \"python\", or install shoal-trainer and start the agent with --trainer)")


if __name__ == "__main__":
    main()
