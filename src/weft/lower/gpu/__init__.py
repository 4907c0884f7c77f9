"""FUNMEM to IMP for devices behind queues: kernels, and the steps that launch them."""
