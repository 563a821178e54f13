#!/bin/sh
# The trainer of a wheel (shoal/idle.py), by the interpreter of the environment.
exec "${SHOAL_PYTHON:-python3}" -m shoal.idle "$@"
