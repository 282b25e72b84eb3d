"""What code runs on: targets, processors, devices and GPUs."""
