"""Machines that code runs on: targets, processors, devices and GPUs."""
