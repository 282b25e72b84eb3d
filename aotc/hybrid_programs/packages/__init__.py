"""Packages of hybrid functions: their Python, and a bundle of their regions."""
