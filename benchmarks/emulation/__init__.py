"""Code for Arm and RISC-V, run by QEMU on another processor; see docs/processors.md."""
