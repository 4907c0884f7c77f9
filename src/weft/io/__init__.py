"""Where data comes from and goes to: `open.open_source` and `sinks.open_sink`."""
