"""Code for Arm processors, run by QEMU on another one; see docs/processors.md."""
