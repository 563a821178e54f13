#!/usr/bin/env bash
# Whether the boards that shoal.mirror fills can be read by their own packages, which come from PyPI into a virtual
# environment in the build folder: boards_check.sh [BUILD].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
environment=${1:-build}/boards-venv
if [[ ! -x $environment/bin/python ]]; then python3 -m venv "$environment"; fi
"$environment/bin/pip" install --quiet tensorboard wandb mlflow-skinny 'sqlalchemy<3' alembic
for board in tensorboard wandb mlflow; do
  PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" python/tests/boards_check.py \
    "BoardsCheck.test_$board"
done
