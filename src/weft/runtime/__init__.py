"""Running compiled code: devices, threads, memory, the executor. Text and bytes, no IR."""
