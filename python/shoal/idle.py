"""`shoal-trainer` of a wheel: it measures the device for its agent, and is there until a job's own
program takes its place. It has no models: jobs with trainer.kind = "builtin" need the C++ trainer."""

import shoal


def main():
    with shoal.join():  # returns with a job, or not at all
        raise shoal.Error(
            "this agent's Shoal was installed from a wheel, which trains programs only (set trainer.kind "
            "= \"python\", or install shoal-trainer and start the agent with --trainer)")


if __name__ == "__main__":
    main()
