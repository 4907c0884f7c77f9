"""What the accesses of a program need of memory: the fewest bytes to transfer, and where they go.

After section 4 of R. Garg and J. N. Amaral, *A Compilation Framework to Execute Python
Numerical-Intensive Applications in a Hybrid CPU-GPU Execution Environment* (2012).
"""
