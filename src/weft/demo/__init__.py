"""The main job on real input: terrain analysis of a model larger than the memory limit."""
