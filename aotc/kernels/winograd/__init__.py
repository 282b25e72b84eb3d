"""Winograd's convolution as mathematics: its matrices, its weights, and it in NumPy.

How it is cut up is planned as other kernels are (`aotc.kernels.planning.winograd`).
"""
